package sim_test

import (
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// Foreign voters join while a restore prepares its members, and the cluster serves as before. They are a quorum without the member that the
// restore stops.
func TestRestore_CountsForeignVotersThatJoinMeanwhile(t *testing.T) {
	play(t, 3, func(s *stage) {
		c := s.cluster(s.Nodes()[:1])
		c.Policies.Foreign = cke.ForeignHold
		s.Store().SetSpec(c)
		s.daemon()
		if !s.until(convergence, s.settled) || !s.Write("n1", "kept") {
			t.Fatal("no cluster")
		}
		s.TakeBackup()
		joined := false
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if !joined && c.Name == "RestoreData" {
				joined = true
				for _, n := range s.Nodes()[1:] {
					if !n.Join("hand-"+n.Name(), true) {
						t.Error("cannot join")
					}
					n.Keep("hand-" + n.Name())
				}
			}
			return sim.Proceed
		}
		s.order(fromBackup)
		s.pass(20 * time.Minute)
		if !joined || s.restored() {
			t.Errorf("joined %v, restored %v beside foreign voters: %s", joined, s.restored(), s.told().Reason)
		}
		s.unbroken(t)
		s.ask(cke.TaskCancelRestore, "", "", "")
		s.pass(20 * time.Minute)
		if s.Store().Identity().Incarnation.State != cke.Formed || !s.Write("n2", "later") {
			t.Errorf("not canceled, or it takes no writes: %s", s.told().Reason)
		}
		s.unbroken(t)
	})
}
