package sim_test

import (
	"strings"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// What was asked of a node may happen long after whoever asked has given it up, or lost its term. These are the shortest
// stories of it.

// once lets one call be judged otherwise than the rest.
func (s *stage) once(verdict sim.Verdict, is func(sim.Call) bool) {
	s.Judge = func(_ int, c sim.Call) sim.Verdict {
		if !is(c) {
			return sim.Proceed
		}
		s.Judge = nil
		return verdict
	}
}

// The start of a learner lands long after that learner was taken back: etcd would give it the id of the one that has been
// added at its peer URL since, and it would take part under it without what that one has agreed to.
func TestLate_AStartOfALearnerThatWasTakenBackStartsNothing(t *testing.T) {
	for _, unseen := range []bool{false, true} {
		play(t, 4, func(s *stage) {
			s.declare(s.Nodes()[:3]...)
			s.daemon()
			s.must("formed", s.settled)
			s.declare(s.Nodes()...)
			s.once(sim.Linger, func(c sim.Call) bool { return c.Name == "StartContainer" && c.Node == "n4" })
			s.until(convergence, func() bool { return s.Judge == nil })
			if unseen { // its node answers nobody while it is taken back
				s.once(sim.Proceed, func(c sim.Call) bool {
					if c.Name == "RemoveMember" {
						s.Isolate("n4")
					}
					return c.Name == "RemoveMember"
				})
			}
			s.must("taken back", func() bool { return len(s.Store().Identity().Ended) == 1 })
			s.pass(time.Minute)
			s.HealNetwork()
			began := false
			s.Judge = func(_ int, c sim.Call) sim.Verdict {
				if began = began || c.Name == "StartContainer" && c.Node == "n4"; began && c.Name == "Data" && c.Node == "n4" {
					s.Land() // between two starts of the one that took its place
				}
				return sim.Proceed
			}
			s.must("as declared", s.changed)
			s.isUnharmed(t)
		})
	}
}

// A container that nobody needs any more does not lie in wait for somebody who starts all that are stopped.
func TestLate_ALearnerThatWasTakenBackIsNotStartedByHand(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.declare(s.Nodes()[:3]...)
		s.daemon()
		s.must("formed", s.settled)
		s.declare(s.Nodes()...)
		s.once(sim.Refuse, func(c sim.Call) bool { return c.Name == "StartContainer" && c.Node == "n4" })
		s.must("as declared", s.changed)
		n4 := s.Node("n4")
		if containers, volumes := n4.Look(); len(containers) != 1 || len(volumes) != 1 {
			t.Errorf("%+v\n%+v", containers, volumes)
		}
		n4.StopByHand()
		n4.StartByHand()
		s.must("started", s.changed)
		s.isUnharmed(t)
	})
}

// A write of how a member is to run is given up, and lands when that member has long been made to run a later version: the
// record is not taken back by it, or the member would be started with a version that cannot read its data.
func TestLate_ARecordThatWasGivenUpTakesNobodyBack(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		s.once(sim.Linger, func(c sim.Call) bool {
			records := s.Store().Records()
			return c.Name == "PutJoins" && records[len(records)-1].Operation == "restart-member"
		})
		c := s.cluster(s.Nodes())
		c.Options.Etcd.Version = "3.7.3"
		s.Store().SetSpec(c)
		s.must("as declared", s.changed)
		if s.Judge != nil {
			t.Fatal("nothing was given up")
		}
		records := len(s.Store().Records())
		s.Land()
		for _, j := range s.Store().Identity().Joins {
			if j.Etcd.Version != "3.7.3" || len(j.Etcd.ExtraArgs) != 0 {
				t.Errorf("%s is to run %s %v", j.Node.Name(), j.Etcd.Version, j.Etcd.ExtraArgs)
			}
		}
		s.pass(convergence)
		s.must("as declared", s.changed)
		if more := s.Store().Records()[records:]; len(more) != 0 {
			t.Errorf("%+v", more)
		}
		s.isUnharmed(t)
	})
}

func (s *stage) isUnharmed(t *testing.T) {
	t.Helper()
	if v := s.Violations(); v != nil {
		t.Error(strings.Join(v, "\n"))
	}
}

// A daemon is frozen while it uploads certificates of a founding; another one founds the cluster. The upload lands when the
// disk has been emptied and the engine starts etcd again and again: nothing is founded anew.
func TestLate_CertificatesOfADeposedDaemonLetNobodyBeFoundedAnew(t *testing.T) {
	play(t, 1, func(s *stage) {
		s.daemon()
		s.once(sim.Freeze, func(c sim.Call) bool { return c.Name == "PutFiles" })
		s.until(convergence, func() bool { return s.latest().Frozen() })
		s.must("formed", s.settled)
		s.foundsNothing(t, func() { s.drivers[0].Wake() })
	})
}

// The same with a renewal whose answer was lost.
func TestLate_RenewedCertificatesLetNobodyBeFoundedAnew(t *testing.T) {
	inFormed(t, 1, func(s *stage) {
		s.CertificatesLast(3 * time.Hour)
		s.once(sim.Linger, func(c sim.Call) bool { return c.Name == "PutFiles" })
		if !s.until(4*time.Hour, func() bool { return s.Judge == nil }) {
			t.Fatal("nothing is renewed")
		}
		s.foundsNothing(t, func() { s.Land() })
	})
}

// foundsNothing empties the only member's disk, lets something land, and expects nothing to come of it.
func (s *stage) foundsNothing(t *testing.T, land func()) {
	s.Node("n1").EmptyVolumes()
	s.pass(5 * time.Second)
	land()
	s.pass(5 * time.Minute)
	s.isUnharmed(t)
	if dec, _ := s.latest().now(); dec.Blockers == nil || dec.Blockers[0].Code != cke.CodeDataMissing && dec.Blockers[0].Code != cke.CodeEtcdExited {
		t.Error(describeDecision(s.latest().Number(), dec))
	}
}

// A learner whose start was given up, and is still under way, when a restore replaces the cluster: it must not take part in
// the restored one, as the founder at its peer URL, without data. Its container is gone before a founder starts.
func TestLate_AStartOfALearnerLandsInTheMiddleOfARestore(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.declare(s.Nodes()[:3]...)
		s.daemon()
		s.must("formed", s.settled)
		s.Write("n1", "kept")
		s.TakeBackup()
		s.declare(s.Nodes()...)
		s.once(sim.Linger, func(c sim.Call) bool { return c.Name == "StartContainer" && c.Node == "n4" })
		s.until(convergence, func() bool { return s.Judge == nil })
		s.order(fromBackup)
		landed := false
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if !landed && s.Store().Identity().Incarnation.State == cke.Restoring && c.Name == "StartContainer" && c.Node == "n4" {
				landed = true
				s.Land()
			}
			return sim.Proceed
		}
		s.must("restored", s.restored)
		if !landed {
			t.Error("the late start did not land")
		}
		s.must("settled", s.settled)
	})
}

// A start that was given up lands between the record of other options and the container that is to be made with them. The
// record says what the file says, and so nobody but the container itself can tell that it runs with others.
func TestLate_AStartOfTheContainerBeforeLeavesNobodyWithOtherOptions(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		s.once(sim.Linger, func(c sim.Call) bool { return c.Name == "StartContainer" && c.Node == "n3" })
		s.Node("n3").StopByHand()
		s.until(convergence, func() bool { return s.Judge == nil })
		recorded, landed := false, false
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			switch {
			case c.Name == "PutJoins":
				recorded = true
			case recorded && c.Name == "EnsureContainer" && !landed:
				landed = true
				s.Land()
			}
			return sim.Proceed
		}
		s.Store().SetSpec(s.want([]int{1, 2, 3}, true))
		s.must("as declared", s.changed)
		if !landed {
			t.Error("the start never landed between record and container")
		}
		s.isUnharmed(t)
	})
}

// What an abandoned founding left on a node that answers no more is not started beside the next life: that one waits for the
// node, or for whoever takes it out of the file.
func TestLate_AnAbandonedFounderIsNotStartedBesideTheNextLife(t *testing.T) {
	play(t, 2, func(s *stage) {
		s.declare(s.Nodes()[:1]...)
		s.daemon()
		s.once(sim.KillBefore, func(c sim.Call) bool { return c.Name == "StartContainer" })
		s.until(convergence, func() bool { return s.Judge == nil })
		s.once(sim.Proceed, func(c sim.Call) bool {
			if c.Name == "UpdateIncarnation" { // n1 was stopped, and is to be cleaned
				s.Isolate("n1")
			}
			return c.Name == "UpdateIncarnation"
		})
		c := s.cluster(s.Nodes())
		c.Nodes[0].ControlPlane = false
		s.Store().SetSpec(c)
		s.until(convergence, func() bool { s.succeed(); return s.Judge == nil })
		s.pass(time.Minute)
		s.Node("n1").StartByHand()
		s.pass(time.Minute)
		s.isUnharmed(t)
		s.HealNetwork()
		s.must("as declared", s.changed)
		s.isUnharmed(t)
	})
}

// Certificates for a new member are uploaded by a daemon that died; they land after its successor has uploaded those of the
// authorities of now, and before the member starts: it trusts the former ones, and is restarted for it.
func TestLate_AMemberThatStartsWithFormerAuthoritiesIsRestarted(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.declare(s.Nodes()[:3]...)
		s.daemon()
		s.must("formed", s.settled)
		s.once(sim.KillLate, func(c sim.Call) bool { return c.Name == "PutFiles" && c.Node == "n4" })
		s.declare(s.Nodes()...)
		s.until(convergence, func() bool { return s.latest().Dead() })
		s.ask(cke.TaskRotate, "", string(cke.ServerAuthority), "")
		s.once(sim.Proceed, func(c sim.Call) bool {
			if c.Name != "StartContainer" || c.Node != "n4" {
				return false
			}
			return s.Land() > 0
		})
		s.must("as declared", s.changed)
		s.isUnharmed(t)
	})
}
