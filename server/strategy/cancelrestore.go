package strategy

import (
	"fmt"
	"slices"

	"cke"
	"cke/op"
	"cke/quorum"
)

func cancelRestore(in *Input, t cke.Task) Decision {
	if inc := in.Identity.Incarnation; inc != nil && inc.State == cke.Restoring {
		if o, can := in.withdrawal(); can {
			return Decision{Operation: o, Part: true, Reason: askedFor(t, "the start of the restored members, of which none ran, is withdrawn, so that the recovery is canceled")}
		}
	}
	o, why := cancellation(in)
	if why != nil {
		return refuse(t, why)
	}
	o.Task = t
	next := "the cluster continues as it was"
	if stateBefore(in.Identity.Incarnation) == cke.Restoring {
		next = "the one whose place it took continues"
	}
	return Decision{Operation: o, Reason: askedFor(t, "the restore is canceled; "+next)}
}

// stateBefore is the state of the incarnation that a restore replaces; empty: there was none.
func stateBefore(inc *cke.Incarnation) cke.IncarnationState {
	if inc.Restore == nil || inc.Restore.Before == nil {
		return ""
	}
	return inc.Restore.Before.State
}

// cancellation is what cancels the restore under way, or why it cannot be canceled.
func cancellation(in *Input) (o op.CancelRestore, why *cke.Error) {
	inc := in.Identity.Incarnation
	switch {
	case inc == nil || inc.State != cke.Restoring:
		return o, &cke.Error{Code: cke.CodeCannot, What: "no restore of " + in.Spec.Name + " is under way", Unchanged: true, Try: "ckecli history"}
	case in.Identity.Started():
		return o, &cke.Error{Code: cke.CodeCannot, What: "the restored members may have been started", Unchanged: true,
			Facts: []string{"clients may have written to them", "another restore can replace this one"}, Try: "ckecli history -f"}
	}
	if before := startedBefore(in); before != nil {
		p := before[0]
		return o, &cke.Error{Code: p.Code, What: "the store is older than the restored cluster", Unchanged: true, Try: p.Remedy, Facts: []string{p.Message}}
	}
	silent := 0
	for _, j := range in.Identity.Joins {
		if !in.node(j.Node).Answered() {
			silent++
		}
	}
	if silent >= quorum.Of(len(in.Identity.Joins)) {
		return o, &cke.Error{Code: cke.CodeUnreachable, What: fmt.Sprintf("%d of %d nodes of the restored cluster do not answer, and could have a quorum of it", silent, len(in.Identity.Joins)), Unchanged: true, Try: "ckecli status"}
	}
	fence := slices.DeleteFunc(toFence(in, in.Identity.Joins), func(j cke.Join) bool { return !inc.WasAbandoned(j.Incarnation) || !runs(in, j) })
	o, why = toRevive(in)
	o.Incarnation, o.Fence, o.Nodes = inc.ID, fence, answering(in)
	return o, why
}

// toRevive are the members of the incarnation that continues, if a restore may have stopped some where the store has none that would start
// them again: the cluster was declared to be restored. A member that is not on record cannot be told from one that nobody may start.
// A restore that took the place of another one leaves that to the other one, which stops them or is canceled in its turn.
func toRevive(in *Input) (o op.CancelRestore, why *cke.Error) {
	inc := in.Identity.Incarnation
	if stateBefore(inc) != cke.Awaiting {
		return o, nil
	}
	last := in.lastToRun()
	doubt, over := in.replacedSince(last)
	var facts []string
	for _, n := range in.Seen.Nodes {
		for _, v := range n.Volumes {
			if _, there := n.Of(v.Join); n.Answered() && !there && v.Cluster == in.Spec.Name && !n.Marks(v.Join) && in.mayHaveServed(v, last) {
				facts = append(facts, fmt.Sprintf("%s: volume %s has no container, and its membership is not on record", n.Node.Name(), v.Name))
			}
		}
	}
	stopped := false
	for _, j := range toFence(in, in.Identity.Joins) {
		n := in.node(j.Node)
		c, there := n.Of(j.ID)
		_, volume := n.VolumeOf(j)
		down := !c.Running() && c.EverRan()
		switch {
		case !there && !volume || inc.WasAbandoned(j.Incarnation) || j.Apart || n.Marks(j.ID):
		case !in.Identity.Has(j.ID):
			if !c.Running() && !in.endedBefore(j.Incarnation, last) {
				facts = append(facts, fmt.Sprintf("%s: container %s is stopped, and its membership is not on record", n.Node.Name(), c.Name))
			}
		case j.Incarnation != last || !slices.Contains(inc.Restore.Fence, j.ID): // it ended before
		case doubt != "" && there && down:
			facts = append(facts, fmt.Sprintf("%s: container %s is stopped, and %s", n.Node.Name(), c.Name, doubt))
		case doubt != "" && !there && !over && !j.StartedAt.IsZero():
			facts = append(facts, fmt.Sprintf("%s: volume %s has no container, and %s", n.Node.Name(), j.Volume, doubt))
		case doubt != "":
		case hasJoin(o.Revive, j.ID): // a copy of its disk, or its machine at another address
			first := o.Revive[slices.IndexFunc(o.Revive, func(r cke.Join) bool { return r.ID == j.ID })]
			if was, _ := in.node(first.Node).Of(j.ID); !was.Running() && (was.ID != c.ID || !was.StartedAt.Equal(c.StartedAt)) {
				facts = append(facts, fmt.Sprintf("container %s is on %s and on %s: remove the one that is not needed", c.Name, first.Node.Name(), n.Node.Name()))
			}
		case there && c.EverRan() || !there && !j.StartedAt.IsZero():
			o.Revive, stopped = append(o.Revive, j), stopped || !c.Running() || c.KeptDown
		}
	}
	if facts != nil {
		if doubt != "" && !over {
			facts = append(facts, "bring its nodes back, or remove its containers and volumes if they are not needed")
		}
		return o, &cke.Error{Code: cke.CodeCannot, What: "the former members may have been stopped for the restore, and cannot be started again from here", Unchanged: true,
			Facts: append(facts, "the restore can continue, or another one can replace it"), Try: "ckecli history -f"}
	}
	if doubt == "" {
		o.Members, o.Silent = in.membersOf(last, o.Revive)
	}
	if !stopped && o.Silent == nil && !inc.Restore.Canceling { // those that were started for a cancellation may end again
		o.Revive = nil
	}
	return o, nil
}

// membersOf is how many members the incarnation that continues has, and which of their nodes do not answer, and may again. Neither has those
// of memberships that ended according to marks.
func (in *Input) membersOf(life string, revive []cke.Join) (count int, silent []string) {
	for _, j := range in.Identity.Superseded() {
		if n := in.node(j.Node); j.Incarnation != life || j.StartedAt.IsZero() && !hasJoin(revive, j.ID) || n.Answered() && n.Marks(j.ID) {
			continue
		}
		count++
		if in.silent(j) && !in.isDestroyed(j.Node) {
			silent = append(silent, j.Node.Name())
		}
	}
	return count, silent
}
