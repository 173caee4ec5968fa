package take

import "time"

// What the session knows of users and roles: no watch tells of them and no delta carries them, so that a full follows
// whenever their revision is another one than that of the newest full.

// askAuth asks for the revision of users and roles, now and then: a cluster in which nothing else changes has no deltas
// with which it could be asked.
func (s *session) askAuth() {
	go func() {
		revision, err := s.o.authRevision(s.ctx)
		select {
		case s.auths <- authAnswer{revision, err}:
		case <-s.ctx.Done():
		}
	}()
}

// authAnswer is what etcd says of its users and roles.
type authAnswer struct {
	revision uint64
	err      error
}

func (s *session) authAnswered(a authAnswer) {
	s.authTry.Reset(time.Duration(s.t.c.Delta.Period))
	if a.err != nil {
		s.t.c.Log.Debug("users and roles", "error", a.err)
		return
	}
	s.authSeen(a.revision)
}

// authSeen asks for a full when users or roles are no longer those of the newest one.
func (s *session) authSeen(revision uint64) {
	s.authTry.Reset(time.Duration(s.t.c.Delta.Period))
	if s.hasAuth(revision) || s.full != nil {
		return
	}
	s.t.tell(Event{Type: AuthChanged})
	s.startFull()
}

// hasAuth tells whether users and roles of a revision are in the newest full.
func (s *session) hasAuth(revision uint64) bool { return s.at.authOK && s.at.auth >= revision }
