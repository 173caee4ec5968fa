package sim_test

import (
	"testing"

	"cke"
)

// With authentication on, all changes of members work, those too that a follower would only pass on.
func TestAuth_MembersAreChangedWithItOn(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.declare(s.Nodes()[:3]...)
		s.daemon()
		if !s.until(convergence, s.settled) {
			t.Fatal("does not form")
		}
		s.ask(cke.TaskAuth, "", cke.AuthOn, "")
		if !s.until(convergence, func() bool { return len(s.asked()) == 0 }) {
			t.Fatal("authentication is not turned on")
		}
		s.ask(cke.TaskMoveLeader, "n2", "", "") // others are asked first
		if !s.until(convergence, func() bool { return len(s.asked()) == 0 && s.leading() == "n2" }) {
			t.Fatal("n2 does not lead")
		}
		s.declare(s.Nodes()[0], s.Nodes()[1], s.Nodes()[3])
		if !s.until(convergence, func() bool { return s.join("n4").MemberID != "" && s.settled() }) {
			dec, _ := s.latest().now()
			t.Fatal(describeDecision(1, dec))
		}
	})
}
