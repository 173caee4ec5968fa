package op

import (
	"context"
	"fmt"

	"cke"
)

// MarkEnded marks on its node that a membership ended, or was put aside: a copy of the store from before has it as a
// current one, and nothing else may show that its member was removed from the list, or has the wrong data. It is
// recorded before, so that no mark names another membership.
type MarkEnded struct{ Join cke.Join }

var _ Operation = MarkEnded{}

// Name implements Operation.
func (MarkEnded) Name() string { return "mark-ended" }

// Targets implements Operation.
func (m MarkEnded) Targets() []string { return []string{m.Join.Node.Name()} }

// Stages implements Operation.
func (m MarkEnded) Stages() []Stage {
	return []Stage{{{Name: "mark-ended", Node: m.Join.Node.Name(), Run: m.mark}}}
}

func (m MarkEnded) mark(ctx context.Context, e Env) error {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	if current, _ := id.Join(m.Join.ID); !current.Apart {
		if j, is := ended(id, m.Join.ID); !is || j.NeverVoted || !id.Incarnation.Life(j.Incarnation) {
			return nil
		}
	}
	return e.Machines.Machine(m.Join.Node).MarkOver(ctx, e.Cluster, []string{string(m.Join.ID)})
}

// try is mark for an operation that does not wait for a node that cannot take it: the mark is made later.
func (m MarkEnded) try(ctx context.Context, e Env) error {
	if err := m.mark(ctx, e); err != nil && ctx.Err() == nil {
		e.Note(fmt.Sprintf("not marked: %v", err))
	}
	return ctx.Err()
}
