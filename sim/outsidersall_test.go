package sim_test

import (
	"testing"
	"time"

	"cke/sim"
)

// The daemon ends before it stops a member, or once it has stopped n1. Then an operator removes all members of cke from the list, which end. Foreign voters on n4
// and n5, of which cke knows, continue to serve, and nothing is cut off.
func TestRestoreOutsiders_WhoServesAloneIsAsked(t *testing.T) {
	for _, c := range []struct {
		step, call string
		order      []string
	}{
		{"restore-data", "RestoreData", []string{"n1", "n2", "n3"}},
		{"store-last", "", []string{"n1", "n2", "n3"}},
		{"fence", "StopContainer", []string{"n1", "n2", "n3"}},
	} {
		for _, silent := range []bool{false, true} {
			t.Run(c.step+map[bool]string{true: ", which do not answer cke then", false: ""}[silent], func(t *testing.T) {
				play(t, 5, func(s *stage) {
					s.heldOn(t, 3)
					s.TakeBackup()
					done := false
					s.Judge = func(_ int, call sim.Call) sim.Verdict {
						if _, step := s.Store().Running(); !done && step == c.step && (c.call == "" || call.Name == c.call) {
							done = true
							return sim.KillAfter
						}
						return sim.Proceed
					}
					s.joinsOn(t, "n4")
					s.pass(time.Minute)
					o := fromBackup
					s.order(o)
					if !s.until(20*time.Minute, func() bool { return done }) {
						t.Fatalf("did not end: %s", s.told().Reason)
					}
					s.Judge = nil
					if c.step != "fence" { // n1 is stopped then, so no member can be added
						s.joinsOn(t, "n5")
					}
					s.pass(time.Minute)
					for _, n := range c.order {
						if !s.Node(n).Leave(n) {
							t.Log("not removed: ", n)
						}
						s.pass(time.Minute)
						s.Node(n).SwitchRestartsOff()
						s.Node(n).StopByHand()
						s.pass(time.Minute)
					}
					if silent {
						s.Cut(sim.Management, "n4")
						s.Cut(sim.Management, "n5")
					}
					s.daemon()
					if s.until(30*time.Minute, func() bool { return s.Store().Identity().Started() }) {
						t.Error("restored members start")
					}
					s.pass(10 * time.Minute)
					s.HealNetwork()
					if s.Write("n4", "to the former") && s.restored() {
						t.Error("the former cluster takes writes beside the restored one")
					}
					s.unbroken(t)
				})
			})
		}
	}
}
