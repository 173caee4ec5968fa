package sim_test

import (
	"strings"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// A restore on a new host is canceled once it has stopped its members, and the engine of one does not answer again: the others are a quorum,
// and serve.
func TestNewHost_CancelsThoughOneIsSilent(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.backedUp()
		s.burnt()
		s.order(fromBackup)
		asked := s.offAt("PutJoins", "", func() { s.Node("n3").PowerOff() })
		s.pass(time.Hour)
		if inc := s.Store().Identity().Incarnation; !*asked || inc.State != cke.Awaiting {
			t.Errorf("asked %v, %s: %s", *asked, inc.State, s.told().Summary)
		}
		if !s.Write("n1", "later") {
			t.Error("the members before do not serve")
		}
		s.unbroken(t)
	})
}

// Two of three members end right after they were started again: the restore is canceled once they run.
func TestNewHost_CancelsOnceMembersStay(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.backedUp()
		s.burnt()
		s.order(fromBackup)
		ports := func(do func(*sim.Node, int)) {
			for _, n := range []string{"n2", "n3"} {
				do(s.Node(n), 2379)
			}
		}
		asked := s.offAt("PutJoins", "", func() { ports((*sim.Node).TakePort) })
		s.pass(time.Hour)
		if !*asked || !s.restoring() {
			t.Errorf("asked %v, canceled while one of three members runs: %s", *asked, s.told().Summary)
		}
		if dec, _ := s.latest().now(); len(dec.Blockers) == 0 || !strings.Contains(dec.Blockers[0].Message, "1 of 3 former members started again, and 2 are needed") {
			t.Error(describeDecision(s.latest().Number(), dec))
		}
		ports((*sim.Node).ReleasePort)
		s.pass(10 * time.Minute)
		if s.restoring() || !s.Write("n1", "later") {
			t.Errorf("not canceled: %s", s.told().Summary)
		}
		s.unbroken(t)
	})
}

// The first stop of a restore on a new host is cut off once the engine was to start the member no more, and the restore is canceled: the member
// runs again after a reboot.
func TestNewHost_CancelsAStopThatWasCutOff(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.backedUp()
		s.burnt()
		s.order(fromBackup)
		asked := false
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if c.Name != "StopContainer" || !s.restoring() {
				return sim.Proceed
			}
			if !asked {
				asked = true
				s.Node(c.Node).SwitchRestartsOff()
				s.Store().Ask("cancel the restore", off)
			}
			return sim.Refuse
		}
		s.pass(10 * time.Minute)
		s.Judge = nil
		s.pass(10 * time.Minute)
		if !asked || s.restoring() {
			t.Errorf("asked %v: %s", asked, s.told().Summary)
		}
		for _, n := range s.Nodes() {
			n.Reboot()
		}
		s.pass(time.Minute)
		for _, n := range s.Nodes() {
			if s.runningOn(n.Name()) != 1 {
				t.Errorf("%s: no member runs", n.Name())
			}
		}
		s.unbroken(t)
	})
}

// A machine was off when its cluster was deleted, and comes back once that is declared again on others: its member has no quorum. A restore on a
// new host finds it, stops it with those that serve, and is canceled: what served serves again.
func TestNewHost_CancelsBesideALeftoverOfADeletedCluster(t *testing.T) {
	for _, at := range []struct{ call, node string }{{"StopContainer", "n2"}, {"StopContainer", "n4"}, {"PutJoins", ""}} {
		t.Run(at.call+" "+at.node, func(t *testing.T) {
			play(t, 6, func(s *stage) {
				s.declare(s.Nodes()[3:]...)
				s.daemon()
				s.must("the first one serves", s.settled)
				s.Node("n4").PowerOff()
				s.Store().RequestDelete()
				s.destroy("n4")
				s.must("deleted", s.Store().Deleted)
				s.latest().Kill()
				s.Store().Redeclare(s.cluster(s.Nodes()[:3]))
				s.backedUp()
				c := s.cluster(s.Nodes()[:4])
				c.Nodes[3].ControlPlane = false
				s.Store().SetSpec(c)
				s.burnt()
				s.Node("n4").PowerOn()
				s.order(fromBackup)
				asked := s.offAt(at.call, at.node, nil)
				s.pass(time.Hour)
				if inc := s.Store().Identity().Incarnation; !*asked || inc.State != cke.Awaiting {
					t.Errorf("asked %v, %s: %s", *asked, inc.State, s.told().Summary)
				}
				if !s.Write("n1", "later") {
					t.Error("the members before do not serve")
				}
				s.unbroken(t)
			})
		})
	}
}
