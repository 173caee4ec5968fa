package op

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cke"
)

// lastStarts returns when the containers of memberships that are stopped were last started.
func lastStarts(ctx context.Context, e Env, joins []cke.Join) (map[cke.JoinID]time.Time, error) {
	ran := map[cke.JoinID]time.Time{}
	for _, j := range joins {
		c, err := e.Machines.Machine(j.Node).Container(ctx, j)
		switch {
		case errors.Is(err, cke.ErrNotFound):
			continue
		case err != nil:
			return nil, err
		case c.Running() || c.State == cke.ContainerRestarting:
			return nil, fmt.Errorf("container %s on %s is %s: %w", c.Name, j.Node.Name(), c.State, cke.ErrConflict)
		}
		ran[j.ID] = c.StartedAt
	}
	return ran, nil
}

// ranSince calls a recovery off if a member of the life before was started after the survivor was copied.
func (r Restore) ranSince(ctx context.Context, e Env, inc cke.Incarnation) error {
	if inc.Restore.Order.Survivor == "" {
		return nil
	}
	for _, j := range r.Fence {
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
