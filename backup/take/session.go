package take

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke/backup"
	"cke/internal/contain"
)

// session is one unbroken stretch of work: a watch, the delta being filled, at most one delta on its way to the target,
// at most one full on its way. Only its loop touches it.
type session struct {
	t   *Taker
	k   *cluster
	o   *observer
	ctx context.Context

	mode     mode
	received bool // something came by the watch
	doubt    doubt
	at       position
	underway point                   // of the delta on its way
	begun    chan clientv3.WatchChan // gives events once a member has taken the watch; nil: none is on its way
	events   clientv3.WatchChan
	endWatch context.CancelFunc
	// watchFrom is the revision that the watch starts with. Its changes, and those before it, are not wanted again.
	watchFrom int64
	// slow fires when the target took nothing for a while after the buffer had filled up; overflowed: that was reported.
	slow       *time.Timer
	overflowed bool
	builder    *backup.DeltaWriter
	changes    []backup.Change // scratch
	age        *time.Timer     // fires when the builder has waited long enough
	due        bool

	sent     chan sentDelta // nil: nothing on its way
	sentSize int64
	full     chan result // nil: no full on its way
	fullTry  *time.Timer // fires when a full is due
	retry    time.Duration
	// owed is the revision of a delta without its leases; a full from there on brings them. 0: none.
	owed    int64
	hurry   chan struct{} // ends a pause between attempts
	authTry *time.Timer   // fires when users and roles, and the cluster's revision, are to be asked for
	auths   chan authAnswer
	asking  bool              // an answer is on its way
	authNow backup.UsersState // as etcd last reported them
	life    life

	stored   int64 // everything up to this revision is in the target
	baseless bool  // no full leads to what is stored of the stream: it cannot be restored yet
	flushes  []flush
	marks    chan flush // flushes of which the revision is known by now
	fulls    []request  // wait for the full on its way
	after    []request  // wait for the one after it: asked for when one was on its way already
}

// flush waits until everything up to a revision, and users and roles of a revision of theirs, are stored.
type flush struct {
	request
	revision int64
	auth     backup.UsersState
	err      error
}

// sentDelta is the outcome of one delta.
type sentDelta struct {
	header   backup.Header
	leases   backup.LeaseChange
	noLeases bool
	auth     backup.UsersState
	authOK   bool
	told     told
	err      error
}

// session works until ctx ends or something breaks the stream. next is how it starts; a gap is remembered there until that succeeded.
func (t *Taker) session(parent context.Context, k *cluster, next *mode) error {
	m := *next
	at, err := t.resume(parent, k, m)
	if err != nil {
		if parent.Err() == nil {
			t.tell(Event{Type: ClusterFailed, Err: err})
		}
		return err
	}
	*next = fromTail
	baseless := at.full
	at.full = at.full || at.others || at.wrong || t.renew
	// What is under way outlives parent for a moment, so that the last delta can be stored.
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	defer cancel()
	s := &session{t: t, mode: m, k: k, o: newObserver(k, &t.c), ctx: ctx, at: at, age: stopped(), fullTry: stopped(), slow: stopped(),
		authTry: time.NewTimer(time.Duration(t.c.Delta.Period)), auths: make(chan authAnswer), hurry: make(chan struct{}, 1),
		stored: at.next - 1, baseless: baseless, marks: make(chan flush), life: life{answered: t.c.Now(), newest: at.cluster}}
	s.o.full = at.newest.Last
	leasesDone := make(chan struct{})
	go contain.Work(func() { defer close(leasesDone); s.o.run(ctx) }, func(err error) { t.c.Log.Warn("leases are no longer read when they are first seen", "error", err) })()
	defer func() { cancel(); <-leasesDone; s.settle() }()
	k.look(parent) // who is a learner
	if err := s.begin(); err != nil {
		return err
	}
	t.setConnected(!baseless, s.at.next-1)
	if st := t.Status(); st.FullRevision != at.newest.Last || !st.FullTime.Equal(at.newest.Place.Time) {
		t.tell(Event{Type: FullFound, Header: at.newest})
	}
	s.planFull()
	return s.loop(parent)
}

func stopped() *time.Timer {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return timer
}

func (s *session) begin() (err error) {
	s.builder, err = backup.NewDeltaWriter(s.at.next, s.t.c.Recipients)
	return err
}

func (s *session) loop(parent context.Context) error {
	s.prime()
	s.watch()
	s.doubt.raised++ // since the histories were compared
	defer func() { s.endWatch() }()
	for {
		var err error
		select {
		case <-parent.Done():
			return s.shutdown()
		case s.events = <-s.begun:
			s.begun = nil
			if s.doubted() { // from here on nothing that the cluster loses goes unnoticed
				s.authTry.Reset(0)
			}
		case w, ok := <-s.readable():
			err = s.take(w, ok)
		case <-s.slow.C:
			s.overflowed = true
			s.t.tell(Event{Type: Overflow, Err: errOverflow})
		case <-s.age.C:
			s.due = true
		case <-s.fullTry.C:
			s.fullDue()
		case r := <-s.sent:
			err = s.deltaDone(r)
		case r := <-s.full:
			err = s.fullDone(r)
		case r := <-s.t.asked:
			s.request(r)
		case f := <-s.marks:
			s.flushFrom(f)
		case <-s.authTry.C:
			s.askAuth()
		case a := <-s.auths:
			err = s.authAnswered(a)
		}
		if errors.Is(err, errWatchAgain) {
			s.endWatch()
			s.pause(parent)
			s.watchAgain(errors.Is(err, errCut))
			err = nil
		}
		if err == nil {
			err = s.step()
		}
		if err != nil {
			return err
		}
	}
}

// errWatchAgain: the watch ended for a reason that passes, or brings nothing.
var errWatchAgain = errors.New("watch again")

// watch starts with the last revision that the builder holds: members of etcd 3.5.3 to 3.5.17 let a watch start at the revision that they compacted
// to, and have forgotten its deletions. etcd's client answers once a member has taken the watch; as long as none does, the loop has other things to do.
func (s *session) watch() {
	ctx, cancel := context.WithCancel(s.ctx)
	begun := make(chan clientv3.WatchChan, 1)
	s.endWatch, s.begun, s.events = cancel, begun, nil
	s.watchFrom = max(1, s.builder.Last()) // 0 would be the present one
	from, client := s.watchFrom, s.watched()
	s.k.watching.Store(client) // others may be silent
	go contain.Work(func() {
		begun <- client.Watch(clientv3.WithRequireLeader(withOneStream(ctx)), "\x00", clientv3.WithFromKey(),
			clientv3.WithRev(from), clientv3.WithFragment(), clientv3.WithProgressNotify())
	}, func(error) {
		ended := make(chan clientv3.WatchResponse)
		close(ended) // as if the watch had ended: it is tried again
		begun <- ended
	})()
}

// suspend ends the watch until there is room for more.
func (s *session) suspend() {
	s.endWatch()
	s.begun, s.events = nil, nil
}

func (s *session) suspended() bool { return s.begun == nil && s.events == nil }

// pause waits a moment before the next watch.
func (s *session) pause(parent context.Context) {
	timer := time.NewTimer(200 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-parent.Done():
	}
}

// take takes in what the watch says.
func (s *session) take(w clientv3.WatchResponse, ok bool) error {
	if !ok {
		return errWatchAgain
	}
	if w.CompactRevision > s.builder.Last()+1 || errors.Is(w.Err(), rpctypes.ErrCompacted) {
		return s.gap(fmt.Errorf("etcd compacted to revision %d before its changes were backed up", w.CompactRevision))
	}
	if errors.Is(w.Err(), errResumed) {
		return errCut
	}
	if err := w.Err(); err != nil {
		s.t.tell(Event{Type: ClusterFailed, Err: fmt.Errorf("receive the changes of the cluster: %w", err)})
		return errWatchAgain
	}
	s.changes = s.changes[:0]
	for _, e := range w.Events {
		if e.Kv.ModRevision > s.watchFrom {
			s.changes = append(s.changes, changeOf(e))
		}
	}
	if len(s.changes) == 0 {
		return nil
	}
	s.received = true
	s.receive()
	empty := s.builder.Empty()
	if err := s.builder.Add(s.changes, s.t.c.Now()); err != nil {
		if errors.Is(err, backup.ErrGap) {
			return s.gap(err)
		}
		return err
	}
	s.o.notice(s.changes)
	clear(s.changes)
	if empty && !s.builder.Empty() {
		s.age.Reset(time.Duration(s.t.c.Delta.Period))
	}
	s.prove()
	s.seen()
	return nil
}

// gap ends the stream after what there is of it is stored: a new one starts at the present revision, with a full.
func (s *session) gap(cause error) error {
	from, to := s.builder.Last()+1, int64(0)
	if now, err := s.k.revision(s.ctx); err == nil {
		to = now
	}
	s.t.tell(Event{Type: Gap, From: from, To: to, Err: cause})
	if err := s.drain(); err != nil {
		s.t.tell(Event{Type: TargetFailed, Err: fmt.Errorf("changes before the gap are lost: %w", err)})
	}
	if s.received {
		return &gapError{fromFull}
	}
	return &gapError{min(s.mode+1, fromNow)}
}

func (s *session) buffered() int64 { return s.builder.Size() + s.sentSize }

// step sends a delta if it is time, answers flushes, and sees that the buffer does not grow too large.
func (s *session) step() error {
	due := s.due || s.builder.Payload() >= int64(s.t.c.Delta.Size)
	waiting := s.flushes[:0]
	for _, f := range s.flushes {
		if f.revision <= s.stored && !s.needsFull(f) && !s.doubted() {
			f.done <- result{}
			continue
		}
		waiting = append(waiting, f)
		due = due || f.revision > s.stored && f.revision <= s.builder.Last()
	}
	s.flushes = waiting
	if (s.owed > 0 || slices.ContainsFunc(waiting, s.needsFull)) && !s.at.full {
		s.startFull()
	}
	if due && s.sent == nil && !s.builder.Empty() {
		if err := s.send(); err != nil {
			return err
		}
	}
	return s.bound()
}

// bound sees that no more is received than the buffer holds. A full buffer ends the watch: etcd keeps the history, and
// a watch that is not read would burden it or us. It starts again where it ended as soon as there is room; if etcd
// has compacted by then, that is a gap like any other.
func (s *session) bound() error {
	switch {
	case !s.suspended() && s.buffered() > s.t.c.Buffer:
		s.suspend()
		s.slow.Reset(time.Duration(s.t.c.Delta.Period))
	case s.suspended() && s.buffered() <= s.t.c.Buffer/2:
		s.slow.Stop()
		s.watchAgain(false)
		if s.overflowed {
			s.overflowed = false
			s.startFull()
		}
	}
	if s.suspended() && s.sent == nil && !s.builder.Empty() {
		return s.send()
	}
	return nil
}

// needsFull reports whether a full has to bring what a flush waits for: the first of a stream, users and roles, or leases that a delta
// is without.
func (s *session) needsFull(f flush) bool { return s.baseless || s.owed > 0 || !s.hasAuth(f.auth) }

// refuseFlushes fails the flushes that wait for what a full brings.
func (s *session) refuseFlushes(err error) {
	waiting := s.flushes[:0]
	for _, f := range s.flushes {
		if !s.needsFull(f) {
			waiting = append(waiting, f)
			continue
		}
		f.done <- result{err: err}
	}
	s.flushes = waiting
}

func (s *session) answer(rs *[]request, r result) {
	for _, q := range *rs {
		q.done <- r
	}
	*rs = nil
}

// settle answers all who still wait when the session ends.
func (s *session) settle() {
	for _, f := range s.flushes {
		f.done <- result{err: ErrStopped}
	}
	s.flushes = nil
	for _, rs := range []*[]request{&s.fulls, &s.after} {
		s.answer(rs, result{err: ErrStopped})
	}
}
