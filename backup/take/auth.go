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
	known, broken := s.known(), s.broken
	s.broken = false
	go contain.Work(func() {
		a := authAnswer{broken: broken, told: told{asked: s.t.c.Now()}}
		if a.auth, a.told.revision, a.err = s.o.auth(s.ctx); a.err == nil && (broken || a.told.revision < known.revision) {
			now, err := s.k.revision(s.ctx)
			if err == nil {
				err = s.t.refuseHistory(s.ctx, s.k, known, now)
			}
			a.err, a.broken = err, err != nil
		}
		s.auth(a)
	}, func(err error) { s.auth(authAnswer{broken: broken, err: err}) })()
}

func (s *session) auth(a authAnswer) {
	select {
	case s.auths <- a:
	case <-s.ctx.Done():
	}
}

// authAnswer comes with what was noticed of the cluster's history on the way.
type authAnswer struct {
	auth   backup.UsersState
	told   told
	broken bool // its history has still to be compared
	err    error
}

func (s *session) authAnswered(a authAnswer) error {
	pause := time.Duration(s.t.c.Delta.Period)
	if s.broken { // the watch was cut meanwhile
		pause = 0
	}
	s.authTry.Reset(pause)
	s.broken = s.broken || a.broken
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
	if !s.broken { // else the history has still to be compared
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
