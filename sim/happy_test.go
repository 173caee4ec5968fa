package sim_test

import (
	"testing"
	"time"
)

func TestBootstrap_EndsInAClusterThatServes(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 7} {
		play(t, n, func(s *stage) {
			s.tell = t.Logf
			s.OnTrace(t.Logf)
			s.daemon()
			if !s.until(time.Minute, s.settled) {
				t.Fatalf("%d nodes: %v", n, s.Violations())
			}
			t.Logf("%d nodes: %d calls\n%s", n, s.Calls(), s.World)
		})
	}
}
