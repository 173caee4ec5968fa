package sim_test

import (
	"strings"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// goesOn lets time pass, whatever is violated.
func (s *stage) goesOn(d time.Duration) {
	end, last := time.Now().Add(d), s.Calls()+mostCalls
	s.Run(func() bool { return time.Now().After(end) || s.Calls() > last })
}

// copiedBefore forms a cluster, and returns a copy of its store from before the peer authority was replaced, or from a phase of that.
func (s *stage) copiedBefore(target string, phase cke.AuthorityPhase) sim.StoreCopy {
	s.target = target
	s.declare(s.Nodes()...)
	s.daemon()
	s.must("formed", s.settled)
	copied := s.Store().Copy()
	s.ask(cke.TaskRotate, "", string(cke.PeerAuthority), "")
	if phase != cke.AuthoritySteady {
		s.must("at its phase", func() bool { return s.phase(cke.PeerAuthority) == phase })
		copied = s.Store().Copy()
	}
	s.must("replaced", func() bool { return s.rotated(cke.PeerAuthority, 1) && s.settled() })
	s.pass(time.Hour)
	return copied
}

// The peer authority was replaced since the store was copied. Members answer cke, which takes them for its own: what it writes into their
// volumes must not make them distrust each other.
func TestOlderStore_GivesNoCertificatesOfAPeerAuthorityThatWasReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		target string
		phase  cke.AuthorityPhase
		lasts  time.Duration
	}{
		"copied before it, without backups":               {"", cke.AuthoritySteady, 250 * 24 * time.Hour},
		"copied while it was introduced, without backups": {"", cke.AuthorityIntroduced, time.Hour},
		"copied while it was introduced, with backups":    {fromBackup.Target, cke.AuthorityIntroduced, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, 3, func(s *stage) {
				copied := s.copiedBefore(c.target, c.phase)
				newest := s.Store().Copy()
				s.broughtBack(copied)
				s.leap = c.lasts > time.Hour
				s.goesOn(c.lasts)
				if _, status := s.latest().now(); !s.Write("n1", "kept") {
					t.Errorf("clients are served no more: %s: %s", status.Health, status.Summary)
				}
				s.broughtBack(newest) // "only a copy from after the replacement helps"
				s.leap = false
				s.goesOn(time.Hour)
				if _, status := s.latest().now(); !s.Write("n1", "later") {
					t.Errorf("the newest copy does not help: %s: %s, %v", status.Health, status.Summary, status.Problems)
				}
				if v := s.Violations(); v != nil {
					t.Error(strings.Join(v, "\n"))
				}
			})
		})
	}
}
