package sim_test

import (
	"strings"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// inFormed plays a scene with a formed cluster of n members that holds acknowledged writes.
func inFormed(t *testing.T, nodes int, scene func(s *stage)) {
	t.Helper()
	play(t, nodes, func(s *stage) {
		s.daemon()
		if !s.until(convergence, s.settled) {
			t.Fatal("does not form")
		}
		for _, n := range s.Nodes() {
			if !s.Write(n.Name(), "written through "+n.Name()) {
				t.Fatal("not written")
			}
		}
		scene(s)
		if v := s.Violations(); v != nil {
			t.Error(strings.Join(v, "\n"))
		}
	})
}

// comesBack waits until all is as wanted and the identity is what it was.
func (s *stage) comesBack(t *testing.T, before cke.Identity) {
	t.Helper()
	rounds := s.latest().count()
	if !s.until(convergence, func() bool {
		return s.latest().count() > rounds && s.settled() && s.faults(s.everyNode()...) == nil
	}) {
		dec, _ := s.latest().now()
		t.Fatal(describeDecision(s.latest().Number(), dec), strings.Join(s.faults(s.everyNode()...), "\n"))
	}
	if after := s.Store().Identity(); after.Incarnation.ID != before.Incarnation.ID || after.Incarnation.ClusterID != before.Incarnation.ClusterID {
		t.Errorf("%+v", after.Incarnation)
	}
	if !s.Write("n1", "after") {
		t.Error("no write is taken")
	}
}

// A manager that looks at nodes alone would found a second, empty cluster here.
// Requirements A17, C2, I16: nothing reachable is no reason to found another one.
func TestFormed_IsNeverFoundedAgainOnBlankNodes(t *testing.T) {
	for _, nodes := range []int{1, 3, 5} {
		inFormed(t, nodes, func(s *stage) {
			before := s.Store().Identity()
			for _, n := range s.Nodes() {
				n.Blank()
			}
			s.pass(5 * time.Minute)
			s.latest().Kill()
			s.daemon()
			s.pass(5 * time.Minute)
			dec, status := s.latest().now()
			if dec.Operation != nil || len(dec.Blockers) != 1 || dec.Blockers[0].Code != cke.CodeBlankNodes || !strings.Contains(dec.Reason, "a second cluster is never bootstrapped") {
				t.Error(describeDecision(2, dec))
			}
			if c, _ := status.Condition(cke.CondReady); status.Health != cke.HealthLost || c.Status != cke.False || c.Reason != "BlankNodes" {
				t.Errorf("%s %+v", status.Health, c)
			}
			if s.carried() != emptyNodes(nodes) || s.Store().Identity().Incarnation.ID != before.Incarnation.ID {
				t.Errorf("something was made:\n%s", s.carried())
			}
		})
	}
}

func emptyNodes(n int) string {
	all := ""
	for i := 1; i <= n; i++ {
		all += "n" + string(rune('0'+i)) + " [] []\n"
	}
	return all
}

func TestFormed_NeverStartsAMemberWhoseVolumeWasTakenAway(t *testing.T) {
	for name, lose := range map[string]func(*sim.Node){
		"removed": (*sim.Node).RemoveVolumes, "emptied": (*sim.Node).EmptyVolumes, "blank machine": (*sim.Node).Blank,
	} {
		inFormed(t, 3, func(s *stage) {
			lose(s.Node("n2"))
			s.pass(5 * time.Minute)
			dec, status := s.latest().now()
			if dec.Operation != nil || !named(dec.Blockers, "n2", cke.CodeDataMissing) {
				t.Errorf("%s: %s", name, describeDecision(1, dec))
			}
			if c, _ := status.Condition(cke.CondDataVolumesReady); c.Status != cke.False || status.Health != cke.HealthDegraded {
				t.Errorf("%s: %s %+v", name, status.Health, c)
			}
			if s.Node("n2").Holds(s.Store().Identity().Joins[1].Volume) {
				t.Errorf("%s: a member was made from nothing", name)
			}
			if !s.Write("n1", "more") {
				t.Errorf("%s: the other two take no write", name)
			}
		})
	}
}

// Whatever ends etcd, all come back at once, with their ids and their writes.
func TestFormed_ComesBackFromTheLossOfAllMembers(t *testing.T) {
	for name, strike := range map[string]func(*sim.Node){
		"killed": (*sim.Node).KillEtcd, "power loss": (*sim.Node).Reboot, "docker stop": (*sim.Node).StopByHand, "docker rm": (*sim.Node).RemoveContainers,
	} {
		for _, nodes := range []int{1, 3, 5} {
			inFormed(t, nodes, func(s *stage) {
				before := s.Store().Identity()
				for _, n := range s.Nodes() {
					strike(n)
				}
				s.comesBack(t, before)
				for _, r := range s.Store().Records() {
					if r.Operation == "start-members" && len(r.Targets) != nodes {
						t.Errorf("%s: started %v, not all at once", name, r.Targets)
					}
				}
			})
		}
	}
}

// What the engine starts by itself is left to it.
func TestFormed_DoesNotRaceTheEngine(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		before := s.Store().Identity()
		for range 5 {
			s.Node("n2").KillEtcd()
			s.pass(50 * time.Millisecond)
			s.Node("n3").Reboot()
			s.pass(time.Minute)
		}
		s.comesBack(t, before)
		for _, r := range s.Store().Records() {
			if r.Operation == "start-members" {
				t.Errorf("%s: %s", r.Operation, r.Reason)
			}
		}
	})
}

// Requirement D7. Of a membership that ended while its node was off, a container is left that its engine starts.
func TestFormed_IsDeletedOnlyWhenEveryMemberIsKnownToBeStopped(t *testing.T) {
	for _, ended := range []bool{false, true} {
		inFormed(t, 3, func(s *stage) {
			s.Node("n3").PowerOff()
			if was := s.join("n3"); ended {
				s.ask(cke.TaskReplace, "n3", string(was.ID), "")
				s.must("ended", func() bool { _, lasts := s.Store().Identity().Join(was.ID); return !lasts })
			}
			s.Store().RequestDelete()
			s.pass(10 * time.Minute)
			dec, status := s.latest().now()
			if s.Store().Deleted() || dec.Operation != nil || !named(dec.Blockers, "n3", cke.CodeUnreachable) || status.Health != cke.HealthDeleting {
				t.Fatal(describeDecision(1, dec))
			}
			s.Node("n3").PowerOn()
			if !s.until(convergence, s.Store().Deleted) {
				t.Fatal("not deleted")
			}
			s.pass(time.Minute)
			for _, n := range s.Nodes() {
				n.Reboot()
			}
			s.pass(time.Minute)
			for _, n := range s.Nodes() {
				if containers, volumes := n.Look(); len(containers) != 0 || len(volumes) != 1 {
					t.Errorf("%s: %v %v", n.Name(), containers, volumes)
				}
			}
		})
	}
}

func TestFormed_IsDeletedFromEveryCrashPoint(t *testing.T) {
	t.Parallel()
	for k := range points(40, 4, 1) {
		for _, v := range []sim.Verdict{sim.KillBefore, sim.KillHalfway, sim.KillAfter, sim.KillLate, sim.Linger, sim.LoseAnswer, sim.Freeze} {
			inFormed(t, 3, func(s *stage) {
				s.Store().RequestDelete()
				begin := s.Calls()
				s.Judge = func(n int, _ sim.Call) sim.Verdict {
					if n == begin+k+20 {
						s.Land()
					}
					if n == begin+k {
						return v
					}
					return sim.Proceed
				}
				if !s.until(convergence, func() bool {
					if d := s.latest(); (d.Dead() || d.Frozen()) && !s.Store().Deleted() {
						s.daemon()
					}
					return s.Store().Deleted()
				}) {
					t.Fatalf("%v at call %d: not deleted", v, k)
				}
				s.Land()
				for _, d := range s.drivers {
					d.Wake()
				}
				s.pass(time.Minute)
				for _, n := range s.Nodes() {
					n.Reboot()
					if containers, volumes := n.Look(); len(containers) != 0 || len(volumes) != 1 {
						t.Errorf("%v at call %d: %s: %v %v", v, k, n.Name(), containers, volumes)
					}
				}
			})
		}
	}
}

// A deletion can be canceled until the record of the cluster is gone, whatever was stopped or removed before, and whoever led
// then: the cluster is deleted, or serves again with all that it acknowledged.
func TestFormed_ADeletionIsCanceledAtEveryPoint(t *testing.T) {
	t.Parallel()
	canceled := 0
	for k := range points(40, 4, 1) {
		for _, v := range []sim.Verdict{sim.Proceed, sim.KillBefore, sim.KillHalfway, sim.KillAfter, sim.KillLate, sim.Linger, sim.LoseAnswer, sim.Freeze} {
			inFormed(t, 3, func(s *stage) {
				before := s.Store().Identity()
				s.Store().RequestDelete()
				begin := s.Calls()
				s.Judge = func(n int, _ sim.Call) sim.Verdict {
					switch n {
					case begin + k + 20:
						s.Land()
					case begin + k:
						if !s.Store().Deleted() {
							s.Store().CancelDelete()
						}
						return v
					}
					return sim.Proceed
				}
				again := func() {
					if d := s.latest(); (d.Dead() || d.Frozen()) && !s.Store().Deleted() {
						s.daemon()
					}
				}
				if !s.until(convergence, func() bool {
					again()
					return s.Store().Deleted() || s.Calls() > begin+k+20
				}) {
					t.Fatalf("%v at call %d: nothing happens", v, k)
				}
				s.Land()
				for _, d := range s.drivers {
					d.Wake()
				}
				if s.Store().Deleted() {
					return
				}
				canceled++
				again()
				s.comesBack(t, before)
			})
		}
	}
	if canceled == 0 {
		t.Error("never canceled in time")
	}
}

// The same while the cluster is bootstrapped, and while it grows.
func TestForming_ADeletionIsCanceledAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, first := range []int{3, 4} {
		for ask := range points(80, 10, 3) {
			for _, later := range []int{6, 15, 25} {
				play(t, 4, func(s *stage) {
					s.declare(s.Nodes()[:first]...)
					s.daemon()
					begin := s.Calls()
					if first == 3 {
						s.must("formed", s.settled)
						begin = s.Calls()
						s.declare(s.Nodes()...)
					}
					s.Judge = func(n int, _ sim.Call) sim.Verdict {
						switch {
						case n == begin+ask:
							s.Store().RequestDelete()
						case n == begin+ask+later && !s.Store().Deleted():
							s.Store().CancelDelete()
						}
						return sim.Proceed
					}
					if !s.until(convergence, func() bool {
						return s.Store().Deleted() || s.Calls() > begin+ask+later && s.settled() && s.faults(s.everyNode()...) == nil
					}) {
						dec, _ := s.latest().now()
						t.Errorf("%d at first, asked at call %d, canceled %d later: %s\n%v", first, ask, later, describeDecision(1, dec), s.faults(s.everyNode()...))
					}
					s.isUnharmed(t)
				})
			}
		}
	}
}

// Abandoned foundings leave nothing, also on a node that comes back much later.
func TestAbandoned_IsRemovedFromANodeThatReturnsLater(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.declare(s.Nodes()[:3]...)
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if c.Name == "KeepRunning" && c.Node == "n1" {
				s.Node("n3").PowerOff()
			}
			return sim.Proceed
		}
		s.daemon()
		s.pass(time.Minute)
		s.Judge = nil
		if dec, _ := s.latest().now(); !named(dec.Blockers, "n3", cke.CodeUnreachable) || !strings.Contains(dec.Reason, "removed from the cluster file") {
			t.Fatal(describeDecision(1, dec))
		}
		s.declare(s.Node("n1"), s.Node("n2"), s.Node("n4"))
		if !s.until(convergence, s.settled) {
			dec, _ := s.latest().now()
			t.Fatal(describeDecision(1, dec))
		}
		s.Node("n3").PowerOn()
		s.pass(time.Minute)
		if faults := s.Violations(); faults != nil {
			t.Error(faults)
		}
		want := s.cluster([]*sim.Node{s.Node("n1"), s.Node("n2"), s.Node("n4")})
		spare := s.Node("n3").Declared()
		spare.ControlPlane = false
		want.Nodes = append(want.Nodes, spare)
		s.Store().SetSpec(want)
		if !s.until(convergence, func() bool { return s.settled() && s.faults("n1", "n2", "n4") == nil }) {
			t.Error(strings.Join(s.faults("n1", "n2", "n4"), "\n"))
		}
	})
}
