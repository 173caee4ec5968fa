package sim_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// losesAll makes a cluster of three that has lost its quorum: n2 is off, and the disk of n3 is blank.
func (s *stage) losesAll() {
	s.daemon()
	s.must("formed", s.settled)
	s.Write("n1", "kept")
	s.pass(time.Minute)
	s.Node("n3").Blank()
	s.Node("n2").PowerOff()
	s.pass(time.Minute)
}

// servesAgain has people start the member of n1, and switch n2 on, and returns once a write is acknowledged.
func (s *stage) servesAgain() {
	s.t.Helper()
	s.Node("n2").PowerOn()
	s.Node("n1").StartByHand()
	if !s.until(10*time.Minute, func() bool { return s.Write("n1", "late") }) {
		s.t.Fatal("n1 and n2 take no write")
	}
}

// hasLate: the cluster serves, and holds what was acknowledged. People who find it without a quorum recover it once more.
func (s *stage) hasLate(again cke.RestoreOrder) {
	s.t.Helper()
	arrived := func() bool {
		if s.told().Health == cke.HealthLost && s.Store().Identity().Incarnation.State == cke.Formed && len(s.asked()) == 0 {
			s.order(again)
		}
		return s.Store().Identity().Incarnation.State == cke.Formed && s.told().Etcd.Quorate && slices.Contains(s.Written(), "late")
	}
	if !s.until(convergence, arrived) {
		s.t.Errorf("the cluster holds %v; %s", s.Written(), s.told().Summary)
	}
	if v := s.Violations(); v != nil {
		s.t.Error(strings.Join(v, "\n"))
	}
}

var fromN1 = cke.RestoreOrder{Survivor: "n1", Without: []string{"n2"}}

// A recovery waits for n3, and people start the members that it stopped: what these acknowledge until n3 answers is kept.
func TestRecover_KeepsWhatIsAcknowledgedWhileItWaits(t *testing.T) {
	for name, c := range map[string]struct{ unled, lost bool }{
		"and they serve":                       {},
		"and they served":                      {lost: true},
		"and they serve while no daemon leads": {unled: true},
		"and they served while no daemon led":  {unled: true, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, 3, func(s *stage) {
				s.losesAll()
				s.once(sim.Proceed, func(sim.Call) bool {
					begun := s.Store().Identity().Incarnation.State == cke.Restoring
					if begun {
						s.Node("n3").PowerOff()
					}
					return begun
				})
				s.order(fromN1)
				s.must("waits for n3", func() bool { return s.Judge == nil })
				s.pass(5 * time.Minute)
				if c.unled {
					s.latest().Kill()
				}
				s.servesAgain()
				s.pass(time.Minute)
				if c.lost {
					s.Node("n2").PowerOff()
					s.Node("n1").StopByHand()
				}
				s.Node("n3").PowerOn()
				if c.unled {
					s.daemon()
				}
				s.hasLate(fromN1)
			})
		})
	}
}

// The daemon ends with its host after n1 was copied. Its members are started, serve, and lose their quorum again before the host is back
// and continues the recovery: n1 is copied once more.
func TestRecover_CopiesAMemberThatRanSinceOnceMore(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.losesAll()
		copied := s.killedAt("Fetch", func() {})
		s.order(fromN1)
		s.comesTo(copied)
		s.servesAgain()
		s.Node("n2").PowerOff()
		s.Node("n1").StopByHand()
		s.pass(time.Minute)
		s.daemon()
		s.latest().Kill() // it was on the other host
		s.daemon()
		s.hasLate(fromN1)
	})
}

// A frozen cluster without a quorum is recovered, which is canceled right after the survivor's container was removed. The freeze is in
// force again, and nobody starts the survivor: it can be recovered once more.
func TestRecover_OfAFrozenClusterAfterOneThatWasCanceled(t *testing.T) {
	for _, frozen := range []bool{false, true} {
		play(t, 3, func(s *stage) {
			s.daemon()
			s.must("formed", s.settled)
			s.Write("n1", "kept")
			s.pass(time.Minute)
			if frozen {
				s.Node("n2").CorruptData()
				s.NoticeCorruption()
				s.must("frozen", func() bool { return s.freeze().Active() })
			}
			s.Node("n3").Blank()
			s.Node("n2").PowerOff()
			s.pass(time.Minute)
			s.once(sim.KillAfter, func(c sim.Call) bool { return c.Name == "RemoveContainer" && c.Node == "n1" })
			s.order(fromN1)
			s.comesTo(func() bool { return s.Judge == nil })
			s.Store().Ask("cancel the restore", func(r *cke.Requests) {
				r.Tasks = append(r.Tasks, cke.NewTask(cke.TaskCancelRestore, "", "", "person@host", time.Now()))
			})
			s.daemon()
			s.must("canceled", func() bool { return s.Store().Identity().Incarnation.State == cke.Formed && len(s.asked()) == 0 })
			s.pass(10 * time.Minute)
			s.order(fromN1)
			if !s.until(10*time.Minute, s.restored) {
				t.Errorf("frozen %v: not recovered: %s", frozen, s.told().Summary)
			}
		})
	}
}
