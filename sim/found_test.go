package sim_test

import (
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
		s.must("free of strangers", func() bool { return s.Strangers() == 0 })
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
