package sim_test

import (
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// heldOn declares the first nodes only, and leaves foreign members where they are.
func (s *stage) heldOn(t *testing.T, ours int) {
	t.Helper()
	c := s.cluster(s.Nodes()[:ours])
	c.Policies.Foreign = cke.ForeignHold
	s.Store().SetSpec(c)
	s.daemon()
	if !s.until(convergence, s.settled) || !s.Write("n1", "kept") {
		t.Fatal("no cluster")
	}
}

// replacedByHand lets an operator put a member of the same name on another machine, which cke cannot reach, in the place of one whose machine is
// gone.
func (s *stage) replacedByHand(t *testing.T, gone, name, to string) {
	t.Helper()
	s.Cut(sim.Management, to)
	if !s.Node(gone).Leave(name) || !joinsKept(s.Node(to), name) {
		t.Error("not replaced")
	}
	s.pass(time.Minute)
}

// The machines of n2 and n3 are gone. An operator has put members of their names on other machines with etcdctl, which cke cannot reach. Then n1
// loses its disk, and the machines n2 and n3 are called destroyed.
func TestRestoreOutsiders_AForeignVoterWithTheNameOfADestroyedNodeCounts(t *testing.T) {
	play(t, 5, func(s *stage) {
		s.heldOn(t, 3)
		s.TakeBackup()
		s.Node("n2").PowerOff()
		s.replacedByHand(t, "n2", "n2", "n4")
		s.Node("n3").PowerOff()
		s.replacedByHand(t, "n3", "n3", "n5")
		s.Node("n1").Blank()
		s.pass(20 * time.Second)
		o := fromBackup
		o.Destroyed = []string{"n2", "n3"}
		s.order(o)
		s.pass(20 * time.Minute)
		s.Write("n4", "to the former")
		s.unbroken(t)
	})
}

func TestDeleteOutsiders_AForeignVoterWithTheNameOfADestroyedNodeCounts(t *testing.T) {
	play(t, 5, func(s *stage) {
		s.heldOn(t, 3)
		s.Node("n2").PowerOff()
		s.replacedByHand(t, "n2", "n2", "n4")
		s.Node("n3").PowerOff()
		s.replacedByHand(t, "n3", "n3", "n5")
		s.destroy("n2", "n3")
		s.Store().RequestDelete()
		s.pass(20 * time.Minute)
		if s.Store().Deleted() && s.Write("n4", "to the former") {
			t.Error("deleted while foreign voters serve")
		}
		s.unbroken(t)
	})
}

// Members that were added without --name are all called "default". One of them is gone, and named as destroyed; the others serve, and cke cannot reach
// them.
func TestRestoreOutsiders_ANameOfSeveralMembersExcusesNone(t *testing.T) {
	play(t, 5, func(s *stage) {
		s.heldOn(t, 1)
		for _, n := range []string{"n2", "n3", "n4", "n5"} {
			s.Cut(sim.Management, n)
			if !joinsKept(s.Node(n), "default") {
				t.Error("cannot join")
			}
			s.pass(time.Minute)
		}
		s.TakeBackup()
		s.Node("n2").PowerOff()
		s.pass(time.Minute)
		s.Node("n1").Blank()
		s.pass(20 * time.Second)
		o := fromBackup
		o.Destroyed = []string{"default"}
		s.order(o)
		s.pass(20 * time.Minute)
		s.Write("n3", "to the former")
		s.unbroken(t)
	})
}

// Two foreign voters are gone, and a deletion calls them destroyed. While it waits for n3, others of the same names take their place, on machines
// that cke cannot reach, and n2 and n3 are removed from the list.
func TestDeleteOutsiders_ANameIsNoMember(t *testing.T) {
	play(t, 7, func(s *stage) {
		foreign, names := s.heldOnWith(t)
		for _, n := range foreign {
			n.PowerOff()
		}
		s.pass(time.Minute)
		s.Node("n3").RefuseKey(true)
		s.pass(time.Minute)
		s.destroy(names...)
		s.Store().RequestDelete()
		s.pass(time.Minute)
		s.replacedByHand(t, "n4", "hand-n4", "n6")
		s.replacedByHand(t, "n5", "hand-n5", "n7")
		if !s.Node("n3").Leave("n3") || !s.Node("n2").Leave("n2") {
			t.Error("not removed")
		}
		s.pass(time.Minute)
		s.Node("n3").RefuseKey(false)
		s.pass(20 * time.Minute)
		if s.Store().Deleted() && s.Write("n6", "to the former") {
			t.Error("deleted while foreign voters serve")
		}
		s.unbroken(t)
	})
}

// heldOnWith forms a cluster of three, to which two foreign voters were added.
func (s *stage) heldOnWith(t *testing.T) (foreign []*sim.Node, names []string) {
	t.Helper()
	s.heldOn(t, 3)
	for _, n := range s.Nodes()[3:5] {
		s.joinsOn(t, n.Name())
		s.pass(time.Minute)
		foreign, names = append(foreign, n), append(names, "hand-"+n.Name())
	}
	return foreign, names
}

// N1 is cut off from the others and has an old list. N2 runs, does not answer, and knows of foreign voters that joined while cke was away.
func TestDeleteOutsiders_AnOutdatedListOfOneMemberDoesNotSpeakForASilentOne(t *testing.T) {
	play(t, 5, func(s *stage) {
		s.heldOn(t, 2)
		s.joinsOn(t, "n3")
		s.pass(time.Minute)
		s.latest().Kill()
		for _, n := range []string{"n2", "n3", "n4", "n5"} {
			s.Cut("n1", n)
			s.Cut(n, "n1")
		}
		s.pass(time.Minute)
		s.joinsOn(t, "n4")
		s.pass(time.Minute)
		s.joinsOn(t, "n5")
		s.pass(time.Minute)
		s.Node("n2").FilterClientPort(true)
		for _, n := range []string{"n3", "n4", "n5"} {
			s.Cut(sim.Management, n)
		}
		s.Store().RequestDelete()
		s.daemon()
		s.pass(20 * time.Minute)
		if s.Store().Deleted() && s.Write("n3", "to the former") {
			t.Error("deleted while foreign voters serve")
		}
		s.unbroken(t)
	})
}

// On a new management host foreign voters join n1 while data is made, which takes minutes in which n1 answers. Then n1 stops.
func TestRestoreOutsiders_NewHostCountsWhatItCouldReadWhileDataIsMade(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.backedUpAlone(t)
		s.burnt()
		s.latest().Kill()
		s.loop()
		s.pass(time.Minute)
		joined, again, stopped := false, false, false
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			_, step := s.Store().Running()
			if !joined && c.Name == "RestoreData" {
				joined = true
				s.joinByHand(t)
				s.Node("n1").SlowDown(20 * time.Second)
			}
			if joined && !again && step != "restore-data" {
				again = true
				s.Node("n1").SlowDown(0)
			}
			if joined && !stopped && step == "store-last" {
				stopped = true
				s.Node("n1").SlowDown(0)
				s.Node("n1").SwitchRestartsOff()
				s.Node("n1").StopByHand()
			}
			return sim.Proceed
		}
		s.order(fromBackup)
		s.pass(20 * time.Minute)
		s.Write("n2", "to the former")
		if !joined || !stopped {
			t.Errorf("joined %v, stopped %v", joined, stopped)
		}
		s.unbroken(t)
	})
}

// An order waits, and calls hand-n3 destroyed, with its id. Another member gets that name on a machine that cke cannot reach. It is no quorum when the
// restore begins, but is one with others that join while data is made.
func TestRestoreOutsiders_AnOrderWithIDsMeansNoOtherMemberOfTheRecordedList(t *testing.T) {
	play(t, 6, func(s *stage) {
		s.heldOn(t, 2)
		s.joinsOn(t, "n3")
		s.TakeBackup()
		s.pass(time.Minute)
		s.Node("n3").PowerOff()
		s.pass(time.Minute)
		s.Store().Ask("pause", func(r *cke.Requests) { r.Hold = &cke.Hold{Reason: "a moment"} })
		o := fromBackup
		o.Destroyed = []string{"hand-n3"}
		s.order(o)
		s.pass(time.Minute)
		s.replacedByHand(t, "n3", "hand-n3", "n4")
		s.onceAt("RestoreData", func() { s.joinsOn(t, "n5", "n6") })
		s.Store().Ask("resume", func(r *cke.Requests) { r.Hold = nil })
		s.pass(20 * time.Minute)
		s.Write("n4", "to the former")
		s.unbroken(t)
	})
}

// The members of a cluster that could never be formed run and do not answer: a deletion needs no list of them.
func TestDeleteOutsiders_AClusterThatWasNeverFormedIsDeleted(t *testing.T) {
	play(t, 3, func(s *stage) {
		c := s.cluster(s.Nodes())
		s.Store().SetSpec(c)
		s.onceAt("StartContainer", func() {
			for _, a := range []string{"n1", "n2", "n3"} {
				for _, b := range []string{"n1", "n2", "n3"} {
					if a != b {
						s.Cut(a, b)
					}
				}
			}
		})
		s.daemon()
		s.pass(time.Minute)
		s.Store().RequestDelete()
		if !s.until(20*time.Minute, func() bool { return s.Store().Deleted() }) {
			t.Errorf("not deleted: %+v", s.told().Problems)
		}
		s.unbroken(t)
	})
}
