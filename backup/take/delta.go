package take

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"cke/backup"
)

// send hands the delta that was filled so far over to the target and begins the next one. Nothing may be on its way.
func (s *session) send() error {
	d, at := s.builder, s.at
	s.sentSize = d.Size()
	sent := make(chan sentDelta, 1)
	s.sent = sent
	go func() { sent <- s.store(d, at) }()
	s.at.sequence++
	s.at.next = d.Last() + 1
	s.due = false
	s.age.Stop()
	return s.begin()
}

// store completes a delta with what etcd says of its leases and data, and writes it. It goes on trying until the
// session ends: what it holds is nowhere else.
func (s *session) store(d *backup.DeltaWriter, at position) (r sentDelta) {
	c := &s.t.c
	h := backup.Header{
		Place:  backup.DeltaPlace(c.Cluster, c.Lineage, at.stream, at.sequence, at.next),
		Writer: c.Writer, Term: c.Term,
	}
	var err error
	if r.leases, err = s.o.leases(s.ctx, d.Last()); err != nil {
		// They are not made up: the delta has none, and a full follows.
		c.Log.Warn("leases of a delta are unknown", "error", err)
		r.noLeases = true
	} else if err := d.AddLeases(r.leases); err != nil {
		return sentDelta{err: err}
	} else {
		s.o.told(r.leases)
	}
	if h.Hashes, err = s.o.hash(s.ctx, d.Last(), false); err != nil {
		c.Log.Warn("no hash for a delta", "revision", d.Last(), "error", err)
	}
	if r.auth, err = s.o.authRevision(s.ctx); err == nil {
		r.authOK, h.AuthRevision = true, r.auth
	}
	content, h, err := d.Seal(h)
	if err != nil {
		return sentDelta{err: err}
	}
	r.header = h
	r.err = s.put(h.Place.Name(), content)
	return r
}

// put writes until it succeeds, the session ends, the guard refuses or another object has the name.
func (s *session) put(name string, content backup.Content) error {
	c := &s.t.c
	failed := false
	attempt := c.Retry
	pause := pauses(c.Retry)
	for {
		// One attempt at a time, so that trouble is told at once.
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
		case s.ctx.Err() != nil:
			return err
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

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// deltaDone takes in that a delta is stored, or why not.
func (s *session) deltaDone(r sentDelta) error {
	s.sent, s.sentSize = nil, 0
	if r.err != nil {
		if errors.Is(r.err, errTaken) {
			s.t.tell(Event{Type: Contended, Err: r.err})
		}
		return r.err
	}
	s.t.tell(Event{Type: DeltaStored, Header: r.header})
	s.t.setSeen(s.builder.Last(), s.buffered())
	s.stored = r.header.Last
	s.owed = 0
	if r.noLeases {
		s.owed = r.header.Last
	}
	if r.authOK {
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
			return fmt.Errorf("the target did not take the last delta within %s", s.t.c.Shutdown)
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
