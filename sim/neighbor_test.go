package sim_test

import (
	"slices"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// reported reports whether people are told of a code on a node.
func (s *stage) reported(code cke.Code, node string) bool {
	_, status := s.latest().now()
	return slices.ContainsFunc(status.Problems, func(p cke.Problem) bool { return p.Code == code && p.Node == node })
}

// Another cluster on the nodes does not run, and its ports are not given away: not by a bootstrap, an addition or a change of
// ports. Once it is gone everything goes on.
func TestNeighbor_KeepsItsPortsWhileItIsDown(t *testing.T) {
	other := sim.Neighbor{Cluster: "other", ClientPort: 2379, PeerPort: 2380}
	t.Run("bootstrap", func(t *testing.T) {
		play(t, 3, func(s *stage) {
			s.Node("n2").AddNeighbor(other)
			s.Node("n2").StopNeighbor("other")
			s.daemon()
			s.pass(10 * time.Minute)
			if s.Store().Identity().Incarnation != nil || !s.reported(cke.CodePortTaken, "n2") {
				t.Fatalf("bootstrapped beside it: %+v", s.Store().Identity().Incarnation)
			}
			s.Node("n2").RemoveNeighbor("other")
			s.must("formed", s.settled)
			s.isUnharmed(t)
		})
	})
	t.Run("addition", func(t *testing.T) {
		inFormed(t, 4, func(s *stage) {
			s.Store().SetSpec(s.want([]int{1, 2, 3}, false))
			s.must("three", s.changed)
			s.Node("n4").AddNeighbor(other)
			s.Node("n4").StopNeighbor("other")
			s.Store().SetSpec(s.want([]int{1, 2, 3, 4}, false))
			s.pass(10 * time.Minute)
			if len(s.Store().Identity().Joins) != 3 || !s.reported(cke.CodePortTaken, "n4") {
				t.Fatal("added beside it")
			}
			s.Node("n4").RemoveNeighbor("other")
			s.must("four", s.changed)
			s.isUnharmed(t)
		})
	})
	t.Run("change of ports", func(t *testing.T) {
		inFormed(t, 3, func(s *stage) {
			n1 := s.Node("n1")
			n1.AddNeighbor(sim.Neighbor{Cluster: "other", ClientPort: 3379, PeerPort: 3380})
			n1.StopNeighbor("other")
			s.portsOf(3379, 3380)
			s.pass(10 * time.Minute)
			if j := s.join("n1"); j.ClientPort != 2379 || !s.reported(cke.CodePortTaken, "n1") || !s.Write("n1", "serves") {
				t.Fatalf("moved to ports of another cluster: %+v", j)
			}
			n1.RemoveNeighbor("other")
			s.must("moved", s.changed)
			s.isUnharmed(t)
		})
	})
}

// The file exchanges the hostnames of two live machines: nobody is drained or replaced by such a name, and all members serve.
func TestMisnamed_ExchangedHostnamesStopNobody(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		c := s.cluster(s.Nodes())
		c.Nodes[0].Hostname, c.Nodes[1].Hostname = c.Nodes[1].Hostname, c.Nodes[0].Hostname
		s.Store().SetSpec(c)
		s.ask(cke.TaskDrain, "n1", "", "maintenance")
		s.ask(cke.TaskReplace, "n1", string(s.join("n1").ID), "")
		s.pass(10 * time.Minute)
		if !s.answered() || len(s.Store().Identity().Ended) > 0 || s.Serving() != 3 || !s.reported(cke.CodeMisnamed, "n1") {
			dec, status := s.latest().now()
			t.Fatalf("%d serve: %s\n%+v", s.Serving(), describeDecision(1, dec), status.Problems)
		}
		s.isUnharmed(t)
	})
}

// A machine on which a member of another cluster runs is not rebooted before that one is stopped there. Others are.
func TestNeighbor_KeepsItsMachineFromReboots(t *testing.T) {
	t.Parallel()
	formedWith(t, 3, 3, func(s *stage) {
		n2 := s.Node("n2")
		n2.AddNeighbor(sim.Neighbor{Cluster: "other", ClientPort: 4379, PeerPort: 4380})
		s.addReboots("n2", "n3")
		s.until(time.Hour, func() bool {
			return s.Node("n3").Boots() > 0 && s.Store().Requests().Reboots.Of(s.Node("n3").Declared().Address) == nil
		})
		s.pass(10 * time.Minute)
		if n2.Boots() > 0 || s.Node("n3").Boots() != 1 || s.entryOf("n2").State != cke.EntryQueued {
			t.Fatalf("n2 booted %d times, n3 %d, %+v", n2.Boots(), s.Node("n3").Boots(), s.entryOf("n2"))
		}
		n2.StopNeighbor("other")
		if s.rebooted(time.Hour); n2.Boots() != 1 {
			t.Errorf("n2 booted %d times", n2.Boots())
		}
		if !s.until(convergence, s.settled) || s.Violations() != nil {
			t.Error(s.Violations())
		}
	})
}
