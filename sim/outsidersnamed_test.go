package sim_test

import (
	"testing"
	"time"

	"cke"
	"cke/server/strategy"
)

// All members of cke leave the list while cke is away. N4, of which it knows, answers, and reports n5, of which it
// does not know and which is down: they have no quorum. The error says to call both destroyed, and ckecli refuses a
// name that is in no list of the status.
func TestDeleteOutsiders_WhatAnErrorNamesCanBeNamed(t *testing.T) {
	play(t, 5, func(s *stage) {
		s.heldOn(t, 3)
		s.joinsOn(t, "n4")
		s.pass(time.Minute)
		s.latest().Kill()
		s.joinsOn(t, "n5")
		time.Sleep(time.Minute)
		s.removedByHand(t, "n1", "n2", "n3")
		s.Node("n5").PowerOff()
		s.Store().RequestDelete()
		s.daemon()
		s.pass(10 * time.Minute)
		t.Log(s.told().Reason)
		in := strategy.InputFrom(s.Store().Spec(), s.Store().Identity(), cke.Requests{}, s.Store().Status())
		for _, id := range s.advised() {
			if !strategy.Listed(in, id) {
				t.Errorf("ckecli cluster delete demo --destroyed %s is refused: cluster demo has no node %s", id, id)
			}
		}
		s.unbroken(t)
	})
}
