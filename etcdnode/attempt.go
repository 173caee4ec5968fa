package etcdnode

import (
	"context"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// attempt is one attempt to connect to a node. It holds one of Config.Handshakes from when the node has sent something until
// the node keeps it waiting, so that a node that is silent, at whatever point, holds up no other.
type attempt struct {
	ctx    context.Context // context.Cause: context.DeadlineExceeded once the limit has passed
	cancel context.CancelCauseFunc
	slots  *semaphore.Weighted // nil: no bound

	mu    sync.Mutex
	limit *time.Timer // stopped while the attempt waits for a slot
	due   time.Time   // when limit passes
	held  bool        // a slot is
	over  bool
}

func newAttempt(ctx context.Context, slots *semaphore.Weighted, limit time.Duration) *attempt {
	a := &attempt{slots: slots, due: time.Now().Add(limit)}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	a.limit = time.AfterFunc(limit, func() { a.cancel(context.DeadlineExceeded) })
	return a
}

// end may be called twice.
func (a *attempt) end() {
	a.mu.Lock()
	a.over = true
	a.limit.Stop()
	a.mu.Unlock()
	a.give()
	a.cancel(nil)
}

// take waits for a slot, unless one is held; a node is not to blame for that time.
func (a *attempt) take() {
	a.mu.Lock()
	wait := a.slots != nil && !a.held && !a.over
	if wait {
		a.limit.Stop()
	}
	a.mu.Unlock()
	if !wait {
		return
	}
	asked := time.Now()
	got := a.slots.Acquire(a.ctx, 1) == nil
	a.mu.Lock()
	defer a.mu.Unlock()
	if got && (a.over || a.held) { // of two connections of one attempt, the first may still read when the second starts
		a.slots.Release(1)
	}
	if !a.over {
		a.held = a.held || got
		a.due = a.due.Add(time.Since(asked))
		a.limit.Reset(time.Until(a.due))
	}
}

// give gives the slot back, if one is held.
func (a *attempt) give() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held {
		a.held = false
		a.slots.Release(1)
	}
}

func (a *attempt) isOver() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.over
}

// attemptConn is the connection of an attempt, and afterward that of the session.
type attemptConn struct {
	net.Conn
	attempt *attempt
}

// Read implements net.Conn.
func (c attemptConn) Read(p []byte) (int, error) {
	if c.attempt.isOver() {
		return c.Conn.Read(p)
	}
	silent := time.AfterFunc(slotIdle, c.attempt.give)
	n, err := c.Conn.Read(p)
	silent.Stop()
	if n > 0 {
		c.attempt.take()
	}
	return n, err
}
