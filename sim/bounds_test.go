package sim_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/server/strategy"
	"cke/sim"
)

// Nothing is wanted without end, and nothing grows without a bound: stories of hours and of a month.

// An engine that discards a limit costs each member one restart, and is named as a problem from then on.
func TestBounds_AnEngineThatDiscardsALimitIsAProblem(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		s.leap = true
		for _, n := range s.Nodes() {
			n.DiscardLimits(true)
		}
		c := s.Store().Spec().Cluster
		c.Options.Etcd.Resources.Memory = 8 << 30
		s.Store().SetSpec(c)
		s.pass(24 * time.Hour)
		if restarts := s.operations()["restart-member"]; restarts != 3 {
			t.Errorf("%d restarts", restarts)
		}
		for _, n := range []string{"n1", "n2", "n3"} {
			if !s.hasProblem(cke.CodeDiscarded, n) {
				t.Errorf("%s: not told: %+v", n, s.told().Problems)
			}
		}
		for _, n := range s.Nodes() { // its kernel learns to limit memory: the next start applies the limit
			n.DiscardLimits(false)
			n.StopByHand()
			s.must("serving again", func() bool { return s.told().Ready == 3 && !s.hasProblem(cke.CodeDiscarded, n.Name()) })
		}
		s.must("as declared", s.changed)
		s.isUnharmed(t)
	})
}

func (s *stage) hasProblem(code cke.Code, node string) bool {
	for _, p := range s.told().Problems {
		if p.Code == code && p.Node == node {
			return true
		}
	}
	return false
}

// What undoes an operation again and again, as another tool on a node may, is met by pauses that grow, and told.
func TestBounds_WhatIsUndoneAgainAndAgainIsHeldBack(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		end := s.Now().Add(4 * time.Hour)
		told := false
		for s.Now().Before(end) {
			s.Node("n2").SetLimits(0, 1<<30)
			s.pass(20 * time.Second)
			told = told || s.hasProblem(cke.CodeRepeats, "n2")
		}
		if restarts := s.operations()["restart-member"]; restarts > 25 || !told {
			t.Errorf("%d restarts in four hours, told %v", restarts, told)
		}
		s.isUnharmed(t)
	})
}

// A learner that cannot receive anything leaves neither volumes nor records without end, and a firewall that is opened, or a
// file that is set again, lets the next one vote.
func TestBounds_LearnersThatNeverVoteLeaveNothing(t *testing.T) {
	for name, disturb := range map[string]struct{ begin, end func(s *stage) }{
		"cut off": {func(s *stage) {
			for _, n := range []string{"n1", "n2", "n3"} {
				s.Cut("n4", n)
				s.Cut(n, "n4")
			}
		}, func(s *stage) { s.HealNetwork() }},
		"its port is taken": {func(s *stage) { s.Node("n4").TakePort(2380) }, func(s *stage) { s.Node("n4").ReleasePort(2380) }},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, 4, func(s *stage) {
				all := s.Nodes()
				s.declare(all[:3]...)
				s.daemon()
				s.must("formed", s.settled)
				disturb.begin(s)
				c := s.cluster(all)
				c.Policies.Volumes.OnRemoval = cke.VolumeRetain
				s.Store().SetSpec(c)
				s.leap = true
				s.pass(48 * time.Hour)
				s.leap = false
				_, volumes := s.Node("n4").Look()
				ended := s.Store().Identity().Ended
				if len(volumes) > 2 || len(ended) > 60 {
					t.Errorf("%d volumes, %d ended memberships", len(volumes), len(ended))
				}
				if name == "cut off" && !s.hasProblem(cke.CodeLearnersFail, "n4") {
					t.Errorf("not told: %+v", s.told().Problems)
				}
				disturb.end(s)
				if name == "cut off" { // an operator who has opened the firewall asks for another one at once
					last := slices.MaxFunc(ended, func(a, b cke.Join) int { return a.EndedAt.Compare(b.EndedAt) })
					s.ask(cke.TaskReplace, "n4", string(last.ID), "")
				} else {
					s.Store().SetSpec(c)
				}
				if !s.until(20*time.Minute, s.changed) {
					dec, _ := s.latest().now()
					t.Errorf("not as declared: %s\n%v", describeDecision(s.latest().Number(), dec), s.faults(s.declared()...))
				}
				s.isUnharmed(t)
			})
		})
	}
}

// A deletion waits for a machine that is silent, says how to go on, and ends once the operator has named it destroyed.
func TestBounds_ADeletionWithADestroyedMachineEnds(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		s.Node("n3").PowerOff()
		s.Store().RequestDelete()
		s.pass(time.Hour)
		if dec, _ := s.latest().now(); len(dec.Blockers) != 1 || !strings.Contains(dec.Blockers[0].Remedy, "--destroyed n3") {
			t.Error(describeDecision(s.latest().Number(), dec))
		}
		s.destroy("n3")
		if !s.until(convergence, s.Store().Deleted) {
			t.Error("not deleted")
		}
		s.isUnharmed(t)
	})
}

// A store from before 130 volumes were archived gets them on record again in rounds, each of which a person confirms. No round is held
// back because the one before had not put all on record.
func TestBounds_ManyArchivedVolumesAreReclaimed(t *testing.T) {
	const volumes = 130
	inFormed(t, 3, func(s *stage) {
		inc := s.Store().Identity().Incarnation
		for i := range volumes {
			join := cke.JoinID(fmt.Sprintf("archived%04d", i))
			s.Node(fmt.Sprintf("n%d", 1+i%3)).AddVolume(cke.Volume{Name: fmt.Sprintf("cke-%s-%s", s.Store().Spec().Cluster.Name, join), Cluster: s.Store().Spec().Cluster.Name, Incarnation: inc.ID, Join: join})
		}
		repeats := map[string]bool{}
		passes := func(is func() bool) bool {
			return s.until(time.Minute, func() bool {
				dec, _ := s.latest().now()
				for _, p := range dec.Blockers {
					if p.Code == cke.CodeRepeats { // also what is reported for a moment
						repeats[dec.Reason] = true
					}
				}
				return is()
			})
		}
		ended := func() int { return len(s.Store().Identity().Ended) }
		s.must("frozen", func() bool { return s.frozenFor(cke.FreezeOlderStore) })
		for round := range 4 { // as fast as a person can
			before := ended()
			s.reclaim(t)
			if !passes(func() bool {
				return s.answered() && ended() > before && (ended() == volumes || s.frozenFor(cke.FreezeOlderStore))
			}) {
				dec, _ := s.latest().now()
				t.Fatalf("round %d: %d are on record: %s\n%v", round, before, describeDecision(s.latest().Number(), dec), s.told().Problems)
			}
		}
		passes(func() bool { return false })
		if len(repeats) > 0 {
			t.Errorf("held back: %v", repeats)
		}
		for _, r := range s.Store().Records() {
			if r.State == cke.RecordFailed {
				t.Errorf("%+v", r)
			}
		}
		if ended() != volumes {
			t.Errorf("%d volumes are on record after four rounds", ended())
		}
		s.must("as declared", func() bool { return s.settled() && !s.Store().Identity().Freeze.Active() })
		s.isUnharmed(t)
	})
}

// A month of a cluster's life: members are replaced, the file changes, disks fail and machines restart every few hours. What is
// on record, and what is left on nodes, stays below its bounds.
func TestBounds_AMonth(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.leap = true
		s.replace = cke.ReplaceAuto
		all := s.Nodes()
		s.declare(all[:3]...)
		s.daemon()
		s.must("formed", s.settled)
		for hour := range 30 * 24 {
			n := s.Node(fmt.Sprintf("n%d", 1+hour%3))
			switch hour % 12 {
			case 0:
				n.Reboot()
			case 3:
				n.RemoveVolumes()
			case 6:
				c := s.cluster(all[:3])
				c.Options.Etcd.ExtraArgs = []string{fmt.Sprintf("--heartbeat-interval=%d", 101+hour%2)}
				c.Policies.Volumes.OnRemoval = cke.VolumeArchive
				c.Policies.Volumes.Keep = cke.Duration(72 * time.Hour)
				s.Store().SetSpec(c)
			case 9:
				s.ask(cke.TaskReplace, n.Name(), string(s.join(n.Name()).ID), "")
			}
			s.Write(n.Name(), fmt.Sprintf("w%d", hour))
			s.pass(time.Hour)
		}
		s.must("as declared", s.changed)
		id := s.Store().Identity()
		volumes := 0
		for _, n := range all {
			_, on := n.Look()
			volumes += len(on)
		}
		t.Logf("after a month: %d records, %d ended memberships, %d volumes, %d calls", len(s.Store().Records()), len(id.Ended), volumes, s.Calls())
		if len(id.Ended) > cke.KeptEnded || volumes > 30 {
			t.Errorf("%d ended memberships, %d volumes", len(id.Ended), volumes)
		}
		if v := s.Violations(); v != nil {
			t.Error(strings.Join(v, "\n"))
		}
	})
}

// unbounded is a daemon that remembers neither what completed nor what engines make of limits.
var unbounded = mutation{name: "operations that repeat", blind: func(in *strategy.Input) {
	in.Completed = nil
	in.Identity.Joins = slices.Clone(in.Identity.Joins)
	for i := range in.Identity.Joins {
		in.Identity.Joins[i].Made = nil
	}
}, often: []func(*nemesis, *sim.Node){func(n *nemesis, node *sim.Node) {
	node.DiscardLimits(true)
	n.etcd.Resources = cke.Resources{Memory: 1 << 30}
	c := n.s.Store().Spec().Cluster
	c.Options.Etcd.Resources = n.etcd.Resources
	n.s.Store().SetSpec(c)
}}, wants: []string{"is repeated without end"}}
