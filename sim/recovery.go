package sim

import (
	"slices"

	"cke"
)

// wasMeanwhile notes a write that was acknowledged while members are being stopped for a recovery.
func (c *checker) wasMeanwhile(by *member, value string) {
	records := c.world.store.records
	if len(records) == 0 {
		return
	}
	r := records[len(records)-1]
	stops := slices.ContainsFunc(r.Steps, func(s cke.StepRecord) bool { return s.Name == "fence" })
	if r.Operation != "begin-recovery" || r.State != cke.RecordRunning || !stops {
		return
	}
	if c.recovery != r.ID {
		c.recovery, c.meanwhile = r.ID, nil
	}
	c.meanwhile = append(c.meanwhile, value)
	c.taken.acknowledges(value, c.votingOf(by))
}

// copyStarts observes that the start of what a recovery continues from goes on record: since its members were stopped the cluster
// acknowledged nothing, and the survivor got nothing, that is not in it.
func (c *checker) copyStarts(before, after cke.Identity) {
	inc := after.Incarnation
	if before.Started() || !after.Started() || inc == nil || inc.Restore == nil || inc.State != cke.Restoring {
		return
	}
	o := inc.Restore.Order
	if o.Survivor == "" {
		return
	}
	since := c.lost[min(c.begun, len(c.lost)):]
	for _, j := range after.Superseded() {
		if n := c.world.at(j.Node.Address); j.Node.Name() == o.Survivor && n != nil && n.volumes[j.Volume] != nil && n.volumes[j.Volume].wal != nil {
			since = slices.Concat(since, n.volumes[j.Volume].wal.puts())
		}
	}
	for _, value := range since {
		if !slices.Contains(c.world.states[inc.Restore.Snapshot.Digest], value) && !c.taken.excuses(c.taken.by[value]) {
			c.violated("a recovery lost %s, which was written while it waited", value)
		}
	}
}

// recovers observes a recovery: a cluster that acknowledges writes while its members are stopped has its quorum, and nobody said
// that it may lose them. Members on machines that were called destroyed are an operator's word.
func (c *checker) recovers(inc *cke.Incarnation) {
	records := c.world.store.records
	if o := inc.Restore.Order; o.Survivor == "" || len(records) == 0 || records[len(records)-1].ID != c.recovery {
		return
	}
	for _, value := range c.meanwhile {
		if !slices.Contains(c.world.states[inc.Restore.Snapshot.Digest], value) && !c.taken.excuses(c.taken.by[value]) {
			c.violated("a recovery lost %s, which was acknowledged while it stopped members", value)
		}
	}
}
