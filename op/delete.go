package op

import (
	"context"

	"cke"
)

// DeleteCluster stops every member, keeps every volume, and moves the cluster out of the store.
// It ends only when every node of a member has answered.
type DeleteCluster struct{ Joins []cke.Join }

var _ Operation = DeleteCluster{}

// Name implements Operation.
func (DeleteCluster) Name() string { return "delete-cluster" }

// Targets implements Operation.
func (d DeleteCluster) Targets() []string { return joinNames(d.Joins) }

// Stages implements Operation.
func (d DeleteCluster) Stages() []Stage {
	var stop Stage
	for _, j := range d.Joins {
		stop = append(stop, stopStep(j))
	}
	last := Stage{{Name: "archive-record", Run: func(ctx context.Context, e Env) error { return e.Ledger.FinishDelete(ctx) }}}
	if stop == nil {
		return []Stage{last}
	}
	return []Stage{stop, last}
}
