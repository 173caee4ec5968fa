package strategy

import (
	"fmt"
	"slices"

	"cke"
	"cke/op"
)

// noteReturned: nodes that the order of the restore under way calls destroyed are seen with a member. That goes on record whatever else
// decides: it changes nothing but the record, and what is seen while the restore waits counts as well.
func noteReturned(in *Input) verdict {
	inc := in.Identity.Incarnation
	var nodes []string
	if inc != nil && inc.State == cke.Restoring && inc.Restore != nil {
		nodes = returned(in)
	}
	if nodes == nil {
		return contradicted(in)
	}
	return act(op.NoteReturned{Incarnation: inc.ID, Nodes: nodes}, fmt.Sprintf("%s: named as destroyed, and seen with a member since; a node that was seen is waited for", and(nodes)))
}

// contradicted: an order waits, whatever for, and nodes that it calls destroyed are seen with a member. Before a restore is on record that would be
// forgotten once they are silent again, so the order is refused at once. One that is carried out now counts them.
func contradicted(in *Input) verdict {
	if newlyOlder(in) {
		return pass()
	}
	for _, t := range in.Requests.Tasks {
		if t.Kind != cke.TaskRestore || t.Restore == nil {
			continue
		}
		facts := in.seenThough(*t.Restore)
		if facts == nil || in.decidesNow(t) {
			continue
		}
		d := refuse(t, &cke.Error{Code: cke.CodeFence, What: "cannot restore: while the order waited, what --destroyed names was seen, and may have served", Facts: facts, Unchanged: true,
			Try: "switch it off, or restore without naming it"})
		if due(in, d.Operation) {
			d.Task = t.ID
			return decides(d)
		}
	}
	return pass()
}

// seenThough returns what was seen of members on nodes that an order calls destroyed; nil: nothing.
func (in *Input) seenThough(o cke.RestoreOrder) (facts []string) {
	for _, n := range in.Seen.Nodes {
		if slices.Contains(o.Destroyed, n.Node.Name()) && in.stillRuns(n) {
			facts = append(facts, n.Node.Name()+" answers, and runs a member")
		}
	}
	for _, j := range in.Identity.MayRun() {
		name, e := in.Identity.NameIn(o.Destroyed, j), in.reply(j)
		if name != "" && (in.answersAs(e.MemberID) || in.answersBeside(j)) {
			facts = append(facts, fmt.Sprintf("the member on %s answers at %s", name, j.ClientURL()))
		}
	}
	return facts
}

// decidesNow reports whether an order is carried out or refused by what was just seen, or as soon as all was.
func (in *Input) decidesNow(t cke.Task) bool {
	v := restoreAsked(in)
	asked := v.Task == t.ID && v.Operation != nil && due(in, v.Operation)
	return !in.Deleting && (asked || in.Seen.Partial && !in.held())
}

// returned names the nodes that the order of the restore under way calls destroyed, and that are seen: they answer with a container that a
// restore has to stop, or only their members answer. Those on record as returned are left out.
func returned(in *Input) (nodes []string) {
	destroyed := in.Identity.Incarnation.Restore.Believed().Destroyed
	add := func(j cke.Join) {
		if name := in.Identity.NameIn(destroyed, j); name != "" && !slices.Contains(nodes, name) {
			nodes = append(nodes, name)
		}
	}
	for _, j := range toFence(in, in.Identity.Joins) {
		if c, there := in.node(j.Node).Of(j.ID); there && c.EverRan() {
			add(j)
		}
	}
	for _, j := range in.Identity.Superseded() {
		if in.answersBeside(j) {
			add(j)
		}
	}
	return nodes
}

// answersBeside reports whether the member of a membership answers that the restore under way replaces.
func (in *Input) answersBeside(j cke.Join) bool {
	return slices.ContainsFunc(in.Seen.Etcd.Superseded, func(e cke.EndpointStatus) bool {
		return e.Join == j.ID && j.Answers(e, in.Identity.Incarnation.ClusterID)
	})
}

// gone are the memberships that may run on nodes that an order calls destroyed, apart from those that are stopped.
func gone(in *Input, o cke.RestoreOrder, fence []cke.Join) (joins []cke.Join) {
	for _, j := range in.Identity.MayRun() {
		if in.Identity.NameIn(o.Destroyed, j) != "" && !hasJoin(fence, j.ID) {
			joins = append(joins, in.reached(j))
		}
	}
	return joins
}

// stillRuns reports whether a node that an order calls destroyed answers, and runs a member of the cluster.
func (in *Input) stillRuns(n cke.NodeStatus) bool {
	return n.Answered() && slices.ContainsFunc(n.Containers, func(c cke.Container) bool {
		return c.Cluster == in.Spec.Name && (c.Running() || c.State == cke.ContainerRestarting)
	})
}
