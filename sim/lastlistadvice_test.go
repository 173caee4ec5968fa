package sim_test

import (
	"testing"
	"time"

	"cke"
)

// N4 joins while data is made, and only n1 knows of it, which is cut off from the others then. No quorum is left, and n4
// is gone for good. What the restore says to name ends the wait.
func TestRestoreOutsiders_TheAdviceAboutAListThatIsReadLastEnds(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.heldOn(t, 3)
		s.TakeBackup()
		s.onceAt("RestoreData", func() {
			s.joinsOn(t, "n4")
			time.Sleep(10 * time.Second)
			s.cutFromMembers("n1", "n2", "n3", "n4")
			s.Node("n4").PowerOff()
			for _, n := range []string{"n2", "n3"} {
				s.Node(n).SwitchRestartsOff()
				s.Node(n).StopByHand()
			}
		})
		s.order(fromBackup)
		s.pass(10 * time.Minute)
		names := s.advised()
		t.Log(names, s.told().Reason)
		s.ask(cke.TaskCancelRestore, "", "", "")
		s.pass(5 * time.Minute)
		s.endsTheWait(t, names, false)
		s.unbroken(t)
	})
}
