package strategy

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"cke"
	"cke/op"
)

// queueNext: a node of a queue that is first in order and may go down is drained, and then rebooted or repaired.
func queueNext(in *Input) verdict {
	all := in.Requests.Queued()
	if len(all) == 0 || !in.Formed() {
		return pass()
	}
	for _, r := range all {
		n, declared := in.nodeOf(r)
		if t, known := in.Spec.Turn(r, n); declared && known && r.State == cke.EntryLeased && !r.Canceled {
			if v := in.runEntry(r, n, t, false); v.given() {
				return v
			}
		}
	}
	next, waits, failed := in.nextEntry()
	if next == nil {
		order := in.queueOrder()
		if len(order) == 0 {
			return pass()
		}
		v := note(fmt.Sprintf("%s waits: %s", order[0].What(), waits[order[0].ID])).upkeep().blocked(failed)
		if left := in.settles(in.settle()); left > 0 {
			v = v.again(left)
		}
		return v
	}
	n, _ := in.nodeOf(*next)
	t, _ := in.Spec.Turn(*next, n)
	o := op.LeaseEntry{Entry: *next, Silent: !in.answers(n), Node: in.node(n).Node}
	j, carries := in.Identity.On(n)
	if t.Boots && !o.Silent && next.Kind() == cke.RebootQueue { // a repair is for machines that may not be able to
		if o.Image = in.Spec.Options.Etcd.Image; carries {
			o.Image = j.Etcd.Image
		}
	}
	switch {
	case !carries:
		return upkeepBy(o, next.Node+" carries no member, and may be "+string(next.Kind())+"ed")
	case !t.Lease:
		return upkeepBy(o, "the others serve without the member of "+next.Node+", which runs during this step")
	}
	o.Drain = in.leaseFor(*next, n, t)
	o.Successor = in.successorOf(j)
	if !o.Silent {
		j = in.reached(j)
		o.Drain.Join = &j
	}
	return upkeepBy(o, fmt.Sprintf("%s may be %sed: the others serve without its member", next.Node, next.Kind()))
}

// byQueue names the queue of an entry as the holder of a lease.
func byQueue(r cke.Entry) string { return "the " + string(r.Kind()) + " queue" }

// nextEntry is the entry whose node may go down now; nil: none may. It also returns what each queued one waits for, by id, and the
// problems of those that could not be drained, and are held back for that.
func (in *Input) nextEntry() (next *cke.Entry, waits map[string]string, failed []cke.Problem) {
	waits = map[string]string{}
	active := map[cke.QueueKind]int{}
	for _, r := range in.Requests.Queued() {
		if r.Active() {
			active[r.Kind()]++
		}
	}
	most := map[cke.QueueKind]int{cke.RebootQueue: in.Spec.Reboot.MaxConcurrent, cke.RepairQueue: in.Spec.Repair.MaxConcurrent}
	first := "" // of those with members
	for _, r := range in.queueOrder() {
		n, _ := in.nodeOf(r)
		j, _ := in.Identity.On(n)
		carries := in.holdsMember(n)
		t, known := in.Spec.Turn(r, n)
		why := in.notNow(r, n, t, known)
		if why == "" && carries {
			why = in.neverGoes(n, j)
		}
		if f, wait := holdBack(in, op.LeaseEntry{Entry: r}, 0); why == "" && wait > 0 {
			why, failed = notDrained(f), append(failed, f.Problems...)
		}
		passes := why != "" // its own reason: others need not wait for it
		k := r.Kind()
		switch {
		case passes:
		case active[k] >= max(1, most[k]):
			why = fmt.Sprintf("%s under way (max_concurrent)", cke.Plural(active[k], string(k)+" is", string(k)+"s are"))
		case r.Tries() > 0 && in.waited(r.Since) < time.Duration(t.Interval):
			why = fmt.Sprintf("attempt %d failed, and the next one starts %s after it: %s", r.Attempt, t.Interval.Short(), r.Error)
		case carries && first != "":
			why = first + " is before it"
		case carries:
			why = in.mayNotGo(r, n, j)
		}
		if carries && !passes {
			first = cmp.Or(first, r.Node)
		}
		if waits[r.ID] = why; why == "" && next == nil {
			next = &r
		}
	}
	return next, waits, failed
}

// holdsMember reports whether a node carries a member, of cke or not, or may: then it goes down only as nodes with members do.
func (in *Input) holdsMember(n cke.Node) bool {
	_, carries := in.Identity.On(n)
	return carries || len(in.strangersOn(n)) > 0 || in.notMoved(n) != ""
}

// closed is why no command of a queue is started; empty: it may be.
func (in *Input) closed(k cke.QueueKind) string {
	if in.Requests.Queue(k).Disabled {
		return fmt.Sprintf("the %s queue is disabled; `%s enable` enables it", k, k.Command())
	}
	o := in.Spec.Reboot
	if k == cke.RepairQueue || o.Window == (cke.Window{}) || ClocksIn(in.Seen).wrong() { // what is under way needs no clock
		return ""
	}
	if open, next := windowAt(o.Window, in.Seen.ObservedAt); !open {
		return "the next window starts at " + next.Format(time.RFC3339)
	}
	return ""
}

// notNow is why an entry is not started whatever the others do; empty: it may be.
func (in *Input) notNow(r cke.Entry, n cke.Node, t cke.Turn, known bool) string {
	k := r.Kind()
	if why := in.closed(k); why != "" {
		return why
	}
	for _, other := range in.Requests.Queued() {
		if other.Active() && other.Address == r.Address && other.ID != r.ID {
			return fmt.Sprintf("%s is %s", other.What(), other.State)
		}
	}
	for _, d := range in.leases() {
		if d.Entry == "" && in.leased(d, n) {
			return d.Text()
		}
	}
	switch {
	case !known && k == cke.RepairQueue:
		return fmt.Sprintf("no procedure of the cluster file is for %q on this machine", r.On)
	case !known && r.Agent != "":
		return "the cluster file does not say reboot.fleet_lock: true"
	case in.forgotten(r):
		return "its agent has to ask again"
	case !in.answers(n) && !in.hung(n):
		return fmt.Sprintf("it does not answer, and counts as hung after %s", hungAfter)
	}
	if p := in.misnamed(n.Name()); p != nil {
		return p.Message
	}
	if why := cmp.Or(in.notMoved(n), ClocksIn(in.Seen).Why(), in.neighborOn(n, t)); why != "" {
		return why
	}
	if why := in.noCommand(t); why != "" {
		return why
	}
	if k == cke.RepairQueue {
		return in.tooManyRepairs(r)
	}
	return ""
}

// neighborOn is why a turn that takes a node down waits as long as a member of another cluster runs there; empty: none is known to.
func (in *Input) neighborOn(n cke.Node, t cke.Turn) string {
	other := in.node(n).RunsNeighbor()
	if other == "" || !t.Lease {
		return ""
	}
	return fmt.Sprintf("a member of cluster %s runs on it: `ckecli node drain %s --cluster %s` stops it if that cluster serves without it", other, n.Address, other)
}

// notDrained is why a node is not drained now: that failed.
func notDrained(f Failure) string { return "it could not be drained: " + f.Error }

// tooManyRepairs is why the first attempt of a repair is not started; empty: it may be. One that is retried is not the first.
func (in *Input) tooManyRepairs(r cke.Entry) string {
	if r.Attempt > 0 {
		return ""
	}
	o, started := in.Spec.Repair, 0
	count := func(at time.Time) {
		if !at.IsZero() && in.waited(at) < 24*time.Hour {
			started++
		}
	}
	for _, e := range in.Requests.Repairs.History {
		count(e.StartedAt)
		if e.Address == r.Address && !e.StartedAt.IsZero() && in.waited(e.EndedAt) < time.Duration(o.Cooldown) {
			return fmt.Sprintf("its last repair ended at %s, less than %s ago (cooldown)", e.EndedAt.Format(time.RFC3339), o.Cooldown.Short())
		}
	}
	for _, e := range in.Requests.Repairs.Entries {
		if count(e.StartedAt); e.State == cke.EntryLeased && e.StartedAt.IsZero() {
			started++
		}
	}
	if started >= o.PerDay {
		return fmt.Sprintf("%s started in the last 24 hours (per_day)", cke.Plural(started, "repair was", "repairs were"))
	}
	return ""
}

// noCommand is why no command can be run; empty: one can, or none is needed.
func (in *Input) noCommand(t cke.Turn) string {
	for _, name := range []string{t.Command, t.Check} {
		switch {
		case name == "" && t.Command == "" && t.Boots:
			return "the cluster file names no reboot.command"
		case name != "" && !slices.Contains(in.UnderWay.Commands, name):
			return fmt.Sprintf("the configuration of the daemon that leads has no command %s", name)
		}
	}
	return ""
}

// mayNotGo is why the node of a member may not go down; empty: it may.
func (in *Input) mayNotGo(r cke.Entry, n cke.Node, j cke.Join) string {
	for _, o := range in.Requests.Queued() {
		if o.Blocks() && o.Address != r.Address {
			return o.What() + " failed: retry, skip or cancel it"
		}
		if other, declared := in.nodeOf(o); declared && o.Active() {
			if in.holdsMember(other) {
				return fmt.Sprintf("%s is %s", o.Node, o.State)
			}
		}
	}
	for _, d := range in.leases() {
		return d.Text()
	}
	m, there := in.listed(j)
	dead := r.Kind() == cke.RepairQueue && there && !healthyMember(in, m) // what does not serve needs no calm to be repaired
	if settle := in.settle(); !dead && in.settles(settle) > 0 {
		return fmt.Sprintf("the last reboot or repair ended less than %s ago (settle)", settle.Short())
	}
	if len(in.Seen.Etcd.Alarms) > 0 && !dead {
		return "etcd has an alarm: " + in.Seen.Etcd.Alarms[0].Kind
	}
	if !in.Seen.Etcd.Quorate || in.Seen.Etcd.MembersSource != cke.MembersLinearizable {
		return "no member list could be read through a quorum"
	}
	if g := mayStop(in, m); g != open || dead {
		return string(g)
	}
	for _, other := range in.Seen.Etcd.Members {
		if other.ID != m.ID && !other.Learner && !healthyMember(in, other) {
			return fmt.Sprintf("%s does not serve", nameOf(other))
		}
	}
	for _, other := range in.Identity.Joins {
		if o, listed := in.listed(other); listed && !o.Learner && o.ID != m.ID && in.behindLeader(other) {
			return fmt.Sprintf("the member on %s is not in sync", other.Node.Name())
		}
	}
	return ""
}

// neverGoes is why a node with a member does not go down as it is, whatever the others do; empty: it may.
func (in *Input) neverGoes(n cke.Node, j cke.Join) string {
	if !in.Seen.Etcd.Quorate || in.Seen.Etcd.MembersSource != cke.MembersLinearizable {
		return "" // no node goes
	}
	if strange := in.strangersOn(n); len(strange) > 0 {
		return in.strangerIs(strange[0], n) + ", and cke does not stop foreign members"
	}
	switch m, there := in.listed(j); {
	case !there:
		return "its member is not in the member list"
	case m.Learner:
		return "its member is a learner"
	}
	return ""
}

// settle is the pause after a reboot or a repair; a file without the section has that of the defaults.
func (in *Input) settle() cke.Duration {
	return cmp.Or(in.Spec.Reboot.Settle, cke.DefaultSettle)
}

// settles is how much is left of the pause after the last reboot or repair.
func (in *Input) settles(pause cke.Duration) (left time.Duration) {
	for _, h := range [][]cke.EndedEntry{in.Requests.Reboots.History, in.Requests.Repairs.History} {
		for i := len(h) - 1; i >= 0; i-- {
			if h[i].StartedAt.IsZero() {
				continue
			}
			left = max(left, time.Duration(pause)-in.waited(h[i].EndedAt))
			break
		}
	}
	for _, r := range in.Requests.Queued() { // an attempt that failed may only be late
		if !r.StartedAt.IsZero() && (r.State == cke.EntryQueued || r.State == cke.EntryFailed) {
			left = max(left, time.Duration(pause)-in.waited(r.Since))
		}
	}
	return left
}

// queueOrder are the queued entries in their turn: nodes without a member, those with one of which an attempt failed, members that do not
// serve, followers zone by zone, the leader. Within that repairs are first, and else the order is that of the queue.
func (in *Input) queueOrder() []cke.Entry {
	type placed struct {
		cke.Entry
		class, zone int
	}
	var all []placed
	var zones []string
	if h := in.Requests.Reboots.History; len(h) > 0 { // what is left of the zone of the last one
		if n, declared := in.Spec.Node(h[len(h)-1].Address); declared {
			zones = append(zones, n.Zone)
		}
	}
	for _, r := range in.Requests.Queued() {
		n, declared := in.nodeOf(r)
		if !declared || r.State != cke.EntryQueued {
			continue
		}
		p := placed{Entry: r}
		if in.holdsMember(n) {
			j, _ := in.Identity.On(n)
			m, there := in.listed(j)
			switch {
			case r.Tried():
				p.class = 1
			case !there || !healthyMember(in, m):
				p.class = 2
			case leads(in, j) == 0:
				p.class = 3
				if !slices.Contains(zones, n.Zone) {
					zones = append(zones, n.Zone)
				}
				p.zone = slices.Index(zones, n.Zone)
			default:
				p.class = 4
			}
		}
		all = append(all, p)
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.zone, b.zone)) })
	var order []cke.Entry
	for _, p := range all {
		order = append(order, p.Entry)
	}
	return order
}

// successorOf is who leads in place of a member that leads: the one whose reboot was done last, else one that waits for none.
func (in *Input) successorOf(leader cke.Join) *cke.Join {
	if leads(in, leader) == 0 {
		return nil
	}
	var best *cke.Join
	var done time.Time
	for _, j := range in.Identity.Joins {
		m, there := in.listed(j)
		if j.ID == leader.ID || !there || m.Learner || !healthyMember(in, m) || in.behindLeader(j) || in.queued(j.Node) {
			continue
		}
		at := in.rebootedAt(j.Node)
		if best == nil || at.After(done) {
			j = in.reached(j)
			best, done = &j, at
		}
	}
	return best
}

// queued reports whether a node is in a queue.
func (in *Input) queued(n cke.Node) bool {
	return slices.ContainsFunc(in.Requests.Queued(), func(r cke.Entry) bool { return r.Address == n.Address })
}

// rebootedAt is when the last reboot of a node was done; zero: it was not.
func (in *Input) rebootedAt(n cke.Node) (at time.Time) {
	for _, e := range in.Requests.Reboots.History {
		if e.Address == n.Address && e.Result == cke.EntryDone {
			at = e.EndedAt
		}
	}
	return at
}
