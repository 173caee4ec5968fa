package sim_test

import (
	"testing"
	"time"

	"cke/sim"
)

// A restore is under way, and n4 is a foreign learner. The daemon ends while it makes data. Then n5 and n6 join, n1,
// n2 and n3 are removed, and n5 and n6 serve out of the reach of cke. The learner answers.
func TestRestoreOutsiders_ALearnerThatAnswersDoesNotSpeakForTheVoters(t *testing.T) {
	play(t, 6, func(s *stage) {
		s.heldOn(t, 3)
		s.TakeBackup()
		if !s.Node("n4").JoinLearner("hand-n4") {
			t.Fatal("does not join")
		}
		s.Node("n4").Keep("hand-n4")
		s.pass(time.Minute)
		s.endsWhileDataIsMade()
		s.joinsOn(t, "n5")
		time.Sleep(time.Minute)
		s.joinsOn(t, "n6")
		time.Sleep(time.Minute)
		s.removedByHand(t, "n1", "n2", "n3")
		s.Cut(sim.Management, "n5")
		s.Cut(sim.Management, "n6")
		s.daemon()
		s.pass(30 * time.Minute)
		over := s.restored()
		t.Log(over, s.told().Reason)
		s.HealNetwork()
		if s.Write("n5", "to the former") && over {
			t.Error("restored while foreign voters serve")
		}
		s.unbroken(t)
	})
}
