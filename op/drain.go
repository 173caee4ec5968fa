package op

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cke"
)

// DrainNode gives a node a maintenance lease: leadership is moved away, the lease recorded, the member stopped. A
// lease that was refused, or whose member could not be stopped, is removed.
type DrainNode struct {
	Node cke.Node
	// Join is the membership on the node; nil: it carries none, and only the lease is recorded.
	Join *cke.Join
	// Reason and By are of the lease, For is how long it is active from when it is recorded.
	Reason, By string
	For        time.Duration
	// Entry is the id of the entry of a queue that the lease is for, Queue that one; empty: an operator has it.
	Entry string
	Queue cke.QueueKind
	// Accepted: the operator accepted that a cluster of one or two voters does not serve meanwhile.
	Accepted bool
}

var _ Operation = DrainNode{}

// Name implements Operation.
func (DrainNode) Name() string { return "drain-node" }

// Targets implements Operation.
func (d DrainNode) Targets() []string { return []string{d.Node.Name()} }

// Stages implements Operation.
func (d DrainNode) Stages() []Stage {
	n := d.Node.Name()
	lease := Stage{{Name: "lease", Node: n, Run: d.lease}}
	if d.Join == nil {
		return []Stage{lease}
	}
	return []Stage{
		{{Name: "check", Node: n, Run: d.check}},
		{{Name: "move-leader", Node: n, Run: func(ctx context.Context, e Env) error { return moveLeaderFrom(ctx, e, *d.Join) }}},
		lease,
		{{Name: "stop", Node: n, Limit: stopLimit, Run: d.stop}},
	}
}

// check looks at the member's data before its leadership is moved.
func (d DrainNode) check(ctx context.Context, e Env) error {
	if err := d.allowed(ctx, e); err != nil {
		return err
	}
	return needRunningData(ctx, e, *d.Join)
}

func (d DrainNode) allowed(ctx context.Context, e Env) error {
	if d.stopped(ctx, e) {
		return nil
	}
	return mayStop(ctx, e, *d.Join, d.Accepted)
}

// stopped reports whether the member is known not to run: one or two voters have no quorum then that could be asked.
func (d DrainNode) stopped(ctx context.Context, e Env) bool {
	c, err := e.Machines.Machine(d.Node).Container(ctx, *d.Join)
	return err == nil && !c.Running() && c.State != cke.ContainerRestarting
}

func (d DrainNode) lease(ctx context.Context, e Env) error {
	now := e.Now().UTC()
	lease := cke.Drain{Node: d.Node.Name(), Address: d.Node.Address, Reason: d.Reason, By: d.By, Since: now, Until: now.Add(d.For), Entry: d.Entry, Queue: d.Queue}
	err := e.Ledger.PutDrain(ctx, lease)
	if err == nil {
		return nil
	}
	if asked, again := e.Ledger.Asked(ctx); again == nil && slices.ContainsFunc(asked.Drains, func(is cke.Drain) bool {
		return is.Node == lease.Node && is.Since.Equal(lease.Since) && is.Entry == lease.Entry
	}) {
		return nil // only the answer was lost
	}
	return err
}

// stop asks for the arithmetic once more, and ends the lease unless the member is stopped.
func (d DrainNode) stop(ctx context.Context, e Env) error {
	err := d.allowed(ctx, e)
	if err == nil {
		j := *d.Join
		j.Node = d.Node
		err = stopKept(ctx, e, j)
	}
	if err == nil {
		return nil
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	if endErr := e.Ledger.EndDrain(late, d.Node.Name()); endErr != nil {
		return fmt.Errorf("%w; its lease remains until it expires: %w", err, endErr)
	}
	return err
}
