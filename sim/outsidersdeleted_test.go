package sim_test

import (
	"testing"
	"time"
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
				s.removedByHand(t, "n1", "n2", "n3")
				s.hides(silent)
				s.Store().RequestDelete()
				s.daemon()
				s.pass(30 * time.Minute)
				s.notServedBeside(t, s.Store().Deleted())
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
				s.removedByHand(t, "n1", "n2", "n3")
				s.hides(silent)
				s.daemon()
				s.pass(time.Minute)
				s.order(fromBackup)
				s.pass(30 * time.Minute)
				s.notServedBeside(t, s.Store().Identity().Started() && s.restored())
			})
		})
	}
}
