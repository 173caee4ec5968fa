package sim_test

import (
	"testing"
	"time"

	"cke/sim"
)

// continuesNot has another daemon lead, which does not continue the restore while n3 and n4 are a quorum of the former cluster.
func (s *stage) continuesNot(t *testing.T) {
	t.Helper()
	s.daemon()
	if s.until(30*time.Minute, func() bool { return s.Store().Identity().Started() }) {
		t.Error("restored members start while n3 and n4 are a quorum")
	}
	s.HealNetwork()
	s.pass(10 * time.Minute)
	if s.Write("n4", "to the former") && s.restored() {
		t.Error("the former cluster takes writes beside the restored one")
	}
	s.unbroken(t)
}

// cutFromMembers cuts a node off from others, and not from cke.
func (s *stage) cutFromMembers(node string, others ...string) {
	for _, o := range others {
		s.Cut(node, o)
		s.Cut(o, node)
	}
}

// N2 is cut off from the other members, and cke reads the list from n1. While n1 takes its time to stop, an operator removes n2 from the list: n3 and n4 are two
// of three voters. The daemon ends then. (If it continues, it stops n2 some milliseconds later, and cannot know.)
func TestRestoreOutsiders_AMemberThatStopsSlowlyTakesPartInARemoval(t *testing.T) {
	joining(t, "the daemon ends", func(t *testing.T, at string) {
		play(t, 4, func(s *stage) {
			s.heldOn(t, 3)
			s.TakeBackup()
			joined := at == ""
			if joined {
				s.joinsOn(t, "n4")
			}
			s.Cut(sim.Management, "n3")
			s.pass(time.Minute)
			apart, done := false, false
			s.Judge = func(_ int, c sim.Call) sim.Verdict {
				if !joined && c.Name == at {
					joined = true
					s.joinsOn(t, "n4")
				}
				if _, step := s.Store().Running(); step == "store-last" && !apart {
					apart = true
					s.cutFromMembers("n2", "n1", "n3", "n4")
				}
				if _, step := s.Store().Running(); step == "fence" && c.Name == "StopContainer" && c.Node == "n1" && !done {
					done = true
					s.Cut(sim.Management, "n4")
					if !s.Node("n1").Leave("n2") {
						t.Error("not removed")
					}
					return sim.KillAfter
				}
				return sim.Proceed
			}
			o := fromBackup
			o.Without = []string{"n3"}
			s.order(o)
			if !s.until(20*time.Minute, func() bool { return done }) {
				t.Fatalf("n1 is not stopped: %s", s.told().Reason)
			}
			s.pass(time.Minute)
			s.continuesNot(t)
		})
	})
}

// The daemon ends before it has stopped n1, whose stop is on record. N2 is cut off from the other members. An operator removes it from the list, and stops n1:
// within the time that the restore had for that, or later, by a clock that was ahead and is set right.
func TestRestoreOutsiders_AMemberThatTheOperatorStopsTakesPartInARemoval(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"at once": 0, "by a clock that is set right": 9 * time.Minute} {
		joining(t, name, func(t *testing.T, at string) {
			play(t, 4, func(s *stage) {
				s.Node("n1").JumpClock(ahead)
				s.fencedUnread(t, at, 1)
				s.Cut(sim.Management, "n4")
				s.cutFromMembers("n2", "n1", "n3", "n4")
				s.Node("n1").SetClock()
				s.pass(10*time.Second + ahead/2)
				if !s.Node("n1").Leave("n2") {
					t.Error("n2 is not removed")
				}
				s.pass(10 * time.Second)
				s.Node("n1").SwitchRestartsOff()
				s.Node("n1").StopByHand()
				s.pass(10 * time.Minute)
				s.continuesNot(t)
			})
		})
	}
}
