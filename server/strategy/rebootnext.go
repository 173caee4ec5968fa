package strategy

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"cke"
	"cke/op"
)

// rebootNext: a node of the queue that is first in order and may go down is drained, and then rebooted.
func rebootNext(in *Input) verdict {
	q := in.Requests.Reboots
	if len(q.Entries) == 0 || !in.Formed() {
		return pass()
	}
	for _, r := range q.Entries {
		if n, declared := in.rebootNode(r); declared && r.State == cke.RebootLeased && !r.Canceled {
			if v := in.runReboot(r, n, false); v.given() {
				return v
			}
		}
	}
	next, waits := in.nextReboot()
	if next == nil {
		for _, r := range in.rebootOrder() {
			return note(fmt.Sprintf("the reboot of %s waits: %s", r.Node, waits[r.ID])).upkeep()
		}
		return pass()
	}
	n, _ := in.rebootNode(*next)
	o := op.DrainForReboot{Reboot: *next}
	j, carries := in.Identity.On(n)
	if !carries {
		return upkeepBy(o, next.Node+" carries no member, and may be rebooted")
	}
	o.Drain = &op.DrainNode{Node: n, Reason: "reboot", By: "the reboot queue", For: in.Spec.Reboot.Lease() + in.behind(), Reboot: next.ID}
	if in.answers(n) {
		j = in.reached(j)
		o.Drain.Join = &j
		o.Successor = in.successorOf(j)
	}
	return upkeepBy(o, next.Node+" may be rebooted: the others serve without its member")
}

// nextReboot is the entry that may go down now; nil: none may. It also returns what each queued one waits for, by id.
func (in *Input) nextReboot() (next *cke.Reboot, waits map[string]string) {
	waits = map[string]string{}
	active, q := 0, in.Requests.Reboots
	for _, r := range q.Entries {
		if r.Active() {
			active++
		}
	}
	all := in.notNow()
	first := "" // of those with members
	for _, r := range in.rebootOrder() {
		n, _ := in.rebootNode(r)
		j, carries := in.Identity.On(n)
		why := all
		switch {
		case why != "":
		case active >= max(1, in.Spec.Reboot.MaxConcurrent):
			why = fmt.Sprintf("%s under way (max_concurrent)", cke.Plural(active, "reboot is", "reboots are"))
		case r.Attempt > 0 && in.waited(r.Since) < time.Duration(in.Spec.Reboot.Interval):
			why = fmt.Sprintf("attempt %d failed, and the next one starts %s after it: %s", r.Attempt, in.Spec.Reboot.Interval.Short(), r.Error)
		case carries && first != "":
			why = first + " is before it"
		case carries:
			why = in.mayNotReboot(r, n, j)
		}
		if carries {
			first = cmp.Or(first, r.Node)
		}
		if waits[r.ID] = why; why == "" && next == nil {
			next = &r
		}
	}
	return next, waits
}

// notNow is why no reboot is started; empty: one may be.
func (in *Input) notNow() string {
	o := in.Spec.Reboot
	if in.Requests.Reboots.Disabled {
		return "the reboot queue is disabled; `ckecli reboot-queue enable` enables it"
	}
	if why := in.noCommand(); why != "" {
		return why
	}
	if o.Window == (cke.Window{}) {
		return ""
	}
	if why := ClocksIn(in.Seen).Why(); why != "" {
		return "it is not known whether the window is open: " + why
	}
	if open, next := windowAt(o.Window, in.Seen.ObservedAt); !open {
		return "the next window starts at " + next.Format(time.RFC3339)
	}
	return ""
}

// noCommand is why no command can be run; empty: one can.
func (in *Input) noCommand() string {
	for _, name := range []string{in.Spec.Reboot.Command, in.Spec.Reboot.Check} {
		switch {
		case name == "" && in.Spec.Reboot.Command == "":
			return "the cluster file names no reboot.command"
		case name != "" && !slices.Contains(in.Reboots.Commands, name):
			return fmt.Sprintf("the configuration of the daemon that leads has no command %s", name)
		}
	}
	return ""
}

// mayNotReboot is why the node of a member may not go down; empty: it may.
func (in *Input) mayNotReboot(r cke.Reboot, n cke.Node, j cke.Join) string {
	for _, o := range in.Requests.Reboots.Entries {
		if o.Blocks() {
			return fmt.Sprintf("the reboot of %s failed: retry, skip or cancel it", o.Node)
		}
		if other, declared := in.rebootNode(o); declared && o.Active() {
			if _, carries := in.Identity.On(other); carries {
				return fmt.Sprintf("%s is %s", o.Node, o.State)
			}
		}
	}
	for _, d := range in.leases() {
		return d.Text()
	}
	if left := in.settles(); left > 0 {
		return fmt.Sprintf("the last reboot ended less than %s ago (settle)", in.Spec.Reboot.Settle.Short())
	}
	if len(in.Seen.Etcd.Alarms) > 0 {
		return "etcd has an alarm: " + in.Seen.Etcd.Alarms[0].Kind
	}
	if !in.Seen.Etcd.Quorate || in.Seen.Etcd.MembersSource != cke.MembersLinearizable {
		return "no member list could be read through a quorum"
	}
	if p := in.misnamed(n.Name()); p != nil {
		return p.Message
	}
	if strange := in.strangersAt(n.Address); len(strange) > 0 {
		return fmt.Sprintf("foreign member %s is on it, and cke does not stop foreign members", nameOf(strange[0]))
	}
	m, there := in.listed(j)
	switch {
	case !there:
		return "its member is not in the member list"
	case m.Learner:
		return "its member is a learner"
	}
	if g := mayStop(in, m); g != open {
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

// settles is how much is left of the pause after the last reboot.
func (in *Input) settles() time.Duration {
	h := in.Requests.Reboots.History
	for i := len(h) - 1; i >= 0; i-- {
		if h[i].StartedAt.IsZero() {
			continue
		}
		return time.Duration(in.Spec.Reboot.Settle) - in.waited(h[i].EndedAt)
	}
	return 0
}

// rebootOrder are the queued entries in their turn: nodes without a member, members that do not serve, followers zone by
// zone, the leader. Within that the order is that of the queue.
func (in *Input) rebootOrder() []cke.Reboot {
	type placed struct {
		cke.Reboot
		class, zone int
	}
	var all []placed
	var zones []string
	if h := in.Requests.Reboots.History; len(h) > 0 { // what is left of the zone of the last one
		if n, declared := in.Spec.Node(h[len(h)-1].Address); declared {
			zones = append(zones, n.Zone)
		}
	}
	for _, r := range in.Requests.Reboots.Entries {
		n, declared := in.rebootNode(r)
		if !declared || r.State != cke.RebootQueued {
			continue
		}
		p := placed{Reboot: r}
		if j, carries := in.Identity.On(n); carries {
			m, there := in.listed(j)
			switch {
			case !there || !healthyMember(in, m):
				p.class = 1
			case leads(in, j) == 0:
				p.class = 2
				if !slices.Contains(zones, n.Zone) {
					zones = append(zones, n.Zone)
				}
				p.zone = slices.Index(zones, n.Zone)
			default:
				p.class = 3
			}
		}
		all = append(all, p)
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.zone, b.zone)) })
	var order []cke.Reboot
	for _, p := range all {
		order = append(order, p.Reboot)
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
		if j.ID == leader.ID || !there || m.Learner || !healthyMember(in, m) || in.behindLeader(j) || in.Requests.Reboots.Of(j.Node.Address) != nil {
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

// rebootedAt is when the last reboot of a node was done; zero: it was not.
func (in *Input) rebootedAt(n cke.Node) (at time.Time) {
	for _, e := range in.Requests.Reboots.History {
		if e.Address == n.Address && e.Result == cke.RebootDone {
			at = e.EndedAt
		}
	}
	return at
}
