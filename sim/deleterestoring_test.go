package sim_test

import (
	"testing"
	"time"
)

// A foreign voter, 1 of 4, answers and is cut off from the other members, of which a quorum confirms the list. A
// deletion does not wait for it, also if it takes the place of a restore that is under way.
func TestDeleteOutsiders_AQuorumConfirmsTheListOfARestoreUnderWay(t *testing.T) {
	for _, restoring := range []bool{false, true} {
		t.Run(map[bool]string{false: "formed", true: "restoring"}[restoring], func(t *testing.T) {
			play(t, 4, func(s *stage) {
				s.heldOn(t, 3)
				s.TakeBackup()
				s.joinsOn(t, "n4")
				s.pass(time.Minute)
				if restoring {
					s.endsWhileDataIsMade()
				} else {
					s.latest().Kill()
				}
				s.cutFromMembers("n4", "n1", "n2", "n3")
				time.Sleep(time.Minute)
				s.Store().RequestDelete()
				s.daemon()
				if !s.until(30*time.Minute, s.Store().Deleted) {
					t.Errorf("not deleted: %s", s.told().Reason)
				}
				s.unbroken(t)
			})
		})
	}
}
