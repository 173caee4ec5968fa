package sim_test

import (
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// The members of n2 and n3, which an order calls destroyed, are back before a step of an operation asks them, serve where only their etcd answers, and
// are cut off from cke right after they answered that step. The store does not answer it then. What the step saw counts all the same.

// seenOnce lets members be back for one answer to a step of an operation, after which they serve where cke does not reach them. It returns
// whether that happened.
func (s *stage) seenOnce(step string, down []*sim.Node, unstored func(sim.Call) bool) func() bool {
	back, answered, lost := false, false, false
	s.Judge = func(_ int, c sim.Call) sim.Verdict {
		_, runs := s.Store().Running()
		switch {
		case runs != step && !back || lost:
		case !back:
			back = true
			for _, n := range down {
				n.RefuseKey(true)
				n.PowerOn()
			}
		case !answered:
			answered = c.Name == "Endpoint" && c.Node == down[len(down)-1].Name()
		case unstored(c):
			lost = true
			for _, n := range down {
				n.RefuseKey(false)
				s.Cut(sim.Management, n.Name())
			}
			return sim.LoseAnswer
		}
		return sim.Proceed
	}
	return func() bool { return lost }
}

func identityRead(c sim.Call) bool { return c.Port == "store" && c.Name == "Identity" }

// The restored member starts only once the others have been stopped.
func TestDestroyed_WhatAStepSawCountsIfTheStoreDoesNotAnswerIt(t *testing.T) {
	for _, step := range []string{"mark-over", "start"} {
		t.Run(step, func(t *testing.T) {
			play(t, 3, func(s *stage) {
				down := calledDestroyed(t, s, asItIs)
				lost := s.seenOnce(step, down, identityRead)
				s.order(destroyedOrders["restore"])
				s.pass(20 * time.Minute)
				if !lost() || !s.Write("n2", "late") || s.restored() {
					t.Fatalf("lost %v, restored %v: %s", lost(), s.restored(), s.told().Reason)
				}
				s.HealNetwork()
				s.must("restored once they are stopped", s.restored)
				s.unbroken(t)
			})
		})
	}
}

// Nothing is left of a cluster that is deleted.
func TestDelete_WhatAStepSawCountsOnceItIsAway(t *testing.T) {
	play(t, 3, func(s *stage) {
		down := calledDestroyed(t, s, asItIs)
		lost := s.seenOnce("remove-container", down, func(sim.Call) bool { return true })
		s.destroy("n2", "n3")
		s.Store().RequestDelete()
		s.pass(20 * time.Minute)
		if !lost() || !s.Write("n2", "late") || s.Store().Deleted() || !s.reports(cke.CodeFence, "n3") {
			t.Fatalf("lost %v, deleted %v: %s", lost(), s.Store().Deleted(), s.told().Reason)
		}
		for _, n := range down {
			n.PowerOff()
		}
		s.pass(time.Minute)
		s.destroy("n2", "n3")
		s.must("deleted once they are named again", s.Store().Deleted)
		s.unbroken(t)
	})
}
