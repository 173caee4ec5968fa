package sim_test

import (
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// The machines of old members that an order calls destroyed are back for a while, serve, and are cut off from cke again: while the order waits, while the
// restore waits, or once the start of the restored members is on record. Nothing is started beside them.
func TestReturned_WhatIsSeenOfOldMembersCounts(t *testing.T) {
	for name, scene := range map[string]func(s *stage, order func(), seen func()){
		"while the order waits": func(s *stage, order, seen func()) {
			s.Store().Ask("pause", func(r *cke.Requests) { r.Hold = &cke.Hold{Reason: "an observation"} })
			s.pass(time.Minute)
			order()
			s.pass(time.Minute)
			seen()
			s.Store().Ask("resume", func(r *cke.Requests) { r.Hold = nil })
		},
		"while the restore waits": func(s *stage, order, seen func()) {
			s.Node("n1").FillDisk()
			order()
			s.until(10*time.Minute, func() bool { return s.Store().Identity().Incarnation.State == cke.Restoring })
			s.Node("n1").PowerOff()
			s.pass(time.Minute)
			seen()
			s.Node("n1").FreeDisk()
			s.Node("n1").PowerOn()
		},
		"once the start is on record": func(s *stage, order, seen func()) {
			order()
			done := false
			s.Judge = func(int, sim.Call) sim.Verdict {
				if id := s.Store().Identity(); !done && id.Incarnation.State == cke.Restoring && id.Started() {
					done = true
					s.Node("n1").PowerOff()
				}
				return sim.Proceed
			}
			s.until(10*time.Minute, func() bool { return done })
			s.pass(time.Minute)
			seen()
			s.Node("n1").PowerOn()
		},
		"once the start is on record, and they still answer": func(s *stage, order, seen func()) {
			order()
			done := false
			s.Judge = func(int, sim.Call) sim.Verdict {
				if id := s.Store().Identity(); !done && id.Incarnation.State == cke.Restoring && id.Started() {
					done = true
					s.Node("n1").PowerOff()
				}
				return sim.Proceed
			}
			s.until(10*time.Minute, func() bool { return done })
			s.pass(time.Minute)
			for _, n := range s.Nodes()[3:] {
				n.PowerOn()
				n.StartByHand()
			}
			s.pass(10 * time.Minute)
			s.Node("n1").PowerOn()
		},
	} {
		for kind, o := range map[string]cke.RestoreOrder{
			"recovery": {Survivor: "n1", Destroyed: []string{"n4", "n5", "n6"}},
			"restore":  {Target: fromBackup.Target, Source: fromBackup.Source, Destroyed: []string{"n4", "n5", "n6"}},
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				play(t, 6, func(s *stage) {
					old := s.imports(t, true)
					s.KeepOld()
					s.declare(s.Nodes()[:1]...)
					if !s.until(convergence, func() bool { return s.Serving() == 4 }) || !s.Write("n1", "before") {
						t.Fatal("no member of cke votes")
					}
					s.TakeBackup()
					for _, n := range old {
						n.PowerOff()
					}
					s.pass(time.Minute)
					seen := func() {
						for _, n := range old {
							n.PowerOn()
							n.StartByHand()
						}
						s.pass(10 * time.Minute)
						if !s.Write(old[0].Name(), "late") {
							t.Error("they do not serve")
						}
						t.Logf("%s", s.told().Reason)
						for _, n := range old {
							s.Cut(sim.Management, n.Name())
							s.Cut("n1", n.Name())
						}
						s.pass(time.Minute)
					}
					scene(s, func() { s.order(o) }, seen)
					s.pass(30 * time.Minute)
					if s.restored() {
						t.Error("restored beside old members that were seen")
					}
					for _, r := range s.Store().Records()[max(0, len(s.Store().Records())-4):] {
						t.Logf("%s %s %s", r.Operation, r.State, r.Error)
					}
					s.unbroken(t)
				})
			})
		}
	}
}
