package op

import (
	"context"
	"fmt"

	"cke"
)

// markOver marks on nodes which lives of the cluster are over, as the ledger has them: a copy of the store may have one of them as the
// present one. It is done for a store that is brought back, and what is under way does not wait for a node that cannot take it.
func markOver(nodes []cke.Node, over func(cke.Identity) []string) Stage {
	return onEach(nodes, "mark-over", 0, func(ctx context.Context, e Env, n cke.Node) error {
		id, err := e.Ledger.Identity(ctx)
		if err != nil {
			return err
		}
		if err := e.Machines.Machine(n).MarkOver(ctx, e.Cluster, over(id)); err != nil && ctx.Err() == nil {
			e.Log.Warn("cannot mark an incarnation of the cluster as over", "node", n.Name(), "error", err)
			e.Note(fmt.Sprintf("not marked: %v", err))
		}
		return ctx.Err()
	})
}

// nodesOf are the nodes of some memberships, each once.
func nodesOf(joins []cke.Join) (nodes []cke.Node) {
	seen := map[string]bool{}
	for _, j := range joins {
		if !seen[j.Node.Address] {
			seen[j.Node.Address], nodes = true, append(nodes, j.Node)
		}
	}
	return nodes
}
