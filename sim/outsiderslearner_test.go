package sim_test

import (
	"testing"
	"time"
)

// N4 is a foreign learner when cke reads the list last. While cke is away it is promoted, n5 joins, all members of cke leave the list and end, and n4 and n5 serve
// out of the reach of cke.
func TestOutsiders_ALearnerThatWasListedMayServeByNow(t *testing.T) {
	for _, what := range []string{"restore", "delete"} {
		t.Run(what, func(t *testing.T) {
			play(t, 5, func(s *stage) {
				s.heldOn(t, 3)
				s.TakeBackup()
				if !s.Node("n4").JoinLearner("hand-n4") {
					t.Fatal("does not join")
				}
				s.Node("n4").Keep("hand-n4")
				s.pass(time.Minute)
				s.latest().Kill()
				time.Sleep(time.Minute)
				if !s.Node("n4").PromoteByHand("hand-n4") {
					t.Fatal("not promoted")
				}
				time.Sleep(time.Minute)
				s.joinsOn(t, "n5")
				time.Sleep(time.Minute)
				s.removedByHand(t, "n1", "n2", "n3")
				s.hides(true)
				s.ends(what)
				s.notServedBeside(t, s.Store().Deleted() || s.restored())
			})
		})
	}
}
