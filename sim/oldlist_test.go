package sim_test

import (
	"testing"
	"time"
)

// N1 is cut off from the others before n4 joins, and answers by an old list without n4. cke has read of n4. While it
// is away, n5 joins, n1, n2 and n3 are removed, and n4 and n5 serve out of the reach of cke.
func TestOutsiders_AnOldListDoesNotHideAForeignVoterThatIsKnown(t *testing.T) {
	for _, what := range []string{"restore", "delete"} {
		t.Run(what, func(t *testing.T) {
			play(t, 5, func(s *stage) {
				s.heldOn(t, 3)
				s.TakeBackup()
				s.cutFromMembers("n1", "n2", "n3", "n4", "n5")
				s.pass(time.Minute)
				s.joinsOn(t, "n4")
				s.pass(time.Minute)
				s.latest().Kill()
				if !s.Node("n1").Leave("n1") {
					t.Error("n1 is not removed")
				}
				time.Sleep(time.Minute)
				s.joinsOn(t, "n5")
				time.Sleep(time.Minute)
				s.removedByHand(t, "n2", "n3")
				s.hides(true)
				s.ends(what)
				s.notServedBeside(t, s.Store().Deleted() || s.restored())
			})
		})
	}
}
