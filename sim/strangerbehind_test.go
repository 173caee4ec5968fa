package sim_test

import (
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// As TestFound_ANewMemberIsNotTheOneBeforeIt, but the voter that is behind is one that a person added manually.
func TestFound_ANewMemberIsNotToldTheFormerIDByAStranger(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.declare(s.Nodes()[1:]...)
		s.daemon()
		s.must("formed", s.settled)
		if !s.Node("n1").Join("hand", true) {
			t.Fatal("not joined")
		}
		s.pass(time.Minute)
		s.ask(cke.TaskReplace, "n2", string(s.join("n2").ID), "")
		s.once(sim.Proceed, func(c sim.Call) bool {
			if c.Name == "RemoveMember" {
				s.Node("n1").Trickle(true)
			}
			return c.Name == "RemoveMember"
		})
		s.until(10*time.Minute, func() bool { return false })
		s.Node("n1").Trickle(false)
		done := s.until(2*time.Hour, func() bool { return s.answered() })
		if !done {
			t.Error("it is not replaced afterwards")
		}
		s.isUnharmed(t)
	})
}
