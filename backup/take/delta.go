package take

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"cke/backup"
	"cke/internal/contain"
)

// send hands the delta that was filled so far over to the target and starts the next one. Nothing may be on its way.
func (s *session) send() error {
	if s.at.newer.Place().Revision < s.builder.Last() {
		s.at.base, s.at.newer = cmp.Or(s.at.newer, s.at.base), nil
	}
	d, at, doubt := s.builder, s.at, s.asDoubted()
	s.underway = point{}.marks(d.Last(), d.Mark())
	s.sentSize = d.Size()
	sent := make(chan sentDelta, 1)
	s.sent = sent
	go contain.Work(func() { sent <- s.store(d, at, doubt) }, func(err error) { sent <- sentDelta{err: err} })()
	s.at.sequence++
	s.at.next = d.Last() + 1
	s.due = false
	s.age.Stop()
	return s.begin()
}

// store completes a delta with what etcd says of its leases and data, and writes it. It continues trying until the
// session ends: what it holds is nowhere else. A cluster that may have another history by now, or does not answer, is asked nothing.
func (s *session) store(d *backup.DeltaWriter, at position, doubt *point) (r sentDelta) {
	c := &s.t.c
	h := backup.Header{
		Place:  backup.DeltaPlace(c.Cluster, c.Lineage, at.stream, at.sequence, at.next),
		Writer: c.Writer, Term: c.Term, Signer: c.Signer, Origin: c.Origin, After: at.after, Base: at.base, Watched: at.watched,
	}
	err := s.compare(doubt)
	if stop := new(stopError); errors.As(err, &stop) {
		return sentDelta{err: stop}
	}
	ask := err == nil
	if ask {
		r.leases, err = s.o.leases(s.ctx, d.Last())
	}
	if err != nil {
		// They are not made up: the delta has none, and a full follows.
		c.Log.Warn("leases of a delta are unknown", "error", err)
		r.noLeases = true
		if err := d.AddLeases(s.o.lists(at.next - 1)...); err != nil {
			return sentDelta{err: err}
		}
	} else if err := d.AddLeases(s.o.lists(at.next-1, r.leases)...); err != nil {
		return sentDelta{err: err}
	} else {
		s.o.told(r.leases, d.Last())
		h.RaftIndex = s.o.index
	}
	if h.RaftIndex > 0 && h.RaftIndex < at.known.index {
		// A member that lags, or another history: nothing of that may be stored.
		if err := s.t.refuseHistory(s.ctx, s.k, point{revision: at.known.revision, index: at.known.index}, at.known.revision); err != nil {
			return sentDelta{err: err}
		}
	}
	if ask {
		h.Hashes = s.o.deltaHash(s.ctx, d.Last())
		r.told.asked = c.Now()
		if r.auth, r.told.revision, err = s.o.auth(s.ctx); err == nil {
			r.authOK, h.AuthRevision, h.AuthEnabled = true, r.auth.Revision, r.auth.Enabled
		}
	}
	content, h, err := d.Seal(h)
	if err != nil {
		return sentDelta{err: err}
	}
	r.err = s.put(h.Place.Name(), content)
	for errors.Is(r.err, errTaken) && s.forged(h.Place) {
		h.Place.Sequence++
		if content, err = content.WithHeader(h); err != nil {
			return sentDelta{err: err}
		}
		h.Size, h.Sum = content.Size(), content.HeadSum()
		r.err = s.put(h.Place.Name(), content)
	}
	r.header = h
	return r
}

// forged reports whether what is there is sound, and not from this host: no reader who knows this host's key counts it.
func (s *session) forged(p backup.Place) bool {
	h, err := backup.ReadHeader(s.ctx, s.t.c.Bucket, p)
	return err == nil && s.t.c.Signer != nil && !s.t.c.signs(h)
}

// mostDamaged bounds how often what has the name of the next delta is found damaged: once may be while it is being written.
const mostDamaged = 2

// put writes until it succeeds, the session ends, the guard refuses or another object, sound or damaged, has the name.
func (s *session) put(name string, content backup.Content) error {
	c := &s.t.c
	failed, damaged := false, 0
	attempt := c.Retry
	pause := pauses(c.Retry)
	for {
		// One attempt at a time, so that trouble is reported at once.
		attempt.For = time.Nanosecond
		err := attempt.Put(s.ctx, c.Bucket, name, content, s.t.guard)
		var stop *stopError
		switch {
		case err == nil:
			if failed {
				s.t.tell(Event{Type: TargetBack})
			}
			return nil
		case errors.As(err, &stop):
			return stop
		case errors.Is(err, backup.ErrExists):
			return fmt.Errorf("%w: %w", errTaken, err)
		case errors.Is(err, backup.ErrLost):
			s.t.tell(Event{Type: TargetFailed, Err: err})
			return err
		case s.ctx.Err() != nil:
			return err
		case backup.IsDamage(err):
			if damaged++; damaged >= mostDamaged {
				return err
			}
		}
		if !failed {
			s.t.tell(Event{Type: TargetFailed, Err: err})
			failed = true
		}
		timer := time.NewTimer(pause.NextBackOff())
		select {
		case <-timer.C:
		case <-s.hurry:
		case <-s.ctx.Done():
		}
		timer.Stop()
		if err := s.ctx.Err(); err != nil {
			return err
		}
	}
}

// pauses are those between attempts at a target that fails: longer and longer, and never the same for two clusters.
func pauses(r backup.Retry) *backoff.ExponentialBackOff {
	p := backoff.NewExponentialBackOff()
	p.InitialInterval, p.MaxInterval = deltaRetry, deltaRetryMax
	if r.First > 0 {
		p.InitialInterval = r.First
	}
	if r.Longest > 0 {
		p.MaxInterval = r.Longest
	}
	return p
}

// deltaDone takes in that a delta is stored, or why not.
func (s *session) deltaDone(r sentDelta) error {
	s.sent, s.sentSize = nil, 0
	if r.err != nil {
		if errors.Is(r.err, errTaken) {
			s.t.tell(Event{Type: Contended, Err: r.err})
		}
		if backup.IsDamage(r.err) { // the name is used up: nothing that follows in this stream could be restored
			s.t.tell(Event{Type: Gap, From: s.stored + 1, To: s.builder.Last(), Err: r.err})
			return &gapError{fromNow}
		}
		return r.err
	}
	s.t.tell(Event{Type: DeltaStored, Header: r.header})
	s.seen()
	s.at.sequence = r.header.Place.Sequence + 1
	s.stored, s.at.after, s.at.known = r.header.Last, r.header.Link(), s.at.known.reached(r.header)
	s.owed = 0
	if r.noLeases {
		s.owed = r.header.Last
	}
	if r.authOK {
		s.heard(r.told)
		s.authSeen(r.auth)
	}
	return nil
}

// drain stores all there is. It takes at most Config.Shutdown.
func (s *session) drain() error {
	timer := time.NewTimer(s.t.c.Shutdown)
	defer timer.Stop()
	for {
		if s.sent == nil {
			if s.builder.Empty() {
				return s.step() // answers flushes
			}
			if err := s.send(); err != nil {
				return err
			}
		}
		select {
		case r := <-s.sent:
			if err := s.deltaDone(r); err != nil {
				return err
			}
		case <-timer.C:
			return fmt.Errorf("the target did not store the last delta within %s", s.t.c.Shutdown)
		}
	}
}

// shutdown stores what was received before the end.
func (s *session) shutdown() error {
	err := s.drain()
	var stop *stopError
	if err != nil && !errors.As(err, &stop) {
		s.t.tell(Event{Type: TargetFailed, Err: err})
	}
	return err
}
