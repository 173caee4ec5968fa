package sim_test

import (
	"slices"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// calledDestroyed is a cluster of three that was backed up, and of which n2 and n3 are without power; prepare is done to them before.
func calledDestroyed(t *testing.T, s *stage, prepare func(*sim.Node)) (down []*sim.Node) {
	s.daemon()
	if !s.until(convergence, s.settled) || !s.Write("n1", "kept") {
		t.Fatal("no cluster")
	}
	s.TakeBackup()
	down = s.Nodes()[1:3]
	for _, n := range down {
		prepare(n)
		n.PowerOff()
	}
	s.pass(time.Minute)
	return down
}

// onceStarted does something as soon as the start of restored members is on record, and returns once it has.
func (s *stage) onceStarted(t *testing.T, do func()) {
	done := false
	s.Judge = func(int, sim.Call) sim.Verdict {
		if id := s.Store().Identity(); !done && id.Incarnation.State == cke.Restoring && id.Started() {
			done = true
			do()
		}
		return sim.Proceed
	}
	if !s.until(10*time.Minute, func() bool { return done }) {
		t.Fatal("no restored member was to be started")
	}
	s.pass(time.Minute)
}

// serveLate lets nodes be back for a while, on which former members serve.
func (s *stage) serveLate(t *testing.T, nodes []*sim.Node) {
	for _, n := range nodes {
		n.PowerOn()
	}
	s.pass(10 * time.Minute)
	if !s.Write("n2", "late") {
		t.Fatal("they do not serve")
	}
}

func asItIs(*sim.Node) {}

func refuseKey(n *sim.Node) { n.RefuseKey(true) }

// Machines that the order calls destroyed are back for a while, with an sshd that refuses cke: their members answer. Nothing is started
// beside them once they are cut off again.
func TestDestroyed_WhatOnlyEtcdAnswersCounts(t *testing.T) {
	for name, o := range destroyedOrders {
		t.Run(name, func(t *testing.T) {
			play(t, 3, func(s *stage) {
				down := calledDestroyed(t, s, refuseKey)
				s.order(o)
				s.until(10*time.Minute, func() bool { return s.Store().Identity().Incarnation.State == cke.Restoring })
				s.Node("n1").PowerOff()
				s.pass(time.Minute)
				s.serveLate(t, down)
				for _, n := range down {
					n.FilterClientPort(true)
				}
				s.Node("n1").PowerOn()
				s.pass(30 * time.Minute)
				if s.restored() {
					t.Error("restored beside members that were seen")
				}
				s.unbroken(t)
			})
		})
	}
}

// The same once the start of the restored members is on record, and none of them was started. Once the machines are back for good, all ends.
func TestDestroyed_WhatIsSeenAfterTheStartIsOnRecordCounts(t *testing.T) {
	play(t, 3, func(s *stage) {
		down := calledDestroyed(t, s, asItIs)
		s.order(destroyedOrders["restore"])
		s.onceStarted(t, s.Node("n1").PowerOff)
		s.serveLate(t, down)
		for _, n := range down {
			s.Cut(sim.Management, n.Name())
		}
		s.Node("n1").PowerOn()
		s.pass(30 * time.Minute)
		if s.restored() {
			t.Error("restored beside members that were seen")
		}
		s.HealNetwork()
		if !s.until(convergence, s.restored) {
			t.Errorf("it does not end once they are back: %v", s.World)
		}
		s.unbroken(t)
	})
}

// Whatever else decides what is done with the cluster meanwhile, what is seen goes on record.
func TestDestroyed_WhatIsSeenCountsWhateverDecides(t *testing.T) {
	for name, meanwhile := range map[string]struct{ starts, ends func(*stage) }{
		"a deletion waits": {func(s *stage) { s.Store().RequestDelete() }, func(s *stage) { s.Store().CancelDelete() }},
		"it is paused": {func(s *stage) {
			s.Store().Ask("pause", func(r *cke.Requests) { r.Hold = &cke.Hold{Reason: "an observation"} })
		},
			func(s *stage) { s.Store().Ask("resume", func(r *cke.Requests) { r.Hold = nil }) }},
		"it is to hibernate": {func(s *stage) { s.Store().Hibernate(true) }, func(s *stage) { s.Store().Hibernate(false) }},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, 3, func(s *stage) {
				down := calledDestroyed(t, s, asItIs)
				s.Node("n1").FillDisk()
				s.order(destroyedOrders["restore"])
				s.until(10*time.Minute, func() bool { return s.Store().Identity().Incarnation.State == cke.Restoring })
				s.Node("n1").PowerOff()
				meanwhile.starts(s)
				s.pass(time.Minute)
				s.serveLate(t, down)
				for _, n := range down {
					s.Cut(sim.Management, n.Name())
				}
				meanwhile.ends(s)
				s.Node("n1").FreeDisk()
				s.Node("n1").PowerOn()
				s.pass(30 * time.Minute)
				if s.restored() {
					t.Error("restored beside members that were seen")
				}
				s.unbroken(t)
			})
		})
	}
}

// A restored member ran once, and could not serve: it is not started beside members that are back, neither as it was nor as another
// revision declares it.
func TestDestroyed_AMemberThatNeverServedIsNotStartedBesideThem(t *testing.T) {
	for name, changed := range map[string]bool{"as it was": false, "with other options": true} {
		t.Run(name, func(t *testing.T) {
			play(t, 3, func(s *stage) {
				down := calledDestroyed(t, s, refuseKey)
				s.order(destroyedOrders["restore"])
				s.onceStarted(t, func() { s.Node("n1").TakePort(cke.DefaultPeerPort) })
				s.serveLate(t, down)
				if changed {
					c := s.Store().Spec().Cluster
					c.Options.Etcd.ExtraArgs = []string{"--heartbeat-interval=101"}
					s.Store().SetSpec(c)
				}
				s.Node("n1").ReleasePort(cke.DefaultPeerPort)
				s.pass(30 * time.Minute)
				for _, n := range down {
					n.FilterClientPort(true)
				}
				s.pass(30 * time.Minute)
				if s.restored() {
					t.Error("restored beside members that were seen")
				}
				s.unbroken(t)
			})
		})
	}
}

// They are seen while the order waits for the end of a pause: the order is refused, and nothing is restored beside them once they are cut off.
func TestDestroyed_WhatIsSeenWhileTheOrderWaitsCounts(t *testing.T) {
	for name, o := range destroyedOrders {
		t.Run(name, func(t *testing.T) {
			play(t, 3, func(s *stage) {
				down := calledDestroyed(t, s, asItIs)
				s.Store().Ask("pause", func(r *cke.Requests) { r.Hold = &cke.Hold{Reason: "an observation"} })
				s.pass(time.Minute)
				s.order(o)
				s.pass(time.Minute)
				s.serveLate(t, down)
				for _, n := range down {
					s.Cut(sim.Management, n.Name())
					s.Cut("n1", n.Name())
				}
				s.pass(3 * time.Minute)
				s.Store().Ask("resume", func(r *cke.Requests) { r.Hold = nil })
				s.pass(20 * time.Minute)
				refused := slices.ContainsFunc(s.Store().Records(), func(r cke.Record) bool { return r.Operation == "restore" && r.Code == cke.CodeFence })
				if !refused || s.Store().Identity().Incarnation.State != cke.Formed || !s.Write("n2", "later") {
					t.Errorf("refused %v: %v", refused, s.World)
				}
				s.unbroken(t)
			})
		})
	}
}

// A deletion is not sealed while those that it calls destroyed are a quorum of the cluster and one of them answers: right after the others
// were stopped it may have no leader, and gets one.
func TestDestroyed_ADeletionIsNotSealedBetweenTwoLeaders(t *testing.T) {
	play(t, 5, func(s *stage) {
		s.daemon()
		if !s.until(convergence, s.settled) {
			t.Fatal("no cluster")
		}
		for _, n := range s.Nodes()[2:] {
			n.RefuseKey(true)
		}
		for _, n := range s.Nodes()[3:] {
			n.FilterClientPort(true)
		}
		s.pass(time.Minute)
		s.destroy("n3", "n4", "n5")
		s.Store().RequestDelete()
		for range 20 {
			s.pass(time.Second)
			s.Write("n3", "after the deletion") // the world is checked when something happens
		}
		s.unbroken(t)
	})
}

// A deletion that replaces a restore counts the members that answer of what that was to replace.
func TestDestroyed_ADeletionCountsTheMembersBeforeARestore(t *testing.T) {
	play(t, 3, func(s *stage) {
		down := calledDestroyed(t, s, refuseKey)
		s.Node("n1").FillDisk()
		s.order(destroyedOrders["restore"])
		s.until(10*time.Minute, func() bool { return s.Store().Identity().Incarnation.State == cke.Restoring })
		s.Node("n1").PowerOff()
		s.pass(time.Minute)
		s.serveLate(t, down)
		s.destroy("n2", "n3")
		s.Store().RequestDelete()
		s.pass(time.Minute)
		reported := slices.ContainsFunc(s.told().Problems, func(p cke.Problem) bool { return p.Code == cke.CodeFence && p.Node == "n2" })
		if !reported || s.Store().Deleted() {
			t.Errorf("deleted %v: %+v", s.Store().Deleted(), s.told().Problems)
		}
		s.unbroken(t)
	})
}
