package etcdnode

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"cke"
)

// lateGrace is how long an engine that answers may take to carry out what was given up before.
const lateGrace = 2 * time.Second

// errLeft: a stream out of a container was closed before its end, as once a list has told enough. The engine notices that as it writes on.
var errLeft = errors.New("left before its end")

// errNotAsked: the engine was not asked to remove anything.
var errNotAsked = errors.New("not asked")

// reach keeps the removal of a container and requests into its files apart.
//
// An engine before 23.0 mounts the volumes of a container below its own root for such a request. Where it removes the container at the
// same time, it deletes what is below that root, with all that the volumes hold: their data is gone. Source: moby 20.10,
// containerStatPath takes the container's lock and cleanupContainer does not; from 23.0 on the mounts are in a namespace of their
// own. Seen on nodes, and once in three tries with both requests at once.
type reach struct {
	// beside: another process may remove containers, and does not ask here.
	beside bool
	// began is when this process, or this term, took over: what the one before asked last may be carried out for a moment after that.
	began time.Time

	mu sync.Mutex
	of map[string]*reached // by the engine's id of the container
	// ended are the containers that were seen to have ended in the first moments: the process before may have asked to remove them.
	ended map[string]bool
}

// reached is who reaches into one container.
type reached struct {
	within int           // requests under way
	left   chan struct{} // closed, and made again, when one ends
	late   bool          // one was given up: the engine may carry it out later
	closed time.Time     // when one was left before its end: the engine notices that in a moment
	goes   bool          // it is being removed: no request reaches into it any more
	gone   time.Time     // when a removal was given up: the engine may continue with it for a moment
}

// idle reports whether nothing of it has to be remembered.
func (c *reached) idle() bool {
	return c.within == 0 && !c.late && c.closed.IsZero() && !c.goes && c.gone.IsZero()
}

func (r *reach) get(id string) *reached {
	if r.of == nil {
		r.of = map[string]*reached{}
	}
	c := r.of[id]
	if c == nil {
		c = &reached{left: make(chan struct{})}
		r.of[id] = c
	}
	return c
}

// seen notes the state of a container.
func (r *reach) seen(id string, ended bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.settles() <= 0:
		r.ended = nil
	case ended && r.ended == nil:
		r.ended = map[string]bool{id: true}
	case ended:
		r.ended[id] = true
	default:
		delete(r.ended, id)
	}
}

// settles is for how long the engine may still carry out what the process before asked.
func (r *reach) settles() time.Duration { return lateGrace - time.Since(r.began) }

// look is into for what only reads. It waits while the process before may have asked to remove the container.
func (r *reach) look(ctx context.Context, id string) (leave func(error), err error) {
	if r.beside {
		return nil, fmt.Errorf("another process may be removing container %.12s, so its files are not read: %w", id, cke.ErrConflict)
	}
	r.mu.Lock()
	wait := r.settles()
	if !r.ended[id] {
		wait = 0
	}
	r.mu.Unlock()
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return r.into(id)
}

// into allows one request into the files of a container, and returns what is called once it has ended, with its error.
// One that failed without an answer of the engine was given up; errLeft: it was left before its end. ErrConflict: the container is being removed, and what it holds is not known.
func (r *reach) into(id string) (leave func(error), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.get(id)
	if c.goes || time.Since(c.gone) < lateGrace {
		return nil, fmt.Errorf("container %.12s is being removed: %w", id, cke.ErrConflict)
	}
	c.within++
	return func(failed error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		c.within--
		if errors.Is(failed, errLeft) {
			c.closed = time.Now()
		} else if failed != nil && !answered(failed) {
			c.late = true
		}
		close(c.left)
		c.left = make(chan struct{})
		if c.idle() {
			delete(r.of, id)
		}
	}, nil
}

// alone waits until no request reaches into a container, and lets nobody until done is called with what became of the removal. One that got no
// answer may continue.
func (r *reach) alone(ctx context.Context, id string) (done func(failed error), err error) {
	r.mu.Lock()
	c := r.get(id)
	c.goes = true
	r.mu.Unlock()
	done = func(failed error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		var deposed fenceError // nothing more is sent or read
		if failed != nil && !answered(failed) && !errors.Is(failed, errNotAsked) && !errors.As(failed, &deposed) {
			c.gone = time.Now()
		}
		if c.goes = false; failed == nil || c.idle() {
			delete(r.of, id)
		}
	}
	state := func() (within int, left <-chan struct{}, late bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return c.within, c.left, c.late
	}
	within, left, late := state()
	for ; within > 0; within, left, late = state() {
		select {
		case <-left:
		case <-ctx.Done():
			done(errNotAsked)
			return nil, ctx.Err()
		}
	}
	pause := max(0, r.settles(), lateGrace-time.Since(c.closed))
	if late {
		pause = lateGrace
	}
	if pause == 0 {
		return done, nil
	}
	select {
	case <-time.After(pause):
		return done, nil
	case <-ctx.Done():
		done(errNotAsked)
		return nil, ctx.Err()
	}
}
