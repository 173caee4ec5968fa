package sim_test

import (
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// A restore that calls n2 and n3 destroyed is replaced by another one that does so, too. They are seen then, which goes on the record of the second
// one, and are cut off from cke. The second one is canceled: the first one continues, and starts no member beside those that were seen.
func TestReview_WhatASecondRestoreSawCountsForTheFirst(t *testing.T) {
	for kind, o := range destroyedOrders {
		t.Run(kind, func(t *testing.T) { secondRestoreSaw(t, o) })
	}
}

func secondRestoreSaw(t *testing.T, o cke.RestoreOrder) {
	play(t, 3, func(s *stage) {
		down := calledDestroyed(t, s, asItIs)
		s.Node("n1").FillDisk()
		s.order(o)
		s.until(10*time.Minute, func() bool { return s.Store().Identity().Incarnation.State == cke.Restoring })
		first := s.Store().Identity().Incarnation.ID
		s.order(destroyedOrders["restore"])
		s.until(10*time.Minute, func() bool { return s.Store().Identity().Incarnation.ID != first })
		second := s.Store().Identity().Incarnation
		if second.State != cke.Restoring || second.ID == first {
			t.Fatalf("no second restore: %v", s.World)
		}
		for _, n := range down {
			n.PowerOn()
		}
		s.pass(2 * time.Minute)
		t.Logf("returned: %v", s.Store().Identity().Incarnation.Restore.Returned)
		if !s.Write("n2", "late") {
			t.Fatal("they do not serve")
		}
		for _, n := range down {
			s.Cut(sim.Management, n.Name())
		}
		s.pass(time.Minute)
		s.ask(cke.TaskCancelRestore, "", "", "")
		s.pass(5 * time.Minute)
		t.Logf("now %s (first %s): %v", s.Store().Identity().Incarnation.ID, first, s.Store().Identity().Incarnation.Restore)
		s.Node("n1").FreeDisk()
		s.pass(30 * time.Minute)
		late := s.Write("n2", "later")
		t.Logf("former members take writes: %v; restored: %v", late, s.restored())
		if s.restored() && late {
			t.Error("restored beside members that were seen")
		}
		s.unbroken(t)
	})
}
