package sim_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
)

// phase is how far the replacement of an authority has come.
func (s *stage) phase(name cke.AuthorityName) cke.AuthorityPhase {
	return s.Store().Identity().Authorities.Of(name).Phase
}

// rotated reports whether an authority was replaced, and its key removed.
func (s *stage) rotated(name cke.AuthorityName, generation int) bool {
	r := s.Store().Identity().Authorities.Of(name)
	old := cke.AuthoritySecret(name, generation-1)
	return r.Current.Generation == generation && r.Next == nil && !slices.Contains(s.CAs(), old) && slices.Contains(s.CAs(), cke.AuthoritySecret(name, generation))
}

// clientsAreReady does what only a person can, and says so.
func (s *stage) clientsAreReady(name cke.AuthorityName) {
	s.ClientsRenew()
	s.ask(cke.TaskFinish, "", fmt.Sprintf("%s %s", name, s.phase(name)), "")
}

// waitsForPerson reports whether a replacement waits for nothing else.
func (s *stage) waitsForPerson() bool {
	_, st := s.latest().now()
	return len(st.Authorities) == 1 && st.Authorities[0].Person && st.Health == cke.HealthReady
}

func (s *stage) operations() map[string]int {
	all := map[string]int{}
	for _, r := range s.Store().Records() {
		if r.State == cke.RecordCompleted {
			all[r.Operation]++
		}
	}
	return all
}

// Requirement N15: each authority is replaced, and nobody distrusts anybody meanwhile: that is one of the world's
// invariants. For the authorities that clients have to do with a person is waited for.
func TestAuthorities_AreReplacedOneAfterTheOther(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		for _, name := range cke.AuthorityNames() {
			before := s.operations()
			s.ask(cke.TaskRotate, "", string(name), "")
			if name != cke.PeerAuthority {
				s.must(string(name)+" waits for a person", s.waitsForPerson)
				s.pass(2 * time.Hour)
				told := s.operations()["rotate-authority"] - before["rotate-authority"] // that it began, and that it waits
				if !s.waitsForPerson() || told != 2 {
					t.Errorf("%s does not wait: %s, told %d times", name, s.phase(name), told)
				}
				s.clientsAreReady(name)
			}
			s.must(string(name)+" replaced", func() bool { return s.rotated(name, 1) && s.settled() })
			after := s.operations()
			reissued := 3
			if name == cke.ClientAuthority {
				reissued = 0
			}
			if n := after["restart-member"] - before["restart-member"]; n != 6 {
				t.Errorf("%s: %d restarts", name, n)
			}
			if n := after["renew-certificates"] - before["renew-certificates"]; n != reissued {
				t.Errorf("%s: %d renewals", name, n)
			}
			if !s.Write("n1", string(name)) {
				t.Errorf("%s: does not serve", name)
			}
		}
		for _, f := range s.faults("n1", "n2", "n3") {
			t.Error(f)
		}
	})
}

// A member that is away keeps the next phase waiting, which is told; what is new gets what the phase wants.
func TestAuthorities_WaitForEveryMember(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		s.Node("n3").PowerOff()
		s.ask(cke.TaskRotate, "", "peer", "")
		s.must("begun", func() bool { return s.phase(cke.PeerAuthority) == cke.AuthorityIntroduced })
		s.pass(time.Hour)
		_, st := s.latest().now()
		if s.phase(cke.PeerAuthority) != cke.AuthorityIntroduced || len(st.Authorities) != 1 || !strings.Contains(strings.Join(st.Authorities[0].Waits, "; "), "n3 does not answer") {
			t.Errorf("%s %+v", s.phase(cke.PeerAuthority), st.Authorities)
		}
		gone := s.join("n3").ID
		s.Node("n3").Blank()
		s.ask(cke.TaskReplace, "n3", string(gone), "") // it gets a fresh membership
		s.must("replaced", func() bool { return s.rotated(cke.PeerAuthority, 1) && s.settled() })
		for _, f := range s.faults("n1", "n2", "n3") {
			t.Error(f)
		}
	})
}

// A cluster grows while the phases of a replacement go on, and shrinks.
func TestAuthorities_AreReplacedWhileMembersChange(t *testing.T) {
	for _, at := range []cke.AuthorityPhase{cke.AuthorityIntroduced, cke.AuthorityIssues, cke.AuthorityWithdrawn} {
		t.Run(string(at), func(t *testing.T) {
			play(t, 4, func(s *stage) {
				s.beginChange(t, change{from: []int{1, 2, 3}, to: []int{1, 2, 3}})
				s.must("formed", s.changed)
				s.ask(cke.TaskRotate, "", "peer", "")
				s.must("at its phase", func() bool { return s.phase(cke.PeerAuthority) == at })
				s.Store().SetSpec(s.want([]int{1, 2, 4}, false))
				s.must("changed", func() bool { return s.rotated(cke.PeerAuthority, 1) && s.changed() })
				for _, v := range s.Violations() {
					t.Error(v)
				}
			})
		})
	}
}

// A restore in the middle begins anew with members that have what the phase wants.
func TestAuthorities_AreReplacedThroughARestore(t *testing.T) {
	for _, at := range []cke.AuthorityPhase{cke.AuthorityIntroduced, cke.AuthorityIssues, cke.AuthorityWithdrawn} {
		t.Run(string(at), func(t *testing.T) {
			play(t, 3, func(s *stage) {
				s.beginChange(t, change{from: []int{1, 2, 3}, to: []int{1, 2, 3}})
				s.must("formed", s.changed)
				if !s.Write("n1", "kept") {
					t.Fatal("does not serve")
				}
				s.TakeBackup()
				s.ask(cke.TaskRotate, "", "peer", "")
				s.must("at its phase", func() bool { return s.phase(cke.PeerAuthority) == at })
				s.order(fromBackup)
				s.must("restored and replaced", func() bool { return s.restored() && s.rotated(cke.PeerAuthority, 1) && s.changed() })
				for _, v := range s.Violations() {
					t.Error(v)
				}
			})
		})
	}
}

// signless shows operations who signed nothing.
type signless struct{ cke.Machines }

type signlessMachine struct{ cke.Machine }

func (m signless) Machine(n cke.Node) cke.Machine { return signlessMachine{m.Machines.Machine(n)} }

func (m signlessMachine) Certificates(ctx context.Context, j cke.Join) ([]cke.File, cke.CertificateFiles, error) {
	files, worth, err := m.Machine.Certificates(ctx, j)
	worth.PeerSigner = ""
	return files, worth, err
}

// With the old authority withdrawn before certificates are of the new one, members would cut each other off. That is refused, and without that it
// would be seen.
func TestAuthorities_AWrongOrderIsRefused(t *testing.T) {
	for _, refused := range []bool{true, false} {
		play(t, 3, func(s *stage) {
			s.beginChange(t, change{from: []int{1, 2, 3}, to: []int{1, 2, 3}})
			s.must("formed", s.changed)
			s.latest().Kill()
			s.Hasten(cke.PeerAuthority, cke.AuthorityWithdrawn)
			if !refused {
				s.wrap = func(e op.Env) op.Env { e.Machines = signless{e.Machines}; return e }
			}
			s.daemon()
			s.until(convergence, func() bool { return len(s.Violations()) > 0 })
			if got := strings.Join(s.Violations(), "; "); refused != (got == "") || !refused && !strings.Contains(got, "distrust each other") {
				t.Errorf("refused %v: violations: %s", refused, got)
			}
			last := func(r cke.Record) bool { return r.Code == cke.CodeOlderStore }
			if refused && !slices.ContainsFunc(s.Store().Records(), last) {
				t.Error(s.Store().Records())
			}
		})
	}
}
