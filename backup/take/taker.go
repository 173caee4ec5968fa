package take

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"cke/backup"
	"cke/internal/contain"
)

// Taker takes the backups of one cluster while Run runs. Full, Flush and Status are safe for concurrent use.
type Taker struct {
	c     Config
	asked chan request

	mu      sync.Mutex
	status  Status
	problem EventType // what Status.Problem comes from
	running bool
	renew   bool          // as Config.Renew, until a full is stored
	merged  backup.Header // the newest full that Merged reported
}

// request asks the loop for a full or a flush.
type request struct {
	full bool
	// wrong are fulls that are to be replaced, or else reported as wrong.
	wrong []backup.Entry
	done  chan result
}

type result struct {
	header backup.Header
	err    error
}

// New checks a Config; it reads and writes nothing before Run.
func New(c Config) (*Taker, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Taker{c: c, renew: c.Renew, asked: make(chan request)}, nil
}

// Status returns the state of the backups.
func (t *Taker) Status() Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status
}

// Full takes a full that is started after the call and returns once it is stored.
func (t *Taker) Full(ctx context.Context) (backup.Header, error) { return t.ask(ctx, true) }

// Flush stores all changes made in the cluster before the call and returns once they are stored and can be restored.
func (t *Taker) Flush(ctx context.Context) error {
	_, err := t.ask(ctx, false)
	return err
}

// Merged reports a full that was merged from others in the target. It has the users and roles of the full that it started
// with, and a restore brings back those of the newest full: if they are not the present ones, another full follows.
func (t *Taker) Merged(h backup.Header) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h.Last > t.merged.Last {
		t.merged = h
	}
}

// Baseless reports that without these fulls, which were found wrong, none leads to what is stored: that cannot be restored until another
// one is stored.
func (t *Taker) Baseless(ctx context.Context, wrong []backup.Entry) error {
	_, err := t.put(ctx, request{wrong: wrong})
	return err
}

// Replace takes a full in the place of one that was found wrong, unless another one was stored since or is on its way.
func (t *Taker) Replace(ctx context.Context, wrong backup.Entry) error {
	_, err := t.put(ctx, request{full: true, wrong: []backup.Entry{wrong}})
	return err
}

// replaced reports whether the newest full is none of those that were found wrong, and as new.
func (t *Taker) replaced(wrong []backup.Entry) bool {
	s := t.Status()
	newest := backup.FullPlace(t.c.Cluster, t.c.Lineage, s.FullRevision, s.FullTime).Name()
	return !slices.ContainsFunc(wrong, func(f backup.Entry) bool { return f.Name() == newest || f.Revision > s.FullRevision })
}

func (t *Taker) newestMerged() backup.Header {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.merged
}

// newestFull is the place of the full that is listed as the newest, as far as is known.
func (t *Taker) newestFull() backup.Place {
	t.mu.Lock()
	defer t.mu.Unlock()
	full, merged := backup.FullPlace(t.c.Cluster, t.c.Lineage, t.status.FullRevision, t.status.FullTime), t.merged.Place
	if cmp.Or(cmp.Compare(merged.Revision, full.Revision), merged.Time.Compare(full.Time)) > 0 {
		return merged
	}
	return full
}

func (t *Taker) ask(ctx context.Context, full bool) (backup.Header, error) {
	return t.put(ctx, request{full: full})
}

func (t *Taker) put(ctx context.Context, r request) (backup.Header, error) {
	r.done = make(chan result, 1)
	select {
	case t.asked <- r:
	case <-ctx.Done():
		return backup.Header{}, ctx.Err()
	}
	select {
	case res := <-r.done:
		return res.header, res.err
	case <-ctx.Done():
		return backup.Header{}, ctx.Err()
	}
}

// Run takes backups until ctx is canceled, then stores what it has and returns nil. It returns earlier only if Guard
// refuses or with ErrDiverged. It reports problems with etcd or the target and waits until they are over.
//
// It continues where the backups in the target end, whichever daemon wrote them. At most one Run at a time should work on
// an incarnation; if two do, each delta is still written once and none overlaps another.
func (t *Taker) Run(ctx context.Context) error {
	t.mu.Lock()
	if t.running {
		t.mu.Unlock()
		return errors.New("this Taker is already running")
	}
	t.running = true
	t.mu.Unlock()
	defer t.refuse(ctx)

	k, err := dial(&t.c)
	if err != nil {
		return err
	}
	defer k.Close()
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 200*time.Millisecond, 30*time.Second
	next := fromTail
	for {
		begun := time.Now()
		err = contain.Do(func() error { return t.session(ctx, k, &next) })
		if contain.Of(err) != nil && ctx.Err() == nil {
			t.tell(Event{Type: Faulty, Err: err})
		}
		var stop *stopError
		if errors.As(err, &stop) {
			return stop.err
		}
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(begun) > time.Minute {
			pause.Reset()
		}
		var gap *gapError
		if errors.As(err, &gap) {
			next = gap.next
		}
		if gap != nil || errors.Is(err, errTaken) {
			continue
		}
		t.wait(ctx, pause.NextBackOff())
	}
}

// wait lets time pass, and refuses requests meanwhile.
func (t *Taker) wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		case r := <-t.asked:
			r.done <- result{err: fmt.Errorf("%w: %s", ErrStopped, t.Status().Problem)}
		}
	}
}

// refuse answers what was asked too late.
func (t *Taker) refuse(context.Context) {
	t.mu.Lock()
	t.running = false
	t.mu.Unlock()
	for {
		select {
		case r := <-t.asked:
			r.done <- result{err: ErrStopped}
		default:
			return
		}
	}
}

// stopError ends Run.
type stopError struct{ err error }

func (e *stopError) Error() string { return e.err.Error() }
func (e *stopError) Unwrap() error { return e.err }

// gapError ends a stream: changes are missing. next is how the next session starts.
type gapError struct{ next mode }

func (e *gapError) Error() string { return "changes are missing" }

var (
	errOverflow = errors.New("the target does not store the buffered changes: watching is suspended, and a full follows")
	errTaken    = errors.New("another writer has extended the stream")
)

// guard wraps Config.Guard so that its refusal differs from other failures.
func (t *Taker) guard() error {
	if t.c.Guard == nil {
		return nil
	}
	if err := t.c.Guard(); err != nil {
		return &stopError{err}
	}
	return nil
}

// setSeen notes what was received and is not stored yet.
func (t *Taker) setSeen(revision, buffered int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status.Seen, t.status.Buffered = revision, buffered
}

// setFull notes whether a full is being taken.
func (t *Taker) setFull(taking bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status.Full = taking
}

// setConnected notes whether a full leads to the stream's end; stored is the newest revision in the target.
func (t *Taker) setConnected(connected bool, stored int64) {
	t.mu.Lock()
	before := t.status.Connected
	t.status.Connected, t.status.Resumed = connected, true
	if connected {
		t.status.Revision = max(t.status.Revision, stored)
	}
	t.mu.Unlock()
	if connected && !before {
		t.tell(Event{Type: Restorable})
	}
}

func (t *Taker) tell(e Event) {
	e.At = t.c.Now()
	t.mu.Lock()
	s := &t.status
	switch e.Type {
	case FullStored:
		s.FullRevision, s.FullTime = e.Header.Last, e.Header.Place.Time
		if e.Header.Last > s.Revision {
			s.Revision, s.Time = e.Header.Last, e.Header.End
		}
	case FullFound:
		s.FullRevision, s.FullTime = e.Header.Last, e.Header.Place.Time
	case DeltaStored:
		s.Revision, s.Time = e.Header.Last, e.Header.End
	}
	if e.Err != nil {
		if s.Problem == "" {
			s.ProblemSince = e.At
		}
		s.Problem, t.problem = fmt.Sprintf("%s: %v", e.Type, e.Err), e.Type
	} else if e.Type == FullStored || e.Type == DeltaStored && t.problem != Gap && t.problem != FullFailed {
		s.Problem, s.ProblemSince = "", time.Time{}
	}
	t.mu.Unlock()
	if e.Err != nil {
		t.c.Log.Warn("backup", "cluster", t.c.Cluster, "event", string(e.Type), "error", e.Err)
	} else {
		t.c.Log.Debug("backup", "cluster", t.c.Cluster, "event", string(e.Type), "revision", e.Header.Last)
	}
	t.c.Notify(e)
}
