package sim_test

import (
	"testing"
	"time"
)

// underWay is a restore that was begun before cke is away.
const underWay = "restore under way"

// ckeIsAway lets no daemon run from now on.
func (s *stage) ckeIsAway(what string) {
	if what == underWay {
		s.endsWhileDataIsMade()
	} else {
		s.latest().Kill()
	}
}

// ckeIsBack lets a daemon run again, which restores or deletes.
func (s *stage) ckeIsBack(what string) {
	if what == underWay {
		s.daemon()
		s.pass(30 * time.Minute)
	} else {
		s.ends(what)
	}
}

// While cke is away n4 and n5 join, n1, n2 and n3 are removed and end, and n4 and n5 serve out of the reach of cke.
// Nobody reports them, but the containers of n1, n2 and n3 have the last words of etcd, that the member was removed,
// and the list that cke has read last has all three.
func TestOutsiders_WhatEtcdSaysOfARemovalCounts(t *testing.T) {
	for _, what := range []string{"restore", underWay, "delete"} {
		t.Run(what, func(t *testing.T) {
			play(t, 5, func(s *stage) {
				s.heldOn(t, 3)
				s.TakeBackup()
				s.pass(time.Minute)
				s.ckeIsAway(what)
				for _, n := range []string{"n4", "n5"} {
					s.joinsOn(t, n)
					time.Sleep(time.Minute)
				}
				s.removedAndStopped(t, "n1", "n2", "n3")
				s.hides(true)
				s.ckeIsBack(what)
				s.notServedBeside(t, s.Store().Deleted() || s.restored())
			})
		})
	}
}

// As before, and n4 and n5 are gone for good. What cke says to name ends the wait.
func TestOutsiders_TheAdviceAboutARemovalEnds(t *testing.T) {
	for _, what := range []string{"restore", underWay, "delete"} {
		t.Run(what, func(t *testing.T) {
			play(t, 5, func(s *stage) {
				s.heldOn(t, 3)
				s.TakeBackup()
				s.pass(time.Minute)
				s.ckeIsAway(what)
				s.joinsOn(t, "n4")
				time.Sleep(time.Minute)
				s.joinsOn(t, "n5")
				time.Sleep(time.Minute)
				s.removedAndStopped(t, "n1", "n2", "n3")
				s.Node("n4").PowerOff()
				s.Node("n5").PowerOff()
				s.ckeIsBack(what)
				names := s.advised()
				t.Log(names, s.told().Reason)
				s.endsTheWait(t, names, what == "delete")
				s.unbroken(t)
			})
		})
	}
}
