package take

import (
	"errors"
	"time"

	"cke/backup"
	"cke/internal/contain"
)

// What the session knows of users and roles: no watch reports them and no delta holds them, so that a full follows
// whenever their revision is another one than that of the newest full.

// askAuth asks for the revision of users and roles, and of the cluster, now and then: a cluster in which nothing else changes, or
// whose watch is silent, has no deltas with which it could be asked.
func (s *session) askAuth() {
	if s.asking {
		return
	}
	s.asking = true
	known, doubt, of := s.known(), s.asDoubted(), s.doubt.raised
	if s.begun != nil { // a comparison has to follow the start of the watch
		doubt, of = nil, 0
	}
	go contain.Work(func() {
		a := authAnswer{told: told{asked: s.t.c.Now()}}
		if a.err = s.compare(doubt); a.err == nil {
			a.compared = of
			a.auth, a.told.revision, a.err = s.o.auth(s.ctx)
		}
		if a.err == nil && a.told.revision < known.revision {
			a.err = s.compare(&known)
		}
		s.auth(a)
	}, func(err error) { s.auth(authAnswer{err: err}) })()
}

func (s *session) auth(a authAnswer) {
	select {
	case s.auths <- a:
	case <-s.ctx.Done():
	}
}

// authAnswer comes with what was noticed of the cluster's history on the way.
type authAnswer struct {
	auth     backup.UsersState
	told     told
	compared int // its history is the one known, as far as was doubted when it was asked
	err      error
}

func (s *session) authAnswered(a authAnswer) error {
	s.asking = false
	s.settled(a.compared)
	pause := time.Duration(s.t.c.Delta.Period)
	switch {
	case !s.doubted() || s.begun != nil:
	case a.err == nil: // the watch was cut meanwhile
		pause = 0
	default:
		pause = min(pause, compareRetry)
	}
	s.authTry.Reset(pause)
	if stop := new(stopError); errors.As(a.err, &stop) {
		return stop
	}
	if a.err != nil {
		s.t.c.Log.Debug("users and roles", "error", a.err)
		s.unanswered(a.err)
	} else {
		s.life.answered = s.t.c.Now()
		s.authSeen(a.auth)
	}
	s.heard(a.told)
	return s.silentWatch()
}

// authSeen asks for a full when users or roles are no longer those of the newest one.
func (s *session) authSeen(seen backup.UsersState) {
	if !s.doubted() { // else the history has still to be compared
		s.authTry.Reset(time.Duration(s.t.c.Delta.Period))
	}
	s.authNow = s.authNow.Later(seen)
	if s.hasAuth(seen) || s.full != nil {
		return
	}
	s.t.tell(Event{Type: AuthChanged})
	s.startFull()
}

// hasAuth reports whether users and roles as they were seen are in the newest full.
func (s *session) hasAuth(seen backup.UsersState) bool {
	if m := s.t.newestMerged(); m.Last > s.at.authAt && m.Users().Compare(seen) < 0 {
		return false
	}
	return s.at.authOK && s.at.auth.Compare(seen) >= 0
}
