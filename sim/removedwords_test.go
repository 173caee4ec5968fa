package sim_test

import (
	"testing"
	"time"
)

// While cke is away n4 and n5 join, n1, n2 and n3 are removed and end, and n4 and n5 serve out of the reach of cke.
// Nobody reports them, but the containers of n1, n2 and n3 have the last words of etcd, that the member was removed,
// and the list that cke has read last has all three.
func TestOutsiders_WhatEtcdSaysOfARemovalCounts(t *testing.T) {
	for _, what := range []string{"restore", "restore under way", "delete"} {
		t.Run(what, func(t *testing.T) {
			play(t, 5, func(s *stage) {
				s.heldOn(t, 3)
				s.TakeBackup()
				s.pass(time.Minute)
				if what == "restore under way" {
					s.endsWhileDataIsMade()
				} else {
					s.latest().Kill()
				}
				for _, n := range []string{"n4", "n5"} {
					s.joinsOn(t, n)
					time.Sleep(time.Minute)
				}
				s.removedAndStopped(t, "n1", "n2", "n3")
				s.hides(true)
				if what == "restore under way" {
					s.daemon()
					s.pass(30 * time.Minute)
				} else {
					s.ends(what)
				}
				s.notServedBeside(t, s.Store().Deleted() || s.restored())
			})
		})
	}
}

// As before, and n4 and n5 are gone for good. What cke says to name ends the wait.
func TestOutsiders_TheAdviceAboutARemovalEnds(t *testing.T) {
	for _, what := range []string{"restore", "restore under way", "delete"} {
		t.Run(what, func(t *testing.T) {
			play(t, 5, func(s *stage) {
				s.heldOn(t, 3)
				s.TakeBackup()
				s.pass(time.Minute)
				if what == "restore under way" {
					s.endsWhileDataIsMade()
				} else {
					s.latest().Kill()
				}
				s.joinsOn(t, "n4")
				time.Sleep(time.Minute)
				s.joinsOn(t, "n5")
				time.Sleep(time.Minute)
				s.removedAndStopped(t, "n1", "n2", "n3")
				s.Node("n4").PowerOff()
				s.Node("n5").PowerOff()
				if what == "restore under way" {
					s.daemon()
					s.pass(10 * time.Minute)
				} else {
					s.ends(what)
				}
				names := s.advised()
				t.Log(names, s.told().Reason)
				if what == "delete" {
					s.destroy(names...)
				} else {
					o := fromBackup
					o.Destroyed = names
					s.order(o)
				}
				if !s.until(time.Hour, func() bool { return s.Store().Deleted() || s.restored() }) {
					records := s.Store().Records()
					t.Errorf("%v did not help: %s; %+v", names, s.told().Reason, records[len(records)-1])
				}
				s.unbroken(t)
			})
		})
	}
}
