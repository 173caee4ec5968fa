package strategy

import (
	"slices"

	"cke"
)

// returned names the nodes that the order of the restore under way calls destroyed, and that answer with a container that a restore
// has to stop. Those on record as returned are left out.
func returned(in *Input, fence []cke.Join) (nodes []string) {
	destroyed := in.Identity.Incarnation.Restore.Believed().Destroyed
	for _, j := range fence {
		c, there := in.node(j.Node).Of(j.ID)
		if name := nameIn(destroyed, in.Identity, j); name != "" && there && c.EverRan() && !slices.Contains(nodes, name) {
			nodes = append(nodes, name)
		}
	}
	return nodes
}

// gone are the memberships that may run on nodes that an order calls destroyed, apart from those that are stopped.
func gone(in *Input, o cke.RestoreOrder, fence []cke.Join) (joins []cke.Join) {
	for _, j := range in.Identity.MayRun() {
		if nameIn(o.Destroyed, in.Identity, j) != "" && !hasJoin(fence, j.ID) {
			joins = append(joins, in.reached(j))
		}
	}
	return joins
}

// nameIn returns by which of some names an order means the node of a membership: as it is on record, or as it is declared now; "": by none.
func nameIn(names []string, id cke.Identity, j cke.Join) string {
	for _, r := range append(id.MayRun(), j) {
		if r.ID == j.ID && slices.Contains(names, r.Node.Name()) {
			return r.Node.Name()
		}
	}
	return ""
}

// stillRuns reports whether a node that an order calls destroyed answers, and runs a member of the cluster.
func (in *Input) stillRuns(n cke.NodeStatus) bool {
	return n.Answered() && slices.ContainsFunc(n.Containers, func(c cke.Container) bool {
		return c.Cluster == in.Spec.Name && (c.Running() || c.State == cke.ContainerRestarting)
	})
}
