package etcdnode

import "time"

// suspect is called after the engine kept a call waiting for too long. It tells whether the engine hangs, and since
// when.
//
// The ping that finds out is left waiting as long as the session lasts: an engine that goes on answers it at once,
// and no further connections pile up in front of one that hangs, where they would use up the socket's backlog.
func (s *session) suspect(wait time.Duration) (since time.Time, hangs bool) {
	s.mu.Lock()
	if s.hung == nil && !s.closed {
		now := time.Now()
		s.hung, s.pong = &now, make(chan struct{})
		s.wg.Go(s.ping)
	}
	pong := s.pong
	s.mu.Unlock()

	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-pong:
	case <-timer.C:
	}
	return s.hangs()
}

// ping waits until the engine answers, or the session ends.
func (s *session) ping() {
	_ = s.engine.ping(s.ctx) // any answer will do: the next call tells what is wrong
	s.mu.Lock()
	s.hung = nil
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
	if s.hung == nil {
		return time.Time{}, false
	}
	return *s.hung, true
}
