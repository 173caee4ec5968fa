package etcdnode

import (
	"context"
	"time"
)

// suspect is called when the engine keeps a call waiting. It sends a ping, unless one is under way, waits AnswerWait for
// the answer, and tells whether the engine hangs, and since when.
//
// The ping is left waiting as long as the session lasts: an engine that goes on answers it at once, and no further
// connections pile up in front of one that hangs, where they would use up the socket's backlog.
func (s *session) suspect() (since time.Time, hangs bool) {
	s.mu.Lock()
	if s.pinged.IsZero() && !s.closed {
		s.pinged, s.pong = time.Now(), make(chan struct{})
		s.wg.Go(s.ping)
	}
	pong, wait := s.pong, AnswerWait-time.Since(s.pinged)
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

// hangs tells whether the engine is known to hang, and since when.
func (s *session) hangs() (since time.Time, hangs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pinged, !s.pinged.IsZero() && time.Since(s.pinged) >= AnswerWait
}

// call runs one call on the engine within limit and explains its error. A call that lasts is cut short when the engine
// turns out to hang; one that is long by nature, as a load or a stop, goes on while the engine answers pings.
func (s *session) call(ctx context.Context, limit time.Duration, what string, do func(context.Context) error) error {
	if since, hangs := s.hangs(); hangs {
		return engineHangs(s.node, what, since)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan error, 1)
	s.spawn(func() { done <- do(ctx) })
	timer := time.NewTimer(CallPatience)
	defer timer.Stop()
	for {
		select {
		case err := <-done:
			return s.explain(what, err)
		case <-s.ctx.Done():
			return unreachable(s.node, wrap(what, s.ended()))
		case <-timer.C:
		}
		if since, hangs := s.suspect(); hangs {
			return engineHangs(s.node, what, since)
		}
		timer.Reset(CallPatience)
	}
}
