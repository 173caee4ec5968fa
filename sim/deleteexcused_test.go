package sim_test

import (
	"testing"
	"time"

	"cke/sim"
)

// N7 joins while n1, n2 and n3 do not answer cke. The operator calls n4 to n7 destroyed, the last one by its id,
// which no list has that cke knows. N4, n5 and n6 are out of the reach of cke, n7 answers, and the four serve. N1,
// n2 and n3 answer again as the deletion asks them.
func TestDeleteOutsiders_AnIDThatNoListHasDoesNotExcuseAMemberThatAnswers(t *testing.T) {
	play(t, 7, func(s *stage) {
		s.heldOn(t, 3)
		for _, n := range []string{"n4", "n5", "n6"} {
			s.joinsOn(t, n)
			s.pass(time.Minute)
		}
		s.latest().Kill()
		s.joinsOn(t, "n7")
		time.Sleep(time.Minute)
		id := s.Node("n7").ListedID("hand-n7")
		ours := []string{"n1", "n2", "n3"}
		for _, n := range ours {
			s.Node(n).FilterClientPort(true)
		}
		for _, n := range []string{"n4", "n5", "n6"} {
			s.Cut(sim.Management, n)
		}
		s.daemon()
		s.pass(time.Minute)
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if _, step := s.Store().Running(); step == "ask-members" {
				for _, n := range ours {
					s.Node(n).FilterClientPort(false)
				}
			}
			return sim.Proceed
		}
		s.destroy("hand-n4", "hand-n5", "hand-n6", id)
		s.Store().RequestDelete()
		s.pass(30 * time.Minute)
		over := s.Store().Deleted()
		t.Log(id, over, s.told().Reason)
		if s.Write("n7", "to the former") && over {
			t.Error("deleted while foreign voters serve, one of which answers")
		}
		s.unbroken(t)
	})
}
