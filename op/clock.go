package op

import (
	"context"
	"fmt"
	"time"

	"cke"
)

// Bounds of a comparison of clocks.
const (
	// ClockLimit is by how much the clock of the daemon's host may differ from others when something is written that is
	// valid until a time, or removed because a time has come.
	ClockLimit = 10 * time.Minute
	// tellLimit is how long a node that is not the one in question is asked for the time.
	tellLimit = 2 * time.Second
)

// rightClock refuses unless the node has the same time as the daemon's host, whose clock may have been set since the
// daemon decided. Where it has another, its own may be the one that is wrong: then more than half of the members' nodes
// and the daemon's host have to agree.
func rightClock(ctx context.Context, e Env, n cke.Node) error {
	off, err := clockOff(ctx, e, n)
	if err != nil {
		return fmt.Errorf("read the clock: %w", err)
	}
	if off.Abs() <= ClockLimit {
		return nil
	}
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	clocks, agree := 2, 1
	for _, j := range id.Joins {
		if j.Node.Address == n.Address {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, tellLimit)
		other, err := clockOff(ctx, e, j.Node)
		cancel()
		if err != nil {
			continue
		}
		if clocks++; other.Abs() <= ClockLimit {
			agree++
		}
	}
	if agree*2 > clocks {
		return nil
	}
	return &cke.Error{Code: cke.CodeClock, What: fmt.Sprintf("the clock of this host and that of %s differ by %s", n.Name(), off.Abs().Round(time.Second)), Unchanged: true,
		Facts: []string{"certificates would be valid at the wrong time, and what is kept for a time would be removed at the wrong time"}}
}

// clockOff is how far the clock of the daemon's host is ahead of a node's.
func clockOff(ctx context.Context, e Env, n cke.Node) (time.Duration, error) {
	told, err := e.Machines.Machine(n).Clock(ctx)
	return e.Now().Sub(told), err
}
