package strategy

import (
	"slices"

	"cke"
	"cke/op"
)

// noteReturned puts on record which nodes that the order of the restore under way calls destroyed are seen with a member before its own
// ones may have been started.
func noteReturned(in *Input) (op.NoteReturned, bool) {
	inc := in.Identity.Incarnation
	if inc == nil || inc.State != cke.Restoring || in.Identity.Started() {
		return op.NoteReturned{}, false
	}
	nodes := returned(in)
	return op.NoteReturned{Incarnation: inc.ID, Nodes: nodes}, nodes != nil
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
		if e, asked := in.Seen.Etcd.Endpoint(j.ID); asked && e.Problem == "" && e.MemberID == j.MemberID && j.MemberID != "" {
			add(j)
		}
	}
	return nodes
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
