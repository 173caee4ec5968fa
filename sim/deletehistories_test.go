package sim_test

import (
	"slices"
	"testing"
	"time"

	"cke/sim"
)

// N1 continues alone, as after etcd --force-new-cluster, and does not answer cke. A restore is under way that has
// stopped nobody. The others remove n1, n2 and n3, and n4 and n5 serve and answer cke. The list of n1 is confirmed
// by n1 alone: a deletion does not take it for the list of the others.
func TestDeleteOutsiders_WhoContinuesAloneDoesNotSpeakForTheOthersDuringARestore(t *testing.T) {
	play(t, 5, func(s *stage) {
		s.heldOn(t, 3)
		s.TakeBackup()
		for _, n := range []string{"n4", "n5"} {
			s.joinsOn(t, n)
			s.pass(time.Minute)
		}
		s.Node("n1").FilterClientPort(true)
		if !s.Node("n1").ContinueAlone() {
			t.Fatal("does not continue alone")
		}
		s.endsWhileDataIsMade()
		time.Sleep(time.Minute)
		s.Cut(sim.Management, "n1") // the operator asks the others
		if !s.Node("n1").Leave("n1") {
			t.Fatal("n1 is not removed")
		}
		s.removedByHand(t, "n2", "n3")
		s.HealNetwork()
		s.Node("n1").FilterClientPort(false)
		s.Store().RequestDelete()
		s.daemon()
		s.pass(30 * time.Minute)
		over := s.Store().Deleted()
		t.Log(over, s.told().Reason)
		if s.Write("n4", "to the former") && over {
			t.Error("deleted while foreign voters serve and answer")
		}
		if slices.Contains(s.Violations(), "a deleted cluster serves") {
			t.Error("a deleted cluster serves")
		}
	})
}
