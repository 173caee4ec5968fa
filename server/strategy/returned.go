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
	if inc == nil || inc.State != cke.Restoring || inc.Restore == nil {
		return pass()
	}
	nodes := returned(in)
	if nodes == nil {
		return pass()
	}
	return act(op.NoteReturned{Incarnation: inc.ID, Nodes: nodes}, fmt.Sprintf("%s: named as destroyed, and seen with a member since; a node that was seen is waited for", and(nodes)))
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
