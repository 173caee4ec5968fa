package sim_test

import (
	"slices"
	"testing"
	"time"

	"cke/sim"
)

// N1 continues alone, as after etcd --force-new-cluster: its list has n1 only. The others remove it, and their list
// has three foreign voters, which are a quorum without n2 and n3. The cluster is frozen, and the operator restores
// or deletes it. Both lists have one cluster id, and both are confirmed by a quorum.
func TestOutsiders_TheListOfOneHistoryDoesNotHideForeignVotersOfTheOther(t *testing.T) {
	for _, what := range []string{"restore", "delete"} {
		t.Run(what, func(t *testing.T) {
			play(t, 6, func(s *stage) {
				s.heldOn(t, 3)
				s.TakeBackup()
				for _, n := range []string{"n4", "n5", "n6"} {
					s.joinsOn(t, n)
					s.pass(time.Minute)
				}
				if !s.Node("n1").ContinueAlone() {
					t.Fatal("does not continue alone")
				}
				s.pass(time.Minute)
				s.Cut(sim.Management, "n1") // the operator asks n2
				if !s.Node("n1").Leave("n1") {
					t.Fatal("n1 is not removed")
				}
				s.HealNetwork()
				s.pass(2 * time.Minute)
				t.Log(s.told().Health, s.told().Reason)
				if what == "delete" {
					s.Store().RequestDelete()
				} else {
					s.order(fromBackup)
				}
				s.pass(30 * time.Minute)
				over := s.Store().Deleted() || s.restored()
				t.Log(over, s.told().Reason)
				if s.Write("n4", "to the former") && over {
					t.Error("restored or deleted while foreign voters serve")
				}
				if slices.Contains(s.Violations(), "a deleted cluster serves") {
					t.Error("a deleted cluster serves")
				}
			})
		})
	}
}
