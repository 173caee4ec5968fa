package sim_test

import (
	"math/rand/v2"
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

// replaces has an authority replaced by this generation; look is called meanwhile.
func (s *stage) replaces(name cke.AuthorityName, generation int, look func()) {
	look()
	s.ask(cke.TaskRotate, "", string(name), "")
	var ready cke.AuthorityPhase
	s.must("replaced", func() bool {
		look()
		if s.Store().Identity().Authorities.WaitsForPerson(name) && s.waitsForPerson() && ready != s.phase(name) {
			ready = s.phase(name)
			s.clientsAreReady(name)
		}
		return s.rotated(name, generation) && s.settled()
	})
}

// copiedBefore forms a cluster of which an authority is replaced, and returns a copy of its store from before that, or from a phase of it.
func (s *stage) copiedBefore(target string, name cke.AuthorityName, phase cke.AuthorityPhase) (copied sim.StoreCopy) {
	s.target = target
	s.declare(s.Nodes()...)
	s.daemon()
	s.must("formed", s.settled)
	var made bool
	s.replaces(name, 1, func() {
		if !made && s.phase(name) == phase {
			copied, made = s.Store().Copy(), true
		}
	})
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
		"peer, copied before it, without backups":                 {"", cke.PeerAuthority, cke.AuthoritySteady, 12 * time.Hour},
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
				s.CertificatesLast(16 * time.Hour)
				s.goesOn(c.lasts)
				if _, status := s.latest().now(); !s.Write("n1", "kept") {
					t.Errorf("clients are served no more: %s: %s", status.Health, status.Summary)
				}
				s.broughtBack(newest)
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

// A copy from any moment of one to three replacements is brought back for a while in which members fail, and then the newest one.
func TestOlderStore_OfReplacedAuthoritiesDoesNoHarm(t *testing.T) {
	for seed := range uint64(some(100)) {
		if *seedFlag != 0 {
			seed = *seedFlag
		}
		r := rand.New(rand.NewPCG(seed, 11))
		play(t, 3, func(s *stage) {
			if r.IntN(2) == 0 {
				s.target = fromBackup.Target
			}
			s.declare(s.Nodes()...)
			s.daemon()
			s.must("formed", s.settled)
			var copied sim.StoreCopy
			looks := 0
			for range 1 + r.IntN(3) {
				name := cke.AuthorityNames()[r.IntN(3)]
				wanted := s.Store().Identity().Authorities.Of(name).Current.Generation + 1
				s.replaces(name, wanted, func() {
					if looks++; r.IntN(looks) == 0 {
						copied = s.Store().Copy()
					}
				})
			}
			s.pass(time.Hour)
			newest := s.Store().Copy()
			s.broughtBack(copied)
			s.CertificatesLast(time.Duration(4+r.IntN(20)) * time.Hour)
			for range 1 + r.IntN(6) {
				n := s.Nodes()[r.IntN(3)]
				switch r.IntN(4) {
				case 0:
					n.StopByHand()
				case 1:
					n.PowerOff()
					s.goesOn(time.Minute)
					n.PowerOn()
				case 2:
					s.goesOn(time.Duration(r.IntN(6)) * time.Hour)
				}
				s.goesOn(time.Duration(r.IntN(30)) * time.Minute)
			}
			s.broughtBack(newest)
			s.goesOn(time.Hour)
			if _, status := s.latest().now(); status.Health != cke.HealthReady || !s.Write("n1", "later") {
				t.Errorf("seed %d: the newest copy does not help: %s: %s, %v", seed, status.Health, status.Summary, status.Problems)
			}
			for _, v := range s.Violations() {
				if !strings.Contains(v, "and cke distrust each other") { // the store has an authority that they trust no longer
					t.Errorf("seed %d: %s", seed, v)
				}
			}
		})
		if *seedFlag != 0 {
			return
		}
	}
}
