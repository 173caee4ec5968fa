package sim_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// Foreign voters joined while cke was away, and n1 runs and does not answer once cke is back.
func TestDeleteOutsiders_WhatJoinedWhileCkeWasAwayCounts(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.backedUpAlone(t)
		s.latest().Kill()
		s.joinedUnseen(t)
		s.Store().RequestDelete()
		s.daemon()
		s.pass(20 * time.Minute)
		s.Write("n2", "to the former")
		s.unbroken(t)
	})
}

// The engine of n1 is slow. Foreign voters join after the deletion was decided, and the daemon reads that long before n1 is stopped.
func TestDeleteOutsiders_ADeletionThatRunsCountsWhatIsReadMeanwhile(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.Store().SetSpec(s.held("n1"))
		s.daemon()
		s.must("formed", s.settled)
		s.latest().Kill()
		s.loop()
		s.pass(time.Minute)
		joined := false
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			operation, step := s.Store().Running()
			if operation == "delete-cluster" && step == "stop" && !joined {
				joined = true
				s.Node("n1").SlowDown(10 * time.Second)
				s.joinsOn(t, "n2", "n3", "n4")
			}
			if operation == "delete-cluster" && c.Port == "node" && c.Node == "n1" {
				t.Logf("%s %s: the stored status lists %d members", step, c.Name, len(s.Store().Status().Etcd.Members))
			}
			return sim.Proceed
		}
		s.Store().RequestDelete()
		s.pass(20 * time.Minute)
		s.unbroken(t)
	})
}

// A foreign voter, in no container, has the URLs of a container of cke on its node that was stopped.
func TestDeleteOutsiders_ADeletionCountsAForeignVoterBesideAStoppedContainer(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.keptOn("n1", "n2")
		s.Store().Ask("pause", func(r *cke.Requests) { r.Hold = &cke.Hold{Reason: "a moment"} })
		s.pass(time.Minute)
		s.leaves(t, "n2")
		s.pass(10 * time.Second)
		if !s.Node("n2").JoinAs("hand-n2", "10.0.0.2") {
			t.Error("cannot join")
		}
		s.joinsOn(t, "n3")
		s.pass(time.Minute)
		s.Store().RequestDelete()
		s.pass(20 * time.Minute)
		s.pass(5 * time.Minute)
		s.Write("n3", "to the former")
		s.unbroken(t)
		if s.Store().Deleted() {
			t.Errorf("deleted while foreign voters serve: %v", s.World)
		}
	})
}

// All members run and hang. The status names the way out, and the deletion continues once the operator has stopped them.
func TestDeleteOutsiders_MembersThatHangAreStoppedByTheOperator(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.Store().SetSpec(s.held("n1", "n2", "n3"))
		s.daemon()
		s.must("formed", s.settled)
		s.eachNode(func(n *sim.Node) { n.FilterClientPort(true) })
		s.pass(time.Minute)
		s.Store().RequestDelete()
		s.pass(20 * time.Minute)
		named := slices.ContainsFunc(s.told().Problems, func(p cke.Problem) bool {
			return p.Code == cke.CodeFence && strings.HasPrefix(p.Remedy, "docker stop etcd-cke.")
		})
		if s.Store().Deleted() || !named {
			t.Errorf("deleted %v: %+v", s.Store().Deleted(), s.told().Problems)
		}
		s.eachNode((*sim.Node).StopByHand)
		if !s.until(20*time.Minute, func() bool { return s.Store().Deleted() }) {
			t.Errorf("not deleted: %+v", s.told().Problems)
		}
		s.unbroken(t)
	})
}

// N1 is cut off from the others and has an old list, which says that foreign voters are no quorum. N2, which has the new one, hangs.
func TestDeleteOutsiders_AnOldListIsNotTakenForThatOfAMemberThatHangs(t *testing.T) {
	play(t, 5, func(s *stage) {
		s.keptOn("n1", "n2")
		s.latest().Kill()
		s.joinsOn(t, "n3")
		time.Sleep(time.Minute)
		for _, n := range s.Nodes()[1:] {
			s.Cut("n1", n.Name())
		}
		time.Sleep(time.Minute)
		s.joinsOn(t, "n4", "n5")
		s.Node("n2").FilterClientPort(true)
		s.Store().RequestDelete()
		s.daemon()
		s.pass(20 * time.Minute)
		s.Write("n5", "to the former")
		s.unbroken(t)
	})
}
