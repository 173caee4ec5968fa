package sim_test

import (
	"testing"
	"time"

	"cke"
)

// N1 is cut off from the other members before n5 joins, of which n4 alone reports then: n2 and n3 have lost their
// data, and n5 is gone for good. What the restore says to name ends the wait, also once it was canceled as it said.
func TestRestoreOutsiders_AnIDThatOnlyAForeignMemberHasCanBeNamed(t *testing.T) {
	for _, cancel := range []bool{false, true} {
		t.Run(map[bool]string{false: "ordered again", true: "canceled"}[cancel], func(t *testing.T) {
			play(t, 5, func(s *stage) {
				s.heldOn(t, 3)
				s.TakeBackup()
				s.joinsOn(t, "n4")
				s.pass(time.Minute)
				s.endsWhileDataIsMade()
				s.cutFromMembers("n1", "n2", "n3", "n4", "n5")
				time.Sleep(time.Minute)
				s.joinsOn(t, "n5")
				time.Sleep(time.Minute)
				s.Node("n5").PowerOff()
				for _, n := range []string{"n2", "n3"} {
					s.Node(n).SwitchRestartsOff()
					s.Node(n).StopByHand()
					s.Node(n).EmptyVolumes()
				}
				s.daemon()
				s.pass(10 * time.Minute)
				names := s.advised()
				t.Log(names, s.told().Reason)
				if len(names) == 0 {
					t.Fatal("nothing to name")
				}
				s.Node("n4").PowerOff()
				s.pass(time.Minute)
				if cancel {
					s.ask(cke.TaskCancelRestore, "", "", "")
					s.pass(5 * time.Minute)
					t.Log(s.told().Reason)
				}
				s.endsTheWait(t, names, false)
				s.unbroken(t)
			})
		})
	}
}
