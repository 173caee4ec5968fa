package etcdnode

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"cke"
)

// link keeps the SSH connection to one node up. There is one attempt to connect at a time.
type link struct {
	node    cke.Node
	connect func(context.Context) (*session, error)
	// moved is called, from the link's goroutine, after the connection came up, was lost, or an attempt failed.
	moved func()

	cancel context.CancelFunc
	ended  chan struct{} // closed once nobody attempts any more
	poked  chan struct{} // cap 1: try again at once

	mu       sync.Mutex
	session  *session      // nil while down
	err      error         // why it is down; nil before the first attempt has ended
	begun    int           // attempts to connect that have started
	attempts int           // and that have ended
	turn     chan struct{} // closed and replaced whenever the above changes
}

func newLink(n cke.Node, connect func(context.Context) (*session, error), moved func()) *link {
	ctx, cancel := context.WithCancel(context.Background())
	l := &link{node: n, connect: connect, moved: moved, cancel: cancel, ended: make(chan struct{}), poked: make(chan struct{}, 1), turn: make(chan struct{})}
	go l.run(ctx)
	return l
}

// close ends the connection and returns when nothing of it is left.
func (l *link) close() {
	l.cancel()
	<-l.ended
}

func (l *link) run(ctx context.Context) {
	defer func() {
		l.set(nil, errClosed, false)
		close(l.ended)
	}()
	pause := &backoff.ExponentialBackOff{InitialInterval: reconnectMin, MaxInterval: reconnectMax, Multiplier: 2, RandomizationFactor: 0.5}
	pause.Reset()
	for {
		l.mu.Lock()
		l.begun++
		l.mu.Unlock()
		s, err := l.connect(ctx)
		if ctx.Err() != nil {
			if s != nil {
				s.last(ctx)
			}
			return
		}
		l.set(s, err, true)
		wait := min(pause.NextBackOff(), reconnectMax)
		if err == nil {
			pause.Reset()
			s.last(ctx)
			l.set(nil, unreachable(l.node, s.ended()), false)
			// Many nodes lose their connection in the same moment; they do not all come back in the same moment.
			wait = rand.N(reconnectMin)
		} else if !slept(ctx, leastPause) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-l.poked:
		case <-time.After(wait):
		}
	}
}

// set takes note of a change and tells everybody.
func (l *link) set(s *session, err error, attempted bool) {
	l.mu.Lock()
	l.session, l.err = s, err
	if attempted {
		l.attempts++
	}
	close(l.turn)
	l.turn = make(chan struct{})
	l.mu.Unlock()
	l.moved()
}

// poke makes a link that is down try at once instead of pausing.
func (l *link) poke() {
	select {
	case l.poked <- struct{}{}:
	default:
	}
}

// now returns the session, or nil.
func (l *link) now() *session {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session
}

// get returns the session; while there is none it makes the link try at once, and waits for an attempt that starts
// after the call to end. One that is under way will do if it succeeds, or if it is the first. errClosed: the link is closed.
func (l *link) get(ctx context.Context) (*session, error) {
	enough := 0
	return l.await(ctx, func() bool {
		if enough == 0 {
			enough = 1
			if l.attempts > 0 {
				enough = l.begun + 1
				l.poke()
			}
		}
		return l.attempts >= enough
	})
}

// first returns the session, or why there is none; it waits only while the very first attempt continues.
func (l *link) first(ctx context.Context) (*session, error) {
	return l.await(ctx, func() bool { return l.attempts > 0 })
}

// await waits for a session until there was enough of it; enough is called with l.mu held, and not while there is a
// session.
func (l *link) await(ctx context.Context, enough func() bool) (*session, error) {
	for {
		l.mu.Lock()
		s, err, turn := l.session, l.err, l.turn
		up := s != nil && s.ctx.Err() == nil
		give := !up && enough()
		l.mu.Unlock()
		if up {
			return s, nil
		}
		if give && err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			if err == nil {
				err = unreachable(l.node, ctx.Err())
			}
			return nil, err
		case <-l.ended:
			return nil, errClosed
		case <-turn:
		}
	}
}
