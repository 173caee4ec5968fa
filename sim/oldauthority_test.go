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

// copiedBefore forms a cluster of which an authority is replaced, and returns a copy of its store from before that, or from a phase of it.
func (s *stage) copiedBefore(target string, name cke.AuthorityName, phase cke.AuthorityPhase) (copied sim.StoreCopy) {
	s.target = target
	s.declare(s.Nodes()...)
	s.daemon()
	s.must("formed", s.settled)
	var made bool
	var ready cke.AuthorityPhase
	replaced := func() bool {
		if !made && s.phase(name) == phase {
			copied, made = s.Store().Copy(), true
		}
		if s.Store().Identity().Authorities.WaitsForPerson(name) && s.waitsForPerson() && ready != s.phase(name) {
			ready = s.phase(name)
			s.clientsAreReady(name)
		}
		return s.rotated(name, 1) && s.settled()
	}
	replaced()
	s.ask(cke.TaskRotate, "", string(name), "")
	s.must("replaced", replaced)
	s.pass(time.Hour)
	return copied
}

// An authority was replaced since the store was copied. Members answer cke, which takes them for its own: what it writes into their volumes
// must not make members, or clients and members, distrust each other. docs/store.md: only a copy from after the replacement helps.
func TestOlderStore_GivesNoCertificatesOfAnAuthorityThatWasReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		target    string
		authority cke.AuthorityName
		phase     cke.AuthorityPhase
		lasts     time.Duration
	}{
		"peer, copied before it, without backups":                 {"", cke.PeerAuthority, cke.AuthoritySteady, 250 * 24 * time.Hour},
		"peer, copied while it was introduced, without backups":   {"", cke.PeerAuthority, cke.AuthorityIntroduced, time.Hour},
		"peer, copied while it was introduced, with backups":      {fromBackup.Target, cke.PeerAuthority, cke.AuthorityIntroduced, time.Hour},
		"server, copied while it was introduced, without backups": {"", cke.ServerAuthority, cke.AuthorityIntroduced, time.Hour},
		"server, copied while it was introduced, with backups":    {fromBackup.Target, cke.ServerAuthority, cke.AuthorityIntroduced, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, 3, func(s *stage) {
				copied := s.copiedBefore(c.target, c.authority, c.phase)
				newest := s.Store().Copy()
				s.broughtBack(copied)
				s.leap = c.lasts > time.Hour
				s.goesOn(c.lasts)
				if _, status := s.latest().now(); !s.Write("n1", "kept") {
					t.Errorf("clients are served no more: %s: %s", status.Health, status.Summary)
				}
				s.broughtBack(newest)
				s.leap = false
				s.goesOn(time.Hour)
				if _, status := s.latest().now(); status.Health != cke.HealthReady || !s.Write("n1", "later") {
					t.Errorf("the newest copy does not help: %s: %s, %v", status.Health, status.Summary, status.Problems)
				}
				if v := s.Violations(); v != nil {
					t.Error(strings.Join(v, "\n"))
				}
			})
		})
	}
}
