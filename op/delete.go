package op

import (
	"context"

	"cke"
)

// DeleteCluster stops every member, removes its container, keeps its volume, and moves the cluster out of the store.
// It ends only when every node of a member has answered. Without its container a member cannot come back: neither by a
// start that an earlier daemon sent off and that arrives late, nor by a person's mistake.
type DeleteCluster struct{ Joins []cke.Join }

var _ Operation = DeleteCluster{}

// Name implements Operation.
func (DeleteCluster) Name() string { return "delete-cluster" }

// Targets implements Operation.
func (d DeleteCluster) Targets() []string { return joinNames(d.Joins) }

// Stages implements Operation.
func (d DeleteCluster) Stages() []Stage {
	var stop, remove Stage
	for _, j := range d.Joins {
		stop = append(stop, stopStep(j))
		remove = append(remove, Step{Name: "remove-container", Node: j.Node.Name(), Run: func(ctx context.Context, e Env) error {
			return removeContainer(ctx, e, j)
		}})
	}
	last := Stage{{Name: "archive-record", Run: func(ctx context.Context, e Env) error { return e.Ledger.FinishDelete(ctx) }}}
	if stop == nil {
		return []Stage{last}
	}
	return []Stage{stop, remove, last}
}
