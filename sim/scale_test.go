package sim_test

import (
	"fmt"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// ready: the cluster has exactly these members and all of the present file is done.
func (s *stage) ready(nodes ...*sim.Node) func() bool {
	return func() bool {
		if len(s.drivers) == 0 {
			return false
		}
		d, status := s.latest().now()
		return d.Converged && status.Health == cke.HealthReady && status.Declared == len(nodes) && status.Ready == len(nodes) && len(s.Store().Identity().Joins) == len(nodes)
	}
}

// Requirements A9, A12, A13, A14, I14, I19, N11, N12, C10, C12: up and down, one at a time.
func TestScale_FollowsTheFileUpAndDown(t *testing.T) {
	play(t, 5, func(s *stage) {
		s.tell = t.Logf
		all := s.Nodes()
		s.declare(all[:1]...)
		s.daemon()
		for i, n := range []int{1, 3, 5, 3, 1, 2, 1} {
			s.declare(all[:n]...)
			if !s.until(2*time.Minute, s.ready(all[:n]...)) {
				d, status := s.latest().now()
				t.Fatalf("not ready with %d: %s / %s %s %v\n%s", n, d.Reason, status.Health, status.Summary, s.Violations(), s.World)
			}
			if !s.Write(all[0].Name(), fmt.Sprint("w", i)) {
				t.Fatalf("no write with %d members", n)
			}
			if v := s.Violations(); len(v) > 0 {
				t.Fatal(v)
			}
		}
	})
}

// Requirements C4, C8: the dead one is removed before the new one is added, and its machine may be gone.
func TestReplace_TakesADeadNodeOutAndANewOneIn(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.tell = t.Logf
		all := s.Nodes()
		s.declare(all[:3]...)
		s.daemon()
		if !s.until(time.Minute, s.ready(all[:3]...)) {
			t.Fatal("no start")
		}
		s.Write(all[0].Name(), "before")
		all[2].PowerOff()
		s.declare(all[0], all[1], all[3])
		if !s.until(2*time.Minute, s.ready(all[0], all[1], all[3])) {
			d, status := s.latest().now()
			t.Fatalf("%s / %s %s %v", d.Reason, status.Health, status.Summary, s.Violations())
		}
		all[2].PowerOn()
		s.pass(time.Minute)
		if v := s.Violations(); len(v) > 0 {
			t.Fatal(v)
		}
	})
}
