package sim_test

import (
	"testing"
	"time"

	"cke/sim"
)

// A foreign voter, 1 of 4, is out of the reach of cke, or was added and never started. The deletion has stopped all other members, and one call fails once: nothing
// else is wrong.
func TestDeleteOutsiders_OneFailedCallAfterTheStopsKeepsNothingWaiting(t *testing.T) {
	for _, step := range []string{"seal", "remove", "mark-over"} {
		for _, starts := range []bool{true, false} {
			t.Run(step+map[bool]string{true: ", out of reach", false: ", never started"}[starts], func(t *testing.T) {
				play(t, 4, func(s *stage) {
					s.heldOn(t, 3)
					if !s.Node("n4").Join("hand-n4", starts) {
						t.Fatal("does not join")
					}
					s.pass(time.Minute)
					s.Cut(sim.Management, "n4")
					s.pass(time.Minute)
					failed := ""
					s.Judge = func(_ int, c sim.Call) sim.Verdict {
						operation, at := s.Store().Running()
						if containers, _ := s.Node("n3").Look(); operation == "delete-cluster" && failed == "" && (at == step || step == "remove" && len(containers) == 0) {
							failed = at
							return sim.Refuse
						}
						return sim.Proceed
					}
					s.Store().RequestDelete()
					if !s.until(time.Hour, s.Store().Deleted) {
						t.Errorf("failed at %q, not deleted: %s", failed, s.told().Reason)
					}
					s.unbroken(t)
				})
			})
		}
	}
}
