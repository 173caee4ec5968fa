package plan

import (
	"context"
	"sync"
	"time"

	"cke/op"
)

// clock is a time that passes only when somebody waits.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

// Now returns the time on the clock.
func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// deadlineKey is the key of a step's deadline on the clock.
type deadlineKey struct{}

// pause lets time pass, up to the deadline of the step.
func (c *clock) pause(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if end, ok := ctx.Value(deadlineKey{}).(time.Time); ok {
		if left := end.Sub(c.Now()); left < d {
			c.advance(max(0, left))
			return context.DeadlineExceeded
		}
	}
	c.advance(d)
	return nil
}

// timed is an operation whose steps are bounded by the clock, and run one after the other in the order of their stage,
// so that what happens follows from the operation only.
type timed struct {
	op.Operation
	clock *clock
}

// Stages implements op.Operation.
func (t timed) Stages() []op.Stage {
	var turn chan struct{}
	return op.Around(t.Operation.Stages(), func(i int, s op.Step) op.Step {
		if i == 0 {
			turn = make(chan struct{})
			close(turn)
		}
		s.Run, turn = t.inTurn(s, turn)
		return s
	})
}

// inTurn lets a step run once turn is closed; what it returns is closed when the step has ended.
func (t timed) inTurn(s op.Step, turn <-chan struct{}) (func(context.Context, op.Env) error, chan struct{}) {
	limit := s.Limit
	if limit == 0 {
		limit = op.DefaultStepLimit
	}
	next := make(chan struct{})
	return func(ctx context.Context, e op.Env) error {
		<-turn
		defer close(next)
		return s.Run(context.WithValue(ctx, deadlineKey{}, t.clock.Now().Add(limit)), e)
	}, next
}
