package sim_test

import (
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// A freeze ends what is under way, but not between the stop of a member and its next start: nobody starts a member in a frozen cluster.
func TestLoop_AFreezeLeavesNoMemberStoppedThatIsBeingRestarted(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.Store().SetSpec(s.cluster(s.Nodes()))
		s.loop()
		if !s.until(convergence, func() bool { return s.Store().Status().Health == cke.HealthReady }) {
			t.Fatal("does not form")
		}
		changed := s.cluster(s.Nodes())
		changed.Options.Etcd.ExtraArgs = []string{"--quota-backend-bytes=8589934592"}
		stopped := ""
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if operation, _ := s.Store().Running(); operation == "restart-member" && c.Name == "StopContainer" && stopped == "" {
				stopped = c.Node
				s.Node(stopped).SlowDown(2 * time.Second) // the loop sees the finding before the member runs again
				s.Node(map[string]string{"n1": "n2", "n2": "n3", "n3": "n1"}[stopped]).CorruptData()
				s.NoticeCorruption()
			}
			return sim.Proceed
		}
		s.Store().SetSpec(changed)
		if !s.until(convergence, func() bool { return s.frozenFor(cke.FreezeCorrupt) }) {
			t.Fatalf("not frozen: %s", s.Store().Status().Reason)
		}
		s.pass(time.Minute)
		if c, _ := s.Node(stopped).Look(); len(c) != 1 || !c[0].Running() || c[0].KeptDown {
			t.Errorf("the member of %s is down in a frozen cluster: %+v", stopped, c)
		}
	})
}
