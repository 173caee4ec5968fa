package sim_test

import (
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// refusedBeside: an order to restore is refused since what it leaves out could serve, and the cluster goes on as it was.
func (s *stage) refusedBeside(o cke.RestoreOrder) (faults []string) {
	s.order(o)
	s.until(time.Hour, func() bool { return s.restored() || len(s.asked()) == 0 })
	if s.restored() {
		faults = append(faults, "was restored")
	}
	refused := false
	for _, r := range s.Store().Records() {
		refused = refused || r.Code == cke.CodeFence
	}
	if !refused {
		faults = append(faults, "was not refused")
	}
	return append(faults, s.Violations()...)
}

// ledByAnother has n2 lead.
func (s *stage) ledByAnother() {
	s.ask(cke.TaskMoveLeader, "n2", "", "")
	s.must("n2 leads", func() bool { return s.leading() == "n2" })
}

// killedAt has the next daemons killed at the first call of this name, and returns whether that was.
func (s *stage) killedAt(name string, before func()) func() bool {
	dead := false
	s.Judge = func(_ int, c sim.Call) sim.Verdict {
		if dead || c.Name != name {
			return sim.Proceed
		}
		dead = true
		before()
		return sim.KillAfter
	}
	return func() bool { return dead }
}

// comesTo waits for what happens while no other daemon leads.
func (s *stage) comesTo(is func() bool) {
	s.t.Helper()
	if !s.until(convergence, is) {
		dec, _ := s.latest().now()
		s.t.Fatal("does not come to it:", describeDecision(s.latest().Number(), dec))
	}
}

// aside cuts n2 and n3 off from this host and from all others.
func (s *stage) aside() {
	s.cutOff("n2", "n3")
	for _, n := range s.Nodes() {
		if n.Name() != "n2" && n.Name() != "n3" {
			s.Cut(n.Name(), "n2")
			s.Cut(n.Name(), "n3")
		}
	}
}

// n4 is removed from the list of four, and its daemon dies before that is on record. n2 and n3, two of the three that are left, serve
// where nobody sees them.
func TestLeftOut_AQuorumAfterARemovalThatWasCutOff(t *testing.T) {
	for _, applied := range []bool{true, false} { // by n1, which answers; else the removal waits for n1
		play(t, 4, func(s *stage) {
			s.backedUp()
			s.ledByAnother()
			removed := s.killedAt("RemoveMember", func() {
				if !applied {
					for _, n := range []string{"n2", "n3", "n4"} {
						s.Cut("n1", n)
					}
				}
			})
			fewer := s.cluster(s.Nodes()[:3])
			fewer.Nodes = append(fewer.Nodes, s.Nodes()[3].Declared())
			fewer.Nodes[3].ControlPlane = false
			s.Store().SetSpec(fewer)
			s.comesTo(removed)
			s.pass(5 * time.Second)
			s.aside()
			s.daemon()
			s.pass(5 * time.Minute)
			if s.told().Health != cke.HealthUnknown || applied && !s.Write("n2", "of two") {
				t.Fatal("not a cluster that serves elsewhere:", s.told().Health, s.told().Summary)
			}
			for _, fault := range s.refusedBeside(without("n2", "n3")) {
				t.Error("applied by n1:", applied, fault)
			}
		})
	}
}

// n3 is promoted, and its daemon dies with it. n2 and n3, a quorum of three, serve where nobody sees them; the data of n1 is lost.
func TestLeftOut_AQuorumWithALearnerThatWasPromoted(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.declare(s.Nodes()[:2]...)
		s.backedUp()
		s.ledByAnother()
		promoted := s.killedAt("Promote", func() {})
		s.declare(s.Nodes()...)
		s.comesTo(promoted)
		s.Node("n1").KillEtcd()
		s.Node("n1").EmptyVolumes()
		s.cutOff("n2", "n3")
		s.daemon()
		s.pass(5 * time.Minute)
		if s.told().Health != cke.HealthUnknown || !s.Write("n2", "of two") {
			t.Fatal("not a cluster that serves elsewhere:", s.told().Health, s.told().Summary)
		}
		for _, fault := range s.refusedBeside(without("n2", "n3")) {
			t.Error(fault)
		}
	})
}

// Five voters became three after the copy of the store was made.
func TestLeftOut_AQuorumThatIsFewerThanTheStoreHas(t *testing.T) {
	play(t, 5, func(s *stage) {
		s.backedUp()
		c := s.Store().Copy()
		s.ledByAnother()
		s.declare(s.Nodes()[:3]...)
		s.must("three are left", s.changed)
		s.pass(time.Hour)
		s.latest().Kill()
		s.eachNode(func(n *sim.Node) { n.Unmark() }) // else the restore is refused for that
		s.aside()
		s.Store().BringBack(c)
		s.daemon()
		s.pass(10 * time.Minute)
		if !s.Write("n2", "of two") {
			t.Fatal("n2 does not serve")
		}
		for _, fault := range s.refusedBeside(without("n2", "n3")) {
			t.Error(fault)
		}
	})
}

// Two of five voters are an operator's own. A restore waits for n3, and another one that leaves it out wants to take its place.
func TestLeftOut_AQuorumOfTheLifeBeforeARestoreThatWaits(t *testing.T) {
	play(t, 5, func(s *stage) {
		s.declare(s.Nodes()[:3]...)
		s.backedUp()
		for _, n := range []string{"n4", "n5"} {
			if !s.Node(n).Join("hand", true) {
				t.Fatal(n, "does not join")
			}
			s.pass(time.Minute)
		}
		s.once(sim.KillBefore, func(sim.Call) bool { return s.Store().Identity().Incarnation.State == cke.Restoring })
		s.order(fromBackup)
		s.comesTo(func() bool { return s.Judge == nil })
		for _, n := range []string{sim.Management, "n1", "n2"} {
			s.Cut(n, "n3")
			s.Cut("n3", n)
		}
		s.daemon()
		s.pass(2 * time.Minute)
		for _, fault := range s.refusedBeside(without("n3")) {
			t.Error(fault)
		}
	})
}

// A firewall keeps this host from all client ports while the cluster serves. A recovery would stop one member after the other.
func TestRecover_NotWhileTheClusterServesOutOfSight(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.backedUp()
		s.ledByAnother()
		s.eachNode(func(n *sim.Node) { n.FilterClientPort(true) })
		s.pass(10 * time.Minute)
		acknowledged := false
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if c.Name == "StopContainer" && c.Node == "n2" {
				acknowledged = s.Write("n2", "of n2 and n3") || acknowledged
			}
			if s.Store().Identity().Incarnation.State == cke.Restoring {
				s.eachNode(func(n *sim.Node) { n.FilterClientPort(false) })
			}
			return sim.Proceed
		}
		for _, fault := range s.refusedBeside(cke.RestoreOrder{Survivor: "n1"}) {
			t.Error(fault)
		}
		if acknowledged || !s.Write("n3", "afterwards") {
			t.Error("members were stopped")
		}
	})
}
