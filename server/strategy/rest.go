package strategy

import (
	"fmt"
	"slices"

	"cke"
	"cke/op"
)

// leases are the maintenance leases that last.
func (in *Input) leases() []cke.Drain {
	if len(in.Requests.Drains) == 0 {
		return nil
	}
	var all []cke.Drain
	now := in.untilNow()
	for _, d := range in.Requests.Drains {
		if d.Active(now) {
			all = append(all, d)
		}
	}
	return all
}

// untilLeasesEnd observes again when a maintenance lease runs out: nothing else wakes the loop then.
func untilLeasesEnd(in *Input, d Decision) Decision {
	for _, l := range in.leases() {
		if left := l.Until.Sub(in.untilNow()); !l.Until.IsZero() && d.Operation == nil && (d.Again == 0 || left < d.Again) {
			d.Again = left
		}
	}
	return d
}

// drained returns the lease that lasts for a node; nil: there is none.
func (in *Input) drained(n cke.Node) *cke.Drain {
	for _, d := range in.leases() {
		if in.leased(d, in.node(n).Node) {
			return &d
		}
	}
	return in.outForQueue(n)
}

// leased reports whether a lease is that of a node, as it is declared now: the node may have been renamed since, or have moved.
func (in *Input) leased(d cke.Drain, n cke.Node) bool {
	lasts := slices.ContainsFunc(in.Spec.Nodes, func(o cke.Node) bool { return o.Address == d.Address })
	return n.Address == d.Address || n.Name() == d.Node && !lasts
}

// drainProblem says that a member does not run because its node is leased; nil when that is not why.
func drainProblem(in *Input, j cke.Join) *cke.Problem {
	d := in.drained(j.Node)
	if d == nil || runs(in, j) {
		return nil
	}
	if away := in.away(in.node(j.Node)); away != nil {
		return away
	}
	return leaseProblem(j.Node, *d)
}

// leaseProblem says that a node is leased.
func leaseProblem(n cke.Node, d cke.Drain) *cke.Problem {
	p := &cke.Problem{Code: cke.CodeDrain, Node: n.Name(), Message: d.Text(), Remedy: d.Release() + " when the work is done"}
	if d.Entry != "" {
		p.Remedy = "nothing to do: the queue releases it once it has returned"
	}
	return p
}

// waitForLeases: a declared control-plane node carries no member, and gets one once its lease is over. That keeps nothing
// else waiting, and is told, since somebody may have forgotten the lease.
func waitForLeases(in *Input) verdict {
	for _, n := range in.Spec.ControlPlane() {
		d := in.drained(n)
		if _, carries := in.Identity.On(n); carries || d == nil {
			continue
		}
		return wait(d.Text()+"; it gets a member after that", *leaseProblem(n, *d))
	}
	return pass()
}

// runs reports whether the member's container is seen to run, or to be about to.
func runs(in *Input, j cke.Join) bool {
	n := in.node(j.Node)
	c, there := n.Of(j.ID)
	return n.Answered() && there && (c.Running() || c.State == cke.ContainerRestarting || c.State == cke.ContainerPaused)
}

// leaseGate keeps healthy voters of other nodes in place while a node is down for maintenance.
func leaseGate(in *Input, m cke.Member) gate {
	j := in.joinOf(m)
	for _, d := range in.leases() {
		if j == nil || !in.leased(d, in.reached(*j).Node) {
			return gate(d.Text() + "; no other healthy voter is taken away meanwhile")
		}
	}
	return open
}

// hibernated: an operator asked that no member run. Members that run, also those that somebody started, are stopped; none
// is started.
func hibernated(in *Input) verdict {
	h := in.Requests.Hibernation
	if !in.hibernates() {
		return pass()
	}
	if in.Seen.Partial {
		return lookInFull(in) // who leads, and whether there is anything to back up, is known to members only
	}
	var running []cke.Join
	var silent []cke.Problem
	var leader cke.JoinID
	for j := range inTurn(in) {
		switch {
		case in.silent(j):
			silent = append(silent, *in.node(j.Node).Problem)
		case runs(in, j):
			running = append(running, in.reached(j))
			if leads(in, j) == 1 {
				leader = j.ID
			}
		}
	}
	asked := "hibernated"
	if h.By != "" {
		asked += " by " + h.By
	}
	if lost := runOnNothing(in, running); lost != nil {
		return wait(asked+", and no member is stopped: one that runs could not start again", lost...)
	}
	if running != nil {
		return act(op.Hibernate{Joins: running, Leader: leader, Backup: in.Seen.Etcd.Quorate}, asked+"; no member may run")
	}
	for _, t := range in.Requests.Tasks {
		why := cannot("cluster %s is hibernated: none of its members runs", in.Spec.Name)
		why.Try = "ckecli cluster resume " + in.Spec.Name
		d := refuse(t, why)
		d.Task = t.ID
		return decides(d)
	}
	reason := asked + "; " + asleep(in, len(silent))
	if silent != nil {
		reason += "; members on nodes that do not answer are stopped once those do: " + nodesOf(silent)
	}
	return wait(reason, silent...)
}

// runOnNothing are the problems of members that run although their data was removed.
func runOnNothing(in *Input, running []cke.Join) (lost []cke.Problem) {
	for _, j := range running {
		if p := dataProblem(in, j); p != nil {
			lost = append(lost, *p)
		}
	}
	return lost
}

// hibernates reports whether an operator asked that no member of a formed cluster run.
func (in *Input) hibernates() bool {
	return in.Requests.Hibernation != nil && in.Formed() && in.importing() == nil
}

// hibernation is the sentence that reports how far it has come.
func hibernation(in *Input) string {
	silent := 0
	for _, j := range in.Identity.Joins {
		switch {
		case in.silent(j):
			silent++
		case runs(in, j):
			return "its members are being stopped, all data is kept"
		}
	}
	return asleep(in, silent)
}

// asleep reports how many members are known to be stopped.
func asleep(in *Input, silent int) string {
	n := len(in.Identity.Joins)
	switch {
	case silent > 0:
		return fmt.Sprintf("%d of %d members are known to be stopped, all data is kept", n-silent, n)
	case n == 1:
		return "its only member is stopped, its data is kept"
	}
	return fmt.Sprintf("all %d members are stopped, all data is kept", n)
}

// mayStop asks whether the cluster serves on while members do not that stop together.
func mayStop(in *Input, together ...cke.Member) gate {
	t := tallyOf(in)
	vote, away := false, 0
	for _, m := range together {
		if m.Learner {
			continue
		}
		if hollow(in, m) {
			return gate(nameOf(m) + " runs on files that were removed, and would not start again")
		}
		vote = true
		if g := letGo(in, t, m); g != open {
			return g
		}
		if healthyMember(in, m) {
			away++
		}
	}
	if !vote {
		return open
	}
	return gate(t.Pause(away))
}

// canStop is why the node of a row of the status may not go down now; pass when it may. Whatever member stands there goes
// down with it, also one that cke does not know.
func canStop(in *Input, d Decision, row cke.MemberStatus) gate {
	j, member := in.Identity.Join(row.Join)
	switch {
	case in.hibernates() && (!member || !in.silent(j) && !runs(in, j)):
		return open
	case d.Frozen != nil:
		return gate("the cluster is frozen: " + d.Frozen.Message)
	case changes(d.Operation):
		return gate(d.Operation.Name() + " is under way")
	case !in.Formed():
		return "the cluster is not formed"
	case in.misnamed(row.Name) != nil:
		return gate(in.misnamed(row.Name).Message)
	case !in.Seen.Etcd.Quorate || in.Seen.Etcd.MembersSource != cke.MembersLinearizable:
		return "no member list could be read through a quorum"
	}
	together := in.strangersAt(row.Address)
	for _, j := range in.Identity.Joins {
		if m, there := in.listed(j); there && (j.ID == row.Join || j.Node.Address == row.Address) {
			together = append(together, m)
		}
	}
	return mayStop(in, together...)
}

// changes reports whether an operation changes anything that a node may not go down beside.
func changes(o op.Operation) bool { return o != nil && !o.Traits().Idle }
