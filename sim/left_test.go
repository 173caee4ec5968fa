package sim_test

import (
	"strings"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// These are the shortest stories of random schedules that did not end as they should.

// foundingCutOff founds a cluster on nodes, and ends its daemon when everybody has served, before that is on record.
func (s *stage) foundingCutOff(nodes ...*sim.Node) {
	s.t.Helper()
	s.declare(nodes...)
	s.daemon()
	kept := 0
	s.once(sim.KillBefore, func(c sim.Call) bool {
		if c.Name == "KeepRunning" {
			kept++
		}
		return kept > 0 && c.Name == "Members"
	})
	s.until(convergence, func() bool { return s.latest().Dead() })
	s.Judge = nil
	if len(s.drivers) != 1 || !s.latest().Dead() {
		s.t.Fatal("the founding was not cut off")
	}
}

// A founder was silent when its founding was abandoned, and its engine starts it. It answers where its container was made for, and
// holds nothing: it goes, also where another life was formed long since.
func TestLeft_AFounderThatItsEngineStartsIsRemovedOnceItShowsThatNobodyWrote(t *testing.T) {
	for name, declared := range map[string]bool{"its node is in the file": true, "it is to carry a member": false} {
		t.Run(name, func(t *testing.T) {
			play(t, 3, func(s *stage) {
				n3 := s.Node("n3")
				s.foundingCutOff(s.Nodes()...)
				n3.PowerOff()
				c := s.cluster(s.Nodes())
				c.Nodes[2].ControlPlane = false
				s.Store().SetSpec(c)
				s.pass(time.Minute)
				if s.settled() {
					t.Error("formed while a node of the file is silent, which may carry a member")
				}
				s.declare(s.Nodes()[:2]...)
				s.must("formed", s.settled)
				if s.Store().SetSpec(c); !declared {
					s.declare(s.Nodes()...)
				}
				n3.PowerOn()
				s.must("as declared", func() bool { return s.settled() && s.faults(s.declared()...) == nil })
				s.isUnharmed(t)
			})
		})
	}
}

// A founder was stopped when its founding was abandoned, and its node could not be cleaned. Two lives later it is.
func TestLeft_AFounderOfALifeBeforeTheLastWasStoppedByCke(t *testing.T) {
	play(t, 3, func(s *stage) {
		n3 := s.Node("n3")
		s.foundingCutOff(s.Nodes()...)
		stopped := 0
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if c.Name == "StopContainer" && c.Node == "n3" {
				stopped++
			}
			if c.Name == "RemoveContainer" && c.Node == "n3" && stopped > 0 {
				n3.ChangeHostKey()
				s.Judge = nil
				return sim.Refuse
			}
			return sim.Proceed
		}
		s.declare(s.Nodes()[:2]...)
		s.must("formed", s.settled)
		if containers, _ := n3.Look(); len(containers) != 1 {
			t.Fatal("nothing is left")
		}
		s.Write("n1", "written in the life that was formed")
		n3.AcceptHostKey()
		s.declare(s.Nodes()...)
		s.must("as declared", func() bool { return s.settled() && s.faults(s.declared()...) == nil })
		s.isUnharmed(t)
	})
}

// A full member is defragmented for a trial once in ten minutes, whatever else is done, and fails, meanwhile.
func TestLeft_ATrialIsNotRepeatedForWhatElseIsDone(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		s.small(512)
		for s.Fill("n1", 60<<20) {
		}
		c := s.Store().Spec().Cluster
		c.Options.Etcd.ExtraEnv = map[string]string{"GOMAXPROCS": "2"} // no member can be restarted for it: one cannot be tried
		s.eachNode((*sim.Node).FillDisk)
		s.Store().SetSpec(c)
		before := len(s.Store().Records())
		s.pass(30 * time.Minute)
		trials, other := 0, 0
		for _, r := range s.Store().Records()[before:] {
			if r.Operation == "defragment" {
				trials++
			} else {
				other++
			}
		}
		if trials > 4 || other < 10 {
			t.Errorf("%d trials, and %d other operations", trials, other)
		}
	})
}

// A container was paused while its data directory was removed: its process has the files open as any other has.
func TestLeft_APausedMemberGoesOnWithItsOpenFiles(t *testing.T) {
	inFormed(t, 1, func(s *stage) {
		n1 := s.Node("n1")
		n1.PauseContainers(true)
		n1.Unlink()
		n1.PauseContainers(false)
		s.pass(time.Minute)
		if !s.Write("n1", "w") || s.RecoverableFromDisks() || !s.Recoverable() {
			t.Error("it lost what it had open")
		}
		s.isUnharmed(t)
	})
}

// The only voter is gone for good, and a learner has what was written: nobody gets a snapshot of it, and people are told to save it.
func TestLeft_ALearnerThatMayHaveTheLastDataIsTold(t *testing.T) {
	play(t, 2, func(s *stage) {
		s.declare(s.Nodes()[0])
		s.daemon()
		s.must("formed", s.settled)
		s.Write("n1", "w")
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if c.Name == "Promote" {
				s.Judge = nil
				s.Node("n2").Unlink()
				s.Node("n1").Blank()
			}
			return sim.Proceed
		}
		s.declare(s.Nodes()...)
		s.must("told", func() bool { return s.reported(cke.CodeDataMissing, "n1") && s.reported(cke.CodeDataMissing, "n2") })
		s.isUnharmed(t)
	})
}

// A person removes the container of a member, and another cluster takes its ports: no container is made for them beside that one's.
func TestLeft_AMemberWithoutAContainerTakesNoPortsOfAnother(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		n3 := s.Node("n3")
		n3.RemoveContainers()
		n3.AddNeighbor(sim.Neighbor{Cluster: "other", ClientPort: 2379, PeerPort: 2380})
		n3.StopNeighbor("other")
		s.pass(10 * time.Minute)
		if !s.reported(cke.CodePortTaken, "n3") || s.told().Ready != 2 {
			t.Errorf("%d serve: %+v", s.told().Ready, s.told().Problems)
		}
		s.portsOf(3379, 3380)
		s.must("moved", s.settled)
		n3.RemoveNeighbor("other")
		s.must("as declared", s.changed)
		s.isUnharmed(t)
	})
}

// A member moves to ports that another cluster takes after the move was decided on: it stays down and that is told, until the ports
// are free.
func TestLeft_AMemberThatMovesTakesNoPortsOfAnother(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		n1 := s.Node("n1")
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if c.Name == "StopContainer" && c.Node == "n1" {
				s.Judge = nil
				n1.AddNeighbor(sim.Neighbor{Cluster: "other", ClientPort: 3379, PeerPort: 3380})
				n1.StopNeighbor("other")
			}
			return sim.Proceed
		}
		s.portsOf(3379, 3380)
		s.pass(10 * time.Minute)
		if !s.reported(cke.CodePortTaken, "n1") {
			t.Errorf("%+v", s.told().Problems)
		}
		n1.RemoveNeighbor("other")
		s.must("moved", s.changed)
		s.isUnharmed(t)
	})
}

// A cluster is to be deleted by an older store, and an operator stopped a member that it has no record of: what is left has no quorum,
// so nothing can be put on record again. The member that is on record elsewhere is named, to be stopped as well.
func TestLeft_ADeletionByAnOlderStoreNamesWhoIsToBeStopped(t *testing.T) {
	inFormed(t, 2, func(s *stage) {
		copied := s.Store().Copy()
		s.replaceAll(t, "n2")
		s.portsOf(3379, 3380)
		s.must("moved", func() bool { return s.join("n1").ClientPort == 3379 && s.join("n2").ClientPort == 3379 && s.changed() })
		s.broughtBack(copied)
		s.must("frozen", func() bool { return s.frozenFor(cke.FreezeOlderStore) })
		stop := func(n *sim.Node) {
			n.SwitchRestartsOff()
			n.StopByHand()
		}
		stop(s.Node("n2"))
		s.Store().RequestDelete()
		s.pass(time.Minute)
		dec, _ := s.latest().now()
		j := s.join("n1")
		if s.Store().Deleted() || len(dec.Blockers) == 0 || !strings.Contains(dec.Blockers[0].Remedy, "docker stop "+j.Volume) {
			t.Fatal(describeDecision(s.latest().Number(), dec))
		}
		stop(s.Node("n1"))
		s.must("deleted", func() bool { return s.Store().Deleted() })
		s.isUnharmed(t)
	})
}
