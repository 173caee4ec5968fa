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
		s.joinsAtRestore(t, func([]*sim.Node) {})
		if s.restored() {
			t.Errorf("restored beside foreign voters: %s", s.told().Reason)
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
