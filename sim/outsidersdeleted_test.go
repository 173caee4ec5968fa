package sim_test

import (
	"testing"
	"time"

	"cke/sim"
)

// The same of a deletion: the daemon ends before it stops a member. An operator removes all members of cke from the list, which end, and n4 and n5 serve.
func TestDeleteOutsiders_WhoServesAloneIsAsked(t *testing.T) {
	for _, silent := range []bool{false, true} {
		t.Run(map[bool]string{true: "does not answer", false: "answers"}[silent], func(t *testing.T) {
			play(t, 5, func(s *stage) {
				s.heldOn(t, 3)
				s.joinsOn(t, "n4")
				s.pass(time.Minute)
				s.latest().Kill()
				s.joinsOn(t, "n5")
				time.Sleep(time.Minute)
				for _, n := range []string{"n1", "n2", "n3"} {
					if !s.Node(n).Leave(n) {
						t.Error("not removed: ", n)
					}
					time.Sleep(time.Minute)
					s.Node(n).SwitchRestartsOff()
					s.Node(n).StopByHand()
				}
				if silent {
					s.Cut(sim.Management, "n4")
					s.Cut(sim.Management, "n5")
				}
				s.Store().RequestDelete()
				s.daemon()
				s.pass(30 * time.Minute)
				deleted := s.Store().Deleted()
				s.HealNetwork()
				if s.Write("n4", "to the former") && deleted {
					t.Error("deleted while foreign voters serve")
				}
				s.unbroken(t)
			})
		})
	}
}

// The same before a restore is begun, with a daemon that runs all the time.
func TestRestoreOutsiders_WhoServesAloneIsAskedBeforeARestore(t *testing.T) {
	for _, silent := range []bool{false, true} {
		t.Run(map[bool]string{true: "does not answer", false: "answers"}[silent], func(t *testing.T) {
			play(t, 5, func(s *stage) {
				s.heldOn(t, 3)
				s.TakeBackup()
				s.joinsOn(t, "n4")
				s.pass(time.Minute)
				s.latest().Kill()
				s.joinsOn(t, "n5")
				time.Sleep(time.Minute)
				for _, n := range []string{"n1", "n2", "n3"} {
					if !s.Node(n).Leave(n) {
						t.Error("not removed: ", n)
					}
					time.Sleep(time.Minute)
					s.Node(n).SwitchRestartsOff()
					s.Node(n).StopByHand()
				}
				if silent {
					s.Cut(sim.Management, "n4")
					s.Cut(sim.Management, "n5")
				}
				s.daemon()
				s.pass(time.Minute)
				s.order(fromBackup)
				s.pass(30 * time.Minute)
				started := s.Store().Identity().Started() && s.restored()
				s.HealNetwork()
				if s.Write("n4", "to the former") && started {
					t.Error("restored while foreign voters serve")
				}
				s.unbroken(t)
			})
		})
	}
}
