package sim

import (
	"slices"
	"time"

	"cke"
)

// When an entry of a queue gets its turn. A turn is judged by what its daemon knew when it decided: what operators and other nodes do
// meanwhile is not held against it.

// queuesKnown is what a daemon could know of the queues as it read the store.
type queuesKnown struct {
	at, host time.Time // of the world, and of the daemon's host
	asked    cke.Requests
	classes  map[string]int // of the nodes with entries, by address
}

// agree forgets which classes changed until now.
func (k queuesKnown) agree(now queuesKnown) {
	for address, class := range k.classes {
		if now.classes[address] != class {
			k.classes[address] = cannotTell
		}
	}
}

// Classes of nodes, in the order in which they reboot.
const (
	carriesNone = iota
	follows
	leadsNow
	cannotTell // nothing follows from its place
)

// knowsQueues is what a daemon can know now; the zero value: no queue has an entry.
func (d *Daemon) knowsQueues() (k queuesKnown) {
	w := d.world
	asked := w.store.asked()
	if len(asked.Queued()) == 0 {
		return k
	}
	k = queuesKnown{at: w.now(), host: d.host(), asked: asked, classes: map[string]int{}}
	now := w.standing()
	for _, e := range asked.Queued() {
		k.classes[e.Address] = w.classOf(e, now)
	}
	return k
}

// classOf is where a node is in the order of its queue, if it could go down now as far as its own state matters.
func (w *World) classOf(e cke.Entry, now standing) int {
	n := w.at(e.Address)
	d, declared := w.store.spec.Cluster.Node(e.Address)
	if n == nil || !declared || !now.quorate || n.trouble(d) != nil || n.frozen || n.hung || n.slow > 0 {
		return cannotTell
	}
	class := carriesNone
	for _, c := range n.sorted() {
		if c.Cluster != w.cluster {
			return cannotTell
		}
	}
	for _, j := range w.store.identity.Joins {
		if j.Node.Name() == e.Node && class == carriesNone {
			class = cannotTell // until it is seen to serve
		}
	}
	for _, l := range now.list {
		switch {
		case !n.hosts(l.peer):
		case l.learner || !now.runs(l.id) || !w.endpoint(l.client).Linearizable:
			return cannotTell
		case now.leader != nil && now.leader.id == l.id:
			class = leadsNow
		default:
			class = follows
		}
	}
	return class
}

// never is how long ago is what did not happen, or by a clock that was wrong then.
const never = time.Duration(1 << 62)

// hasTurn judges that an entry gets its turn.
func (w *World) hasTurn(d *Daemon, e cke.Entry) {
	k, kind := d.queues, e.Kind()
	if w.late || k.at.IsZero() || w.store.spec.Generation != d.decidedOn || d.host().Sub(k.host) != w.now().Sub(k.at) {
		return
	}
	was, there := k.asked.Entry(e.ID)
	if !there {
		return
	}
	spec, stored := w.store.spec.Wanted(), w.store.asked()
	no := func(format string, args ...any) {
		w.violated("the "+string(kind)+" of "+e.Node+" has its turn "+format, args...)
	}
	ago := func(at time.Time) time.Duration {
		if since := d.host().Sub(at); since >= 0 && !at.IsZero() {
			return since
		}
		return never // the clock was wrong then
	}
	if k.asked.Queue(kind).Disabled && stored.Queue(kind).Disabled {
		no("though the queue is disabled")
	}
	if w.Closed != nil && kind == cke.RebootQueue && spec.Reboot.Window != (cke.Window{}) && w.Closed(spec.Reboot.Window, k.host, d.host()) {
		no("outside of the window")
	}
	turn, _ := spec.Turn(was, cke.Node{Address: e.Address})
	if e.Agent != "" && !spec.Reboot.FleetLock {
		no("though the cluster file does not say reboot.fleet_lock")
	}
	if was.Tries() > 0 && ago(was.Since) < time.Duration(turn.Interval) {
		no("%v after an attempt failed, not after %v", ago(was.Since), turn.Interval.Short())
	}
	if kind == cke.RepairQueue && was.Attempt == 0 {
		for _, h := range k.asked.Repairs.History {
			if h.Address == e.Address && !h.StartedAt.IsZero() && ago(h.EndedAt) < time.Duration(spec.Repair.Cooldown) {
				no("within the cooldown: %v after the last one", ago(h.EndedAt))
			}
		}
	}
	if class := k.classes[e.Address]; class == follows || class == leadsNow {
		w.calmBefore(k, e, spec, ago, no)
		if kind == cke.RebootQueue && !d.surprised() && e.Agent == "" && !was.Tried() {
			w.inOrder(k, e, class, no)
			w.afterRepairs(k, e, class, ago, no)
		}
	}
}

// calmBefore judges that nothing failed without an operator's answer, and that the cluster has settled since the last turn.
func (w *World) calmBefore(k queuesKnown, e cke.Entry, spec cke.Cluster, ago func(time.Time) time.Duration, no func(string, ...any)) {
	settle := time.Duration(spec.Reboot.Settle)
	for _, h := range slices.Concat(k.asked.Reboots.History, k.asked.Repairs.History) {
		if !h.StartedAt.IsZero() && ago(h.EndedAt) < settle {
			no("%v after that of %s, not after %v", ago(h.EndedAt), h.Node, settle)
		}
	}
	for _, o := range k.asked.Queued() {
		if (o.State == cke.EntryQueued || o.State == cke.EntryFailed) && !o.StartedAt.IsZero() && ago(o.Since) < settle {
			no("%v after an attempt of %s failed, not after %v", ago(o.Since), o.Node, settle)
		}
		stored := w.store.asked()
		if now, there := stored.Entry(o.ID); there && o.Blocks() && now.Blocks() && o.Address != e.Address {
			no("though that of %s failed, and no operator has decided", o.Node)
		}
	}
}

// inOrder judges that no node waits that is before this one in the order, and could go down as well.
func (w *World) inOrder(k queuesKnown, e cke.Entry, class int, no func(string, ...any)) {
	if len(k.asked.Drains) > 0 {
		return
	}
	for _, o := range k.asked.Reboots.Entries {
		if o.ID == e.ID || o.State != cke.EntryQueued || o.Tried() || o.Agent != "" || k.asked.Repairs.Of(o.Address) != nil || w.notDrained(o) {
			continue
		}
		if k.classes[o.Address] < class {
			no("before that of %s, which %s", o.Node, map[int]string{carriesNone: "has no member", follows: "does not lead"}[k.classes[o.Address]])
		}
	}
}

// afterRepairs judges that no repair waits that is before a reboot of its class, and could be started as well: of all classes but one the
// zone of the last reboot comes first, then the repairs.
func (w *World) afterRepairs(k queuesKnown, e cke.Entry, class int, ago func(time.Time) time.Duration, no func(string, ...any)) {
	zone := func(address string) string { n, _ := w.store.spec.Cluster.Node(address); return n.Zone }
	if h := k.asked.Reboots.History; len(k.asked.Drains) > 0 || len(h) > 0 && zone(h[len(h)-1].Address) == zone(e.Address) {
		return
	}
	for _, o := range k.asked.Repairs.Entries {
		if k.classes[o.Address] == class && !o.Tried() && !w.notDrained(o) && w.mayRepair(k.asked.Repairs, o, ago) {
			no("before the repair of %s", o.Node)
		}
	}
}

// mayRepair reports whether a queued repair may be started by the limits of the cluster file.
func (w *World) mayRepair(q cke.Queue, e cke.Entry, ago func(time.Time) time.Duration) bool {
	spec := w.store.spec.Wanted()
	declared, _ := w.store.spec.Cluster.Node(e.Address)
	_, known := spec.Turn(e, declared)
	started, under := 0, 0
	for _, o := range q.Entries {
		if o.Active() {
			under++
		}
		if ago(o.StartedAt) < 24*time.Hour || o.State == cke.EntryLeased {
			started++
		}
	}
	for _, o := range q.History {
		if o.StartedAt.IsZero() {
			continue
		}
		if ago(o.StartedAt) < 24*time.Hour || ago(o.StartedAt) == never {
			started++
		}
		if since := ago(o.EndedAt); o.Address == e.Address && (since < time.Duration(spec.Repair.Cooldown) || since == never) {
			return false
		}
	}
	return known && e.State == cke.EntryQueued && !q.Disabled && under == 0 && started < spec.Repair.PerDay
}

// givesUp judges that an attempt whose command ended well is not given up before its machine had the time to return.
func (w *World) givesUp(d *Daemon, was cke.Entry) {
	declared, there := w.store.spec.Cluster.Node(was.Address)
	turn, known := w.store.spec.Wanted().Turn(was, declared)
	if w.late || !there || !known || was.Agent != "" || was.Canceled || was.CommandEndedAt.IsZero() || was.Error != "" || w.store.spec.Generation != d.decidedOn {
		return
	}
	if since := d.host().Sub(was.CommandEndedAt); since >= 0 && since < time.Duration(turn.BootTimeout) {
		w.violated("attempt %d to %s %s is given up %v after its command, not after %v", was.Attempt, was.Kind(), was.Node, since, turn.BootTimeout.Short())
	}
}

// notDrained reports whether a node could not be drained once.
func (w *World) notDrained(e cke.Entry) bool {
	return slices.ContainsFunc(w.store.records, func(r cke.Record) bool {
		return r.Operation == "drain-for-"+string(e.Kind()) && slices.Contains(r.Targets, e.Node) && r.State != cke.RecordCompleted && r.State != cke.RecordRunning
	})
}

// triesAgain judges that a command is started no more often than the cluster file says.
func (w *World) triesAgain(d *Daemon, run cke.CommandRun) {
	e, there := w.store.requests.Entry(run.Entry)
	declared, _ := w.store.spec.Cluster.Node(run.Node.Address)
	turn, known := w.store.spec.Wanted().Turn(e, declared)
	if tries := run.Attempt - e.Earlier; there && known && !w.late && w.store.spec.Generation == d.decidedOn && tries > turn.Attempts {
		w.violated("attempt %d to %s %s follows, %d may be made", tries, e.Kind(), e.Node, turn.Attempts)
	}
}
