package op

import (
	"context"
	"fmt"

	"cke"
)

// DeleteCluster stops every member, removes its container, keeps its volume, and moves the cluster out of the store.
// It ends only when every node of a member has answered, and can be canceled until its last step. Without its container a
// member cannot come back: neither by a start that an earlier daemon sent off and that arrives late, nor by a person's mistake.
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
		stop = append(stop, whileDeleting(stopStep(j)))
		remove = append(remove, whileDeleting(Step{Name: "remove-container", Node: j.Node.Name(), Run: func(ctx context.Context, e Env) error {
			return removeContainer(ctx, e, j)
		}}))
	}
	last := Stage{{Name: "archive-record", Run: func(ctx context.Context, e Env) error { return e.Ledger.FinishDelete(ctx) }}}
	if stop == nil {
		return []Stage{last}
	}
	return []Stage{stop, remove, last}
}

// whileDeleting lets a step run unless the deletion was canceled. What was stopped until then is started again on its own
// data: containers are all that a deletion removes before its last step.
func whileDeleting(s Step) Step { return while(s, cke.Ledger.Deleting, "the deletion was canceled") }

// while lets a step run as long as what it is for is asked for, which is read anew; else it says that it was taken back.
func while(s Step, asked func(cke.Ledger, context.Context) (bool, error), takenBack string) Step {
	run := s.Run
	s.Run = func(ctx context.Context, e Env) error {
		now, err := asked(e.Ledger, ctx)
		if err == nil && !now {
			err = fmt.Errorf("%s: %w", takenBack, cke.ErrConflict)
		}
		if err != nil {
			return err
		}
		return run(ctx, e)
	}
	return s
}
