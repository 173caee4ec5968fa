package sim_test

import (
	"slices"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// lifted has the finding that the store is older lifted, instead of what the status says.
func (s *stage) lifted() {
	s.must("frozen", func() bool { return s.frozenFor(cke.FreezeOlderStore) })
	s.ask(cke.TaskUnfreeze, "", s.freeze().ID, "we go on from what the store has")
	s.must("lifted", func() bool { return s.answered() && !s.freeze().Active() })
}

// The store goes back while members are moved to other ports, and an operator lifts the freeze. One of those that were moved is taken out of the
// file: it serves, and is not removed as one that does not while another one is down.
func TestOlderStore_AVoterAtFormerPortsIsNoUnhealthyOne(t *testing.T) {
	inFormed(t, 4, func(s *stage) {
		copied := s.Store().Copy()
		var moved []string
		s.once(sim.KillBefore, func(c sim.Call) bool {
			moved = nil
			for _, j := range s.Store().Identity().Joins {
				if j.ClientPort == 3379 {
					moved = append(moved, j.Node.Name())
				}
			}
			return c.Name == "UpdateMember" && len(moved) == 2
		})
		s.portsOf(3379, 3380)
		if !s.until(convergence, func() bool { return s.Judge == nil }) {
			t.Fatal("nobody is moved")
		}
		s.broughtBack(copied)
		s.lifted()
		c := s.cluster(s.Nodes())
		for i := range c.Nodes {
			c.Nodes[i].ControlPlane = c.Nodes[i].Hostname != moved[0]
		}
		s.Node(moved[1]).PowerOff()
		s.Store().SetSpec(c)
		s.pass(10 * time.Minute)
		s.isUnharmed(t)
	})
}

// All members were moved to other ports, and one was about to be moved back, when the store went back to before all that: etcd's list has it as
// the store does, and it serves where its container was made for. It is not stopped as one that nobody reaches.
func TestOlderStore_AVoterThatWasToMoveBackIsNotStopped(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		copied := s.Store().Copy()
		s.portsOf(3379, 3380)
		s.must("moved", func() bool { return s.changed() && s.join("n1").ClientPort == 3379 })
		about := ""
		s.once(sim.KillAfter, func(c sim.Call) bool {
			if c.Name != "UpdateMember" {
				return false
			}
			all := s.Store().Records()
			about = all[len(all)-1].Targets[0]
			return true
		})
		s.declare(s.Nodes()...)
		if !s.until(convergence, func() bool { return s.Judge == nil }) {
			t.Fatal("nobody is moved back")
		}
		s.broughtBack(copied)
		s.lifted()
		other := slices.IndexFunc(s.Nodes(), func(n *sim.Node) bool { return n.Name() != about && n.Name() != s.leading() })
		s.Nodes()[other].PowerOff()
		s.pass(10 * time.Minute)
		s.isUnharmed(t)
	})
}

// A store of before a change of ports is brought back while the only member does not run, and cke starts it at its former ports. Then the newer
// store is brought back, by which it runs elsewhere. Whatever happens to its container until then, it is on record again as it runs, or runs as
// it is on record.
func TestOlderStore_AMemberThatItStartedAtFormerPortsIsReclaimed(t *testing.T) {
	for _, since := range []func(*sim.Node){func(*sim.Node) {}, (*sim.Node).StopByHand, (*sim.Node).RemoveContainers} {
		inFormed(t, 1, func(s *stage) {
			n, older := s.Node("n1"), s.Store().Copy()
			s.portsOf(3379, 3380)
			s.must("moved", func() bool { return s.changed() && s.join("n1").ClientPort == 3379 })
			newer := s.Store().Copy()
			n.StopByHand()
			s.broughtBack(older)
			s.must("at its former ports", func() bool { return s.settled() && s.Write("n1", "at its former ports") })
			s.broughtBack(newer)
			s.must("frozen", func() bool { return s.frozenFor(cke.FreezeOlderStore) })
			since(n)
			s.pass(10 * time.Minute)
			if _, st := s.latest().now(); st.Health == cke.HealthReady {
				t.Error(st.Summary)
			}
			if cs, _ := n.Look(); len(cs) == 0 {
				s.lifted()
			} else {
				n.StartByHand()
				s.pass(time.Minute)
				s.reclaims(t)
			}
			s.must("as declared", s.changed)
			s.isUnharmed(t)
		})
	}
}

// The same while a second member is added, which never started: a learner helps nobody to a quorum.
func TestOlderStore_AnOnlyVoterAtFormerPortsIsMovedBesideALearner(t *testing.T) {
	play(t, 2, func(s *stage) {
		at := func(port, nodes int) {
			c := s.cluster(s.Nodes()[:nodes])
			c.Options.Etcd.ClientPort, c.Options.Etcd.PeerPort = port, port+1
			s.Store().SetSpec(c)
		}
		at(2379, 1)
		s.daemon()
		s.must("formed", s.settled)
		older := s.Store().Copy()
		at(3379, 1)
		s.must("moved", func() bool { return s.changed() && s.join("n1").ClientPort == 3379 })
		s.once(sim.KillBefore, func(c sim.Call) bool { return c.Name == "StartContainer" && c.Node == "n2" })
		at(3379, 2)
		s.must("a learner that does not run", func() bool { return s.Judge == nil })
		newer := s.Store().Copy()
		s.Node("n1").StopByHand()
		s.broughtBack(older)
		s.must("at its former ports", func() bool { return s.Write("n1", "at its former ports") })
		s.broughtBack(newer)
		s.must("as declared", s.changed)
		s.isUnharmed(t)
	})
}
