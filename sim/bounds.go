package sim

import (
	"slices"
	"strings"
	"time"

	"cke"
)

// Bounds of what daemons may leave behind, and of how often they may do the same thing while nothing else happens.
const (
	// calmRepeats is how often an operation may complete for one reason in a calm time, with one more for each calmEvery.
	calmRepeats = 14
	calmEvery   = 9 * time.Minute
	// learnerVolumes is how many volumes of learners that never voted a node may carry.
	learnerVolumes = 10
)

// repetition is an operation that completes again and again for one reason while nothing else happens.
type repetition struct {
	count, happened int
	since           time.Time
}

// endsAFailure reports whether r takes back what an operation left that failed right before, as a bootstrap, or a restart whose stop was not
// finished: it is as often as that fails, whose pauses grow.
func (c *checker) endsAFailure(r cke.Record) bool {
	records := c.world.store.records
	i := slices.IndexFunc(records, func(o cke.Record) bool { return o.ID == r.ID })
	if i <= 0 || records[i-1].State != cke.RecordFailed {
		return false
	}
	before := records[i-1].Operation
	return r.Operation == "abandon-bootstrap" && before == "bootstrap" || r.Operation == "keep-running" && before == "restart-member"
}

// wasRecorded judges that an operation completed: one that completes again and again has no effect that lasts.
func (c *checker) wasRecorded(by *Daemon, r cke.Record) {
	if r.State != cke.RecordCompleted || r.Task != "" || r.Operation == "compare-data" || c.endsAFailure(r) {
		return
	}
	key := r.Operation + " " + strings.Join(r.Targets, ",") + ": " + r.Reason
	if c.repeats == nil {
		c.repeats = map[string]repetition{}
	}
	now, again := c.world.now(), c.repeats[key]
	if happened := by.happened(); again.count == 0 || again.happened != happened {
		again = repetition{happened: happened, since: now}
	}
	again.count++
	c.repeats[key] = again
	if again.count > calmRepeats+int(now.Sub(again.since)/calmEvery) {
		c.violated("%s is repeated without end", key)
	}
}

// wasMade judges that a node gets a volume: those of learners that never voted are not piled up on it.
func (c *checker) wasMade(n *Node) {
	ended := 0
	for _, j := range c.world.store.identity.Ended {
		if v := n.volumes[j.Volume]; v != nil && j.Copied() && !j.KeepUntil.IsZero() {
			ended++
		}
	}
	if ended > learnerVolumes {
		c.violated("%d volumes of learners that never voted are left on %s", ended, n.name)
	}
}

// staysBounded judges what is on record of memberships and lives.
func (c *checker) staysBounded(id cke.Identity) {
	gone := 0
	for _, j := range id.Ended {
		if !j.RemovedAt.IsZero() {
			gone++
		}
	}
	switch inc := id.Incarnation; {
	case gone > cke.KeptTombstones, len(id.Ended) > cke.KeptEnded:
		c.violated("%d ended memberships are on record, %d of them without a volume", len(id.Ended), gone)
	case inc != nil && max(len(inc.Previous), len(inc.Replaced)) > cke.KeptLives:
		c.violated("%d abandoned and %d replaced incarnations are on record", len(inc.Previous), len(inc.Replaced))
	}
}

// DiscardLimits lets the node's engine create containers without the limits that are asked for, with a warning, as on a kernel
// without the memory cgroup.
func (n *Node) DiscardLimits(discard bool) {
	n.change("engine discards limits: "+map[bool]string{true: "yes", false: "no"}[discard], func() { n.discards = discard })
}
