package etcdnode

import (
	"context"
	"errors"
	"sync"
	"time"

	"cke"
)

// suspect is called when the engine keeps a call waiting. It sends a ping, unless one is under way, waits hangAfter for
// the answer, and reports whether the engine hangs, and since when.
//
// The ping is left waiting as long as the session lasts: an engine that continues answers it at once, and no further
// connections pile up in front of one that hangs, where they would use up the socket's backlog.
func (s *session) suspect() (since time.Time, hangs bool) {
	s.mu.Lock()
	if s.pinged.IsZero() && !s.closed {
		s.pinged, s.pong = time.Now(), make(chan struct{})
		s.wg.Go(s.ping)
	}
	pong, wait := s.pong, allowed(hangAfter)-time.Since(s.pinged)
	s.mu.Unlock()

	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-pong:
	case <-timer.C:
	case <-s.ctx.Done():
	}
	return s.hangs()
}

// ping waits until the engine answers, or the session ends.
func (s *session) ping() {
	_ = s.engine.ping(s.ctx) // any answer will do: the next call tells what is wrong
	s.mu.Lock()
	s.pinged = time.Time{}
	close(s.pong)
	s.mu.Unlock()
	if s.recovered != nil {
		s.recovered()
	}
}

// hangs reports whether the engine is known to hang, and since when. One that takes what it is sent, or answers something else,
// does not: the ping waits behind that.
func (s *session) hangs() (since time.Time, hangs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since = s.pinged
	if heard := time.Unix(0, s.engine.heardAt.Load()); heard.After(since) {
		since = heard
	}
	return since, !s.pinged.IsZero() && time.Since(since) >= allowed(hangAfter)
}

// diagnose finds out why a call on the engine gets no answer: the node is frozen, or its engine hangs. nil: neither, the
// call merely takes its time.
func (s *session) diagnose(what string) error {
	alive := make(chan bool, 1)
	s.spawn(func() { alive <- s.alive(allowed(keepAliveLimit)) })
	since, hangs := s.suspect()
	if !hangs && s.ended() == nil {
		return nil
	}
	select {
	case ok := <-alive:
		if ok {
			return engineHangs(s.node, what, since)
		}
	case <-s.ctx.Done():
	}
	return unreachable(s.node, wrap(what, s.ended()))
}

// call runs one call on the engine within limit and explains its error. A call that lasts is cut short when the engine
// turns out to hang; one that is long by nature, as a load or a stop, continues while the engine answers pings.
func (s *session) call(ctx context.Context, limit time.Duration, what string, do func(context.Context) error) error {
	if since, hangs := s.hangs(); hangs {
		return engineHangs(s.node, what, since)
	}
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer s.whileItLasts(ctx, func() {
		if trouble := s.diagnose(what); trouble != nil {
			cut(trouble)
		}
	})()
	err := s.engine.agree(ctx)
	if err == nil {
		err = s.safely(what+" on "+s.node.Name(), func() error { return do(ctx) })
	}
	var trouble *cke.Error
	if err != nil && errors.As(context.Cause(ctx), &trouble) {
		return trouble
	}
	return s.explain(what, err)
}

// whileItLasts calls check every callPatience until stop is called or ctx ends.
func (s *session) whileItLasts(ctx context.Context, check func()) (stop func()) {
	var timer *time.Timer
	var mu sync.Mutex
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(callPatience, func() {
		s.spawn(func() {
			if ctx.Err() != nil {
				return
			}
			check()
			mu.Lock()
			defer mu.Unlock()
			if ctx.Err() == nil {
				timer.Reset(callPatience)
			}
		})
	})
	return func() { timer.Stop() }
}
