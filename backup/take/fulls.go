package take

import (
	"errors"
	"time"

	"cke/backup"
	"cke/internal/contain"
)

// fullCheck is how often the clock is checked for the next full, whatever it was put to; a full that failed is tried
// again after fullRetry, doubled up to fullRetryMax.
const (
	fullCheck    = time.Minute
	fullRetry    = time.Second
	fullRetryMax = 5 * time.Minute
)

// planFull starts a full if one is needed, or waits for the time of the next.
func (s *session) planFull() {
	if s.full != nil {
		return
	}
	if s.at.full {
		s.startFull()
		return
	}
	now := s.t.c.Now()
	next := s.nextFull(now)
	if next.IsZero() {
		return
	}
	s.fullTry.Reset(min(fullCheck, max(0, next.Sub(now))))
}

// nextFull is when the next full has to be taken after the last one; zero: never. A last one in the future means that the
// clock was put back since: from then on it counts as having been taken when that was noticed.
func (s *session) nextFull(now time.Time) time.Time {
	if s.t.c.Fulls == nil {
		return time.Time{}
	}
	if s.at.lastFull.After(now) {
		s.at.lastFull = now
	}
	return s.t.c.Fulls.Next(s.at.lastFull)
}

// fullDue is called when it may be time for a full.
func (s *session) fullDue() {
	now := s.t.c.Now()
	next := s.nextFull(now)
	if s.at.full || !next.IsZero() && !next.After(now) {
		s.startFull()
		return
	}
	s.planFull()
}

// startFull takes a full beside the deltas, which continue meanwhile.
func (s *session) startFull() {
	if s.full != nil {
		return
	}
	done := make(chan result, 1)
	s.full = done
	// It must reach the run that continues, or changes would be missing between them, and be the newest full: that has the users and roles that count.
	revision := max(s.at.begins-1, s.stored, s.owed, s.t.newestMerged().Last)
	known := backup.Header{Place: s.t.newestFull(), Stored: s.stored, After: s.at.after, RaftIndex: s.at.known.index, AuthRevision: s.authNow.Revision, AuthEnabled: s.authNow.Enabled}
	c, doubt := s.t.c, s.asDoubted()
	c.Guard = s.t.guard
	s.t.setFull(true)
	s.o.fullStarts()
	go contain.Work(func() {
		defer s.t.setFull(false)
		if stop := new(stopError); errors.As(s.compare(doubt), &stop) {
			done <- result{err: stop}
			return
		}
		h, err := takeFull(s.ctx, &c, s.k, s.o, revision, known)
		done <- result{h, err}
	}, func(err error) { done <- result{err: err} })()
}

func (s *session) fullDone(r result) error {
	s.full = nil
	s.o.fullEnds(r.header.Last)
	waiting := s.fulls
	s.fulls, s.after = s.after, nil
	s.answer(&waiting, r)
	var stop *stopError
	if errors.As(r.err, &stop) {
		return stop
	}
	if errors.Is(r.err, ErrDiverged) {
		s.suspect()
	}
	if r.err != nil {
		s.t.tell(Event{Type: FullFailed, Err: r.err})
		s.at.full = true
		s.retry = min(max(fullRetry, 2*s.retry), fullRetryMax)
		s.fullTry.Reset(s.retry)
		s.refuseFlushes(r.err)
	} else {
		s.retry = 0
		s.at.newer = r.header.Link()
		s.t.renew = false
		s.baseless, s.at.full, s.at.lastFull = false, false, r.header.Place.Time
		if r.header.Last >= s.at.authAt {
			s.at.auth, s.at.authOK, s.at.authAt = r.header.Users(), true, r.header.Last
		}
		if r.header.Last >= s.owed {
			s.owed = 0
		}
		s.t.tell(Event{Type: FullStored, Header: r.header}) // first, or what was believed before would count as restorable
		s.t.setConnected(true, 0)
		s.planFull()
	}
	if len(s.fulls) > 0 {
		s.startFull()
	}
	return nil
}

// request takes in what was asked for.
func (s *session) request(r request) {
	switch {
	case len(r.wrong) > 0 && s.t.replaced(r.wrong):
		r.done <- result{}
	case len(r.wrong) > 0 && !r.full:
		s.baseless = true
		s.t.setConnected(false, 0)
		r.done <- result{}
	case !r.full:
		// What was changed before the call is in the watch's way: wait for the revision that etcd has by now.
		known := s.known()
		go contain.Work(func() {
			f := flush{request: r}
			if f.revision, f.err = s.k.revision(s.ctx); f.err == nil && f.revision < known.revision {
				f.err = s.k.compare(s.ctx, known, f.revision)
			}
			if f.err == nil {
				f.auth, _, f.err = s.o.auth(s.ctx)
			}
			select {
			case s.marks <- f:
			case <-s.ctx.Done():
				r.done <- result{err: ErrStopped}
			}
		}, func(err error) { r.done <- result{err: err} })()
	case s.full == nil:
		s.fulls = append(s.fulls, r)
		s.startFull()
	case len(r.wrong) > 0:
		s.fulls = append(s.fulls, r)
	default:
		// The one on its way started before it was asked for.
		s.after = append(s.after, r)
	}
}

// flushFrom takes in a flush of which the revision is known.
func (s *session) flushFrom(f flush) {
	if f.err != nil {
		f.done <- result{err: f.err}
		return
	}
	s.flushes = append(s.flushes, f)
	s.authSeen(f.auth)
	select {
	case s.hurry <- struct{}{}: // whoever waits need not wait for the next attempt
	default:
	}
}
