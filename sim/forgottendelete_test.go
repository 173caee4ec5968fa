package sim_test

import (
	"testing"
	"time"

	"cke/sim"
)

// A deletion waits for n1, and calls n2 and n3 destroyed. They are back for a while, serve, and are cut off from cke. Once n1 is back, the deletion
// has seen that they run: the cluster is not removed from the store, and declared again it would serve twice.
func TestReview_WhatIsSeenWhileADeletionWaitsCounts(t *testing.T) {
	play(t, 6, func(s *stage) {
		s.declare(s.Nodes()[:3]...)
		s.daemon()
		if !s.until(convergence, s.settled) || !s.Write("n1", "kept") {
			t.Fatal("no cluster")
		}
		down := s.Nodes()[1:3]
		for _, n := range s.Nodes()[:3] {
			n.PowerOff()
		}
		s.pass(time.Minute)
		s.Store().Destroy("n2", "n3")
		s.Store().RequestDelete()
		s.pass(time.Minute)
		for _, n := range down {
			n.PowerOn()
		}
		s.pass(5 * time.Minute)
		if !s.Write("n2", "late") {
			t.Fatal("they do not serve")
		}
		t.Logf("while it waits: %s", s.told().Reason)
		for _, n := range down {
			s.Cut(sim.Management, n.Name())
			s.Cut("n1", n.Name())
		}
		s.pass(time.Minute)
		s.Node("n1").PowerOn()
		s.pass(10 * time.Minute)
		if s.Store().Deleted() {
			t.Errorf("deleted while members serve that were seen: a client writes: %v", s.Write("n2", "later"))
		}
		if s.Store().Deleted() {
			s.Store().Redeclare(s.cluster(s.Nodes()[3:]))
			s.daemon()
			s.pass(20 * time.Minute)
			t.Logf("n2 takes writes: %v, n4 takes writes: %v; %s, %s", s.Write("n2", "x"), s.Write("n4", "y"), s.told().Health, s.told().Reason)
			t.Logf("%v", s.World)
		}
		s.unbroken(t)
	})
}
