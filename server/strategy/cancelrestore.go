package strategy

import (
	"fmt"
	"slices"

	"cke"
	"cke/op"
	"cke/quorum"
)

func cancelRestore(in *Input, t cke.Task) Decision {
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
	revive, why := toRevive(in)
	return op.CancelRestore{Incarnation: inc.ID, Fence: fence, Revive: revive, Nodes: answering(in)}, why
}

// mayHaveServed reports whether a volume is of a membership that is not on record, and that a restore of a declared cluster may have stopped:
// of the incarnation that was copied, or of one that only the nodes knew of. A member on record may have ended before it.
func (in *Input) mayHaveServed(v cke.Volume) bool {
	inc := in.Identity.Incarnation
	copied := slices.ContainsFunc(in.Identity.Superseded(), func(j cke.Join) bool { return j.Incarnation == v.Incarnation })
	return !in.Identity.Has(v.Join) && inc.WasReplaced(v.Incarnation) && (copied || !inc.Restore.Before.WasReplaced(v.Incarnation))
}

// lastToRun is the newest replaced incarnation of which a member was started, by the record or by what nodes show. What was before it is
// over, also where the copied record has members of it.
func (in *Input) lastToRun() string {
	for _, life := range slices.Backward(in.Identity.Incarnation.Replaced) {
		started := slices.ContainsFunc(in.Identity.Superseded(), func(j cke.Join) bool { return j.Incarnation == life && !j.StartedAt.IsZero() })
		if started || slices.ContainsFunc(in.Seen.Nodes, func(n cke.NodeStatus) bool {
			return n.Answered() && slices.ContainsFunc(n.Containers, func(c cke.Container) bool {
				return c.Cluster == in.Spec.Name && c.Incarnation == life && c.EverRan()
			})
		}) {
			return life
		}
	}
	return ""
}

// isOver reports whether a mark on a node that answers names an incarnation as over.
func (in *Input) isOver(life string) bool {
	return slices.ContainsFunc(in.Seen.Nodes, func(n cke.NodeStatus) bool { return n.Answered() && slices.Contains(n.Over, life) })
}

// toRevive are the members of the incarnation that continues, if a restore may have stopped some where the store has none that would start
// them again: the cluster was declared to be restored. A member that is not on record cannot be told from one that nobody may start.
// A restore that took the place of another one leaves that to the other one, which stops them or is canceled in its turn.
func toRevive(in *Input) (revive []cke.Join, why *cke.Error) {
	inc := in.Identity.Incarnation
	if stateBefore(inc) != cke.Awaiting {
		return nil, nil
	}
	var facts []string
	for _, j := range in.Identity.Superseded() {
		if n := in.node(j.Node); !n.Answered() && !inc.Restore.Order.Excuses(j.Node.Name()) {
			facts = append(facts, fmt.Sprintf("%s: %s; its member may have been stopped", j.Node.Name(), n.Problem.Message))
		}
	}
	for _, n := range in.Seen.Nodes {
		for _, v := range n.Volumes {
			if _, there := n.Of(v.Join); n.Answered() && !there && v.Cluster == in.Spec.Name && !n.Marks(v.Join) && in.mayHaveServed(v) {
				facts = append(facts, fmt.Sprintf("%s: volume %s has no container, and its membership is not on record", n.Node.Name(), v.Name))
			}
		}
	}
	last, stopped := in.lastToRun(), false
	for _, j := range toFence(in, in.Identity.Joins) {
		n := in.node(j.Node)
		c, there := n.Of(j.ID)
		_, volume := n.VolumeOf(j)
		switch {
		case !there && !volume || inc.WasAbandoned(j.Incarnation) || j.Apart || n.Marks(j.ID):
		case !in.Identity.Has(j.ID):
			if !c.Running() {
				facts = append(facts, fmt.Sprintf("%s: container %s is stopped, and its membership is not on record", n.Node.Name(), c.Name))
			}
		case j.Incarnation != last || !slices.Contains(inc.Restore.Fence, j.ID): // it ended before
		case in.isOver(last):
			if there && !c.Running() && c.EverRan() {
				facts = append(facts, fmt.Sprintf("%s: container %s is stopped, and a mark on a node names its incarnation as over", n.Node.Name(), c.Name))
			}
		case there && c.EverRan() || !there && !j.StartedAt.IsZero():
			revive, stopped = append(revive, j), stopped || !c.Running()
		}
	}
	switch {
	case facts != nil:
	case stopped:
		return revive, nil
	default:
		return nil, nil
	}
	return nil, &cke.Error{Code: cke.CodeCannot, What: "the former members may have been stopped for the restore, and cannot be started again from here", Unchanged: true,
		Facts: append(facts, "the restore can continue, or another one can replace it"), Try: "ckecli history -f"}
}
