package op

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cke"
)

// indexOf is the index of the first of memberships with an id, or -1. Of what a restore stops a second one is a copy on another machine: it
// is stopped, and no more.
func indexOf(joins []cke.Join, id cke.JoinID) int {
	return slices.IndexFunc(joins, func(j cke.Join) bool { return j.ID == id })
}

// starts returns when the container of each membership was last started, where it is on record; zero where there is none.
func starts(ctx context.Context, e Env, joins []cke.Join) ([]time.Time, error) {
	ran := make([]time.Time, len(joins))
	for i, j := range joins {
		c, err := e.Machines.Machine(j.Node).Container(ctx, j)
		if err == nil {
			ran[i] = c.StartedAt
		} else if !errors.Is(err, cke.ErrNotFound) {
			return nil, err
		}
	}
	return ran, nil
}

// lastStarts returns when memberships that are stopped were last started. What runs may be stopped again before it is asked once more.
func lastStarts(ctx context.Context, e Env, joins []cke.Join) (map[cke.JoinID]time.Time, error) {
	all, err := starts(ctx, e, joins)
	if err != nil {
		return nil, err
	}
	ran := map[cke.JoinID]time.Time{}
	for i, j := range joins {
		if err := isFenced(ctx, e, j); err != nil {
			return nil, err
		}
		if indexOf(joins, j.ID) == i {
			ran[j.ID] = all[i]
		}
	}
	return ran, nil
}

// othersRan refuses a recovery that others than its survivor were started after, as while it was interrupted: without the
// survivor they may have acknowledged what that lacks. Times within ClockLimit are taken for the same.
func (b BeginRestore) othersRan(ctx context.Context, e Env, ran map[cke.JoinID]time.Time) error {
	o := b.order()
	survivor, err := b.survivor(ctx, e)
	if err != nil {
		return err
	}
	for _, j := range b.Fence {
		latest := b.Task.At.Add(ClockLimit)
		if b.Task.At.IsZero() || !ran[j.ID].After(latest) || j.ID == survivor.ID || slices.Contains(o.Without, j.Node.Name()) {
			continue
		}
		off, err := clockOff(ctx, e, j.Node)
		if err != nil {
			return fmt.Errorf("read the clock of %s: %w", j.Node.Name(), err)
		}
		if !ran[j.ID].Add(off).After(latest) { // its clock is ahead
			continue
		}
		return &cke.Error{Code: cke.CodeFence, What: fmt.Sprintf("the member on %s was started after the recovery was requested, and clients may have written since", j.Node.Name()),
			Facts: []string{fmt.Sprintf("it was started at %s by the daemon's clock, and the recovery was requested at %s by that of another host; correct a clock that is wrong",
				ran[j.ID].Add(off).UTC().Format(time.RFC3339), b.Task.At.UTC().Format(time.RFC3339))}, Try: o.Command() + " --plan"}
	}
	return nil
}

// ranSince calls a recovery off if a member of the life before was started after the survivor was copied.
func (r Restore) ranSince(ctx context.Context, e Env, inc cke.Incarnation) error {
	if inc.Restore.Order.Survivor == "" {
		return nil
	}
	for i, j := range r.Fence {
		if indexOf(r.Fence, j.ID) != i {
			continue
		}
		c, err := e.Machines.Machine(j.Node).Container(ctx, j)
		if errors.Is(err, cke.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if !inc.Restore.RanSince(j, c) {
			continue
		}
		if err := r.stopAbandoned(ctx, e, inc); err != nil {
			return err
		}
		return r.callOff(ctx, e, inc, &cke.Error{Code: cke.CodeFence, What: cke.StartedSinceCopied(j.Node.Name()), Try: "ckecli status"})
	}
	return nil
}
