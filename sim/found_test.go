package sim_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// These are the shortest stories of what random schedules found.

// must waits until something is so.
func (s *stage) must(what string, is func() bool) {
	s.t.Helper()
	if !s.until(convergence, func() bool { s.succeed(); return is() }) {
		dec, _ := s.latest().now()
		s.t.Fatalf("not %s: %s\n%v\n%s", what, describeDecision(s.latest().Number(), dec), s.faults(s.declared()...), s.World)
	}
}

// A machine with a new address is not yet told to etcd while another one is down: the node of that address is not taken
// for one without a member.
func TestFound_AMachineThatMovedGetsNoSecondMember(t *testing.T) {
	inFormed(t, 4, func(s *stage) {
		s.Node("n3").PowerOff()
		s.Node("n4").Readdress("10.0.1.4")
		s.declare(s.Nodes()...)
		s.pass(time.Minute)
		if id := s.Store().Identity(); len(id.Joins) != 4 || len(id.Ended) != 0 {
			t.Fatalf("%+v", id)
		}
		s.Node("n3").PowerOn()
		s.must("moved", s.changed)
	})
}

// A learner that is on its way keeps the move of another machine waiting, not the other way round.
func TestFound_AMoveDoesNotKeepALearnerWaiting(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.declare(s.Nodes()[:3]...)
		s.daemon()
		s.must("formed", s.settled)
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if c.Name == "AddLearner" {
				s.Judge = nil
				s.Node("n3").Readdress("10.0.1.3")
				s.declare(s.Nodes()...)
				return sim.KillAfter
			}
			return sim.Proceed
		}
		s.declare(s.Nodes()...)
		s.must("as declared", s.changed)
	})
}

// A stranger stands on a node that is to carry a member: the node cannot take one before the stranger is removed.
func TestFound_AStrangerMakesRoomForAMember(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.declare(s.Nodes()[:3]...)
		s.daemon()
		s.must("formed", s.settled)
		s.Node("n4").Join("hand", true)
		c := s.cluster(s.Nodes())
		c.Policies.Foreign = cke.ForeignRemove
		s.Store().SetSpec(c)
		s.must("free of strangers", func() bool { return s.ForeignMembers() == 0 })
		s.Node("n4").Remove("hand")
		s.must("as declared", s.changed)
	})
}

// etcd hashes no learner's data: a comparison that is asked for meanwhile leaves it out.
func TestFound_AComparisonLeavesLearnersOut(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.declare(s.Nodes()[:3]...)
		s.daemon()
		s.must("formed", s.settled)
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if c.Name == "AddLearner" {
				s.Judge = nil
				s.ask(cke.TaskCompare, "", "", "")
			}
			return sim.Proceed
		}
		s.declare(s.Nodes()...)
		s.must("as declared", func() bool { return s.changed() && s.answered() })
		if s.failed() {
			t.Error(s.Store().Records())
		}
	})
}

// A person starts the container of a learner that is being added, and its disk is lost before the daemon knows that it
// ever ran: it does not start empty under its id.
func TestFound_ALearnerThatAPersonStartedDoesNotStartEmpty(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.declare(s.Nodes()[:3]...)
		s.daemon()
		s.must("formed", s.settled)
		n4 := s.Node("n4")
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if c.Name == "PutFiles" {
				s.Judge = nil
				return sim.KillAfter
			}
			return sim.Proceed
		}
		s.declare(s.Nodes()...)
		s.until(convergence, func() bool { return s.latest().Dead() })
		n4.StartByHand()
		n4.Blank()
		s.must("as declared", s.changed)
	})
}

// Answers of the followers are lost when leadership is to be moved: the leader is not stopped as if there were none.
func TestFound_LeadershipIsMovedThoughAnswersAreLost(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		leader, lost, begun := s.leading(), 0, false
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if c.Name == "EnsureImage" && c.Node == leader && !begun {
				begun, lost = true, 2
			}
			if c.Name == "Endpoint" && c.Node != leader && lost > 0 {
				lost--
				return sim.Refuse
			}
			return sim.Proceed
		}
		s.Store().SetSpec(s.want([]int{1, 2, 3}, true))
		s.must("as declared", s.changed)
	})
}

// A person starts the container of a learner that is being added: once it votes it is a member as any other, which is
// started when it stops.
func TestFound_ALearnerThatAPersonStartedBecomesAMemberAsAnyOther(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.declare(s.Nodes()[:3]...)
		s.daemon()
		s.must("formed", s.settled)
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if c.Name == "PutFiles" {
				s.Judge = nil
				return sim.KillAfter
			}
			return sim.Proceed
		}
		s.declare(s.Nodes()...)
		s.until(convergence, func() bool { return s.latest().Dead() })
		s.Node("n4").StartByHand()
		s.must("as declared", s.changed)
		s.Node("n4").StopByHand()
		s.must("started again", s.changed)
	})
}

// The clock of the daemon's host jumps ahead right before a founder's certificate is issued, and is set right before it is
// compared: the certificate does not hold for months, so none of the others believes that founder, and the founding would
// wait for it as long.
func TestFound_AFounderWhoseCertificateHoldsLaterIsNotWaitedFor(t *testing.T) {
	play(t, 3, func(s *stage) {
		issued := 0
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			switch {
			case issued == 3:
				s.Judge = nil
				s.SetClock()
			case c.Name == "MemberFiles":
				if issued++; issued == 3 {
					s.JumpClock(4000 * time.Hour)
				}
			}
			return sim.Proceed
		}
		s.daemon()
		s.must("formed", s.settled)
		if len(s.Store().Identity().Incarnation.Previous) == 0 {
			t.Error("no founding was given up")
		}
		s.isUnharmed(t)
	})
}

// A member is replaced while another one is behind, which still lists it: the new one is not told that it is that one.
func TestFound_ANewMemberIsNotTheOneBeforeIt(t *testing.T) {
	inFormed(t, 4, func(s *stage) {
		s.replacedBesideOneBehind("n1", "n2")
		s.must("replaced", func() bool { return s.answered() && s.changed() })
		s.isUnharmed(t)
	})
}

// As before, but the voter that is behind is one that a person added manually.
func TestFound_ANewMemberIsNotToldTheFormerIDByAStranger(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.declare(s.Nodes()[1:]...)
		s.daemon()
		s.must("formed", s.settled)
		if !s.Node("n1").Join("hand", true) {
			t.Fatal("not joined")
		}
		s.pass(time.Minute)
		s.replacedBesideOneBehind("n2", "n1")
		s.must("answered", s.answered)
		s.isUnharmed(t)
	})
}

// replacedBesideOneBehind lets a member be replaced, while that of another node hears of nothing from the removal on.
func (s *stage) replacedBesideOneBehind(replaced, behind string) {
	s.ask(cke.TaskReplace, replaced, string(s.join(replaced).ID), "")
	s.once(sim.Proceed, func(c sim.Call) bool {
		if c.Name == "RemoveMember" {
			s.Node(behind).Trickle(true)
		}
		return c.Name == "RemoveMember"
	})
	s.until(10*time.Minute, func() bool { return false })
	s.Node(behind).Trickle(false)
}

// The file goes back to a minor version that the cluster has left while the only member is down for another reason: the
// other options in it are applied, and the version that is known to run is kept, so that it comes up again by itself.
func TestFound_AVersionThatTheClusterHasLeftIsNotTried(t *testing.T) {
	inFormed(t, 1, func(s *stage) {
		n1 := s.Node("n1")
		n1.AddForeignEtcd("etcd", cke.DefaultClientPort)
		n1.KillEtcd()
		c := s.cluster(s.Nodes())
		c.Options.Etcd.Version, c.Options.Etcd.ExtraEnv = "3.5.35", map[string]string{"GOMAXPROCS": "2"}
		s.Store().SetSpec(c)
		s.pass(time.Minute)
		n1.Remove("etcd")
		s.must("served", func() bool { return s.Serving() == 1 })
		if j := s.join("n1"); j.Etcd.Version != cke.DefaultEtcdVersion || j.Etcd.ExtraEnv == nil {
			t.Errorf("%+v", j.Etcd)
		}
		c.Options.Etcd.Version = "3.7.3"
		s.Store().SetSpec(c)
		s.must("as declared", s.changed)
		s.isUnharmed(t)
	})
}

// A voter that a person added stands on a machine that got another address, and the data of another one is lost: no quorum.
// The voter that no membership names counts as long as no later list is read, also once nobody answers.
func TestFound_AVoterThatCkeDoesNotKnowIsNotForgotten(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		s.AddNode("n4", "10.0.0.4")
		s.Node("n4").Join("hand", true)
		s.pass(time.Minute)
		s.Node("n4").Readdress("10.0.1.4")
		s.Node("n3").Blank()
		says := func(what string) func() bool {
			return func() bool {
				dec, _ := s.latest().now()
				return strings.Contains(dec.Reason, what) && strings.Contains(dec.Reason, "hand at https")
			}
		}
		s.must("told of", says("etcd lists foreign members"))
		s.Node("n1").PowerOff()
		s.Node("n2").PowerOff()
		s.pass(5 * time.Minute)
		s.must("told of when nobody answers", says("at least 2 of the 4"))
		s.Node("n1").PowerOn()
		s.Node("n2").PowerOn()
		s.Node("n4").Readdress("10.0.0.4")
		s.Node("n4").StartByHand()
		s.must("in quorum again", func() bool { _, st := s.latest().now(); return st.Tolerance >= 0 })
		s.isUnharmed(t)
	})
}

// A cluster is to be deleted, and its store was brought back from a copy that lacks members: the operator puts them on record,
// and they are stopped with the others. Those that are stopped already keep nobody waiting.
func TestFound_ADeletionByAnOlderStoreCanBeFinished(t *testing.T) {
	for name, stopped := range map[string]bool{"members that run": false, "members that were stopped": true} {
		t.Run(name, func(t *testing.T) {
			inFormed(t, 3, func(s *stage) {
				copied := s.Store().Copy()
				s.replaceAll(t, "n2", "n3")
				if stopped {
					for _, n := range s.Nodes()[1:] {
						n.StopByHand()
						n.SwitchRestartsOff()
					}
				}
				s.broughtBack(copied)
				s.Store().RequestDelete()
				s.pass(time.Minute)
				if !s.frozenFor(cke.FreezeOlderStore) || s.Store().Deleted() {
					t.Fatal("a deletion that may have been withdrawn since the copy was made is not held")
				}
				s.Store().CancelDelete() // it is confirmed: asked for again
				s.Store().RequestDelete()
				if !stopped {
					s.pass(time.Minute)
					if s.Store().Deleted() {
						t.Fatal("deleted, and members that are not on record run on")
					}
					s.reclaim(t)
				}
				if !s.until(convergence, func() bool { return s.Store().Deleted() }) {
					dec, _ := s.latest().now()
					t.Fatal(describeDecision(s.latest().Number(), dec))
				}
				s.pass(time.Minute)
				for _, n := range s.Nodes() {
					if containers, _ := n.Look(); slices.ContainsFunc(containers, func(c cke.Container) bool { return c.Running() }) {
						t.Errorf("%s carries a container that runs", n.Name())
					}
				}
			})
		})
	}
}

// Two answers in a row of a leader are lost: others tell that it leads, and it hands over before it is held up.
func TestFound_ALeaderWhoseAnswersAreLostHandsOver(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		leader, lost := s.leading(), 0
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if operation, step := s.Store().Running(); operation == "defragment" && step == "move-leader" && c.Name == "Endpoint" && c.Node == leader && lost < 2 {
				lost++
				return sim.LoseAnswer
			}
			return sim.Proceed
		}
		s.ask(cke.TaskDefragment, leader, "", "")
		s.must("defragmented", s.answered)
		s.pass(time.Minute)
		if lost != 2 || s.leading() == leader {
			t.Errorf("%d answers were lost, and %s leads", lost, s.leading())
		}
	})
}

// The store goes back while a member is moved to other ports, after etcd was told of them: who the member is does not depend on its URL.
func TestFound_AReclaimOfAMemberWhoseMoveWasCutOff(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		copied := s.Store().Copy()
		s.replaceAll(t, "n1", "n2", "n3")
		s.portsOf(3379, 3380)
		file := s.Store().Spec().Cluster
		s.once(sim.KillAfter, func(c sim.Call) bool { return c.Name == "UpdateMember" })
		if !s.until(convergence, func() bool { return s.Judge == nil }) {
			t.Fatal("nobody is moved")
		}
		s.broughtBack(copied)
		s.freezesAndServes(t)
		s.Store().SetSpec(file)
		s.pass(time.Minute)
		s.reclaims(t)
		s.isUnharmed(t)
		s.must("as declared", s.changed)
	})
}
