package sim_test

import (
	"slices"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// held is a file with these control-plane nodes, which leaves foreign members where they are.
func (s *stage) held(names ...string) cke.Cluster {
	c := s.onNodes(names...)
	c.Policies.Foreign = cke.ForeignHold
	return c
}

// joinsOn lets an operator add members by hand.
func (s *stage) joinsOn(t *testing.T, nodes ...string) {
	t.Helper()
	for _, n := range nodes {
		if !joinsKept(s.Node(n), "hand-"+n) {
			t.Errorf("cannot join on %s", n)
		}
	}
}

// joinsKept lets an operator add a member that the engine keeps running.
func joinsKept(n *sim.Node, name string) bool {
	joined := n.Join(name, true)
	if joined {
		n.Keep(name)
	}
	return joined
}

// keptOn forms a cluster on some nodes, in which something is written.
func (s *stage) keptOn(names ...string) {
	s.Store().SetSpec(s.held(names...))
	s.daemon()
	s.must("formed", s.settled)
	s.Write("n1", "kept")
}

// leaves lets an operator remove the member of a node with etcdctl, and stop its container for good.
func (s *stage) leaves(t *testing.T, node string) {
	t.Helper()
	n := s.Node(node)
	if !n.Leave("hand-" + node) {
		t.Error("does not leave")
	}
	n.SwitchRestartsOff()
	n.StopByHand()
}

// joinedUnseen lets foreign voters join n1 while cke is away. Then n1 runs and does not answer.
func (s *stage) joinedUnseen(t *testing.T) {
	t.Helper()
	s.joinsOn(t, "n2", "n3")
	time.Sleep(time.Minute)
	s.Node("n1").FilterClientPort(true)
}

// onceAt does something at the first call of a name.
func (s *stage) onceAt(name string, do func()) {
	done := false
	s.Judge = func(_ int, c sim.Call) sim.Verdict {
		if !done && c.Name == name {
			done = true
			do()
		}
		return sim.Proceed
	}
}

// The identity beside the backups is from before the member moved from n1 to n2. Foreign voters joined n2.
func TestRestoreOutsiders_NewHostCountsForeignVotersOfMembersThatItHasNoRecordOf(t *testing.T) {
	for _, when := range []string{"before the order", "while data is made"} {
		t.Run(when, func(t *testing.T) {
			play(t, 5, func(s *stage) {
				declare := func(name string) {
					c := s.held(name)
					c.Policies.Volumes = cke.VolumePolicies{OnRemoval: cke.VolumeDelete}
					s.Store().SetSpec(c)
				}
				declare("n1")
				s.daemon()
				s.must("formed", s.settled)
				s.Write("n1", "kept")
				s.TakeBackup()
				beside := s.Store().Copy()
				declare("n2")
				s.must("moved", func() bool {
					containers, volumes := s.Node("n1").Look()
					return s.settled() && len(containers)+len(volumes) == 0
				})
				s.pass(2 * time.Minute)
				if when == "before the order" {
					s.joinsOn(t, "n3", "n4")
					s.pass(2 * time.Minute)
				}
				s.Write("n2", "later")
				s.latest().Kill()
				s.declaredFrom(beside)
				s.Store().SetSpec(s.held("n1", "n2"))
				if when != "before the order" {
					s.onceAt("RestoreData", func() { s.joinsOn(t, "n3", "n4") })
				}
				s.pass(time.Minute)
				s.order(fromBackup)
				s.pass(20 * time.Minute)
				s.Write("n3", "to the former")
				s.unbroken(t)
			})
		})
	}
}

// N1 gets foreign voters, of which one has the URLs of a container that was stopped before. Only on a new host.
func TestRestoreOutsiders_NewHostCountsAForeignVoterAtTheURLsOfAStoppedContainer(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.keptOn("n1", "n2")
		s.TakeBackup()
		s.pass(time.Minute)
		s.burnt()
		s.Store().SetSpec(s.held("n1"))
		s.pass(time.Minute)
		s.onceAt("RestoreData", func() {
			s.leaves(t, "n2")
			s.joinsOn(t, "n2", "n3")
		})
		s.order(fromBackup)
		s.pass(20 * time.Minute)
		s.Write("n3", "to the former")
		s.unbroken(t)
	})
}

// Before the order: the record on the new host is from before n2 was added, so the stopped container there is not on record.
func TestRestoreOutsiders_NewHostCountsItBesideAStoppedContainerThatIsNotOnRecord(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.backedUpAlone(t)
		beside := s.Store().Copy()
		s.Store().SetSpec(s.held("n1", "n2"))
		s.must("two members", func() bool { return s.settled() && s.Serving() == 2 })
		s.Store().Ask("pause", func(r *cke.Requests) { r.Hold = &cke.Hold{Reason: "a moment"} })
		s.pass(time.Minute)
		s.leaves(t, "n2")
		s.joinsOn(t, "n2", "n3")
		s.pass(time.Minute)
		s.latest().Kill()
		s.declaredFrom(beside)
		s.Store().SetSpec(s.held("n1"))
		s.pass(time.Minute)
		s.order(fromBackup)
		s.pass(20 * time.Minute)
		s.Write("n3", "to the former")
		s.unbroken(t)
	})
}

// Cke is away while foreign voters join, and n1 runs and does not answer once cke is back.
func TestRestoreOutsiders_WhatJoinedWhileNobodyLookedCounts(t *testing.T) {
	for name, do := range map[string]func(*testing.T, *stage){
		"restore under way": func(t *testing.T, s *stage) {
			killed := s.killedAt("RestoreData", func() {})
			s.order(fromBackup)
			s.until(10*time.Minute, killed)
			s.joinedUnseen(t)
			s.daemon()
		},
		"order": func(t *testing.T, s *stage) {
			s.latest().Kill()
			s.joinedUnseen(t)
			s.daemon()
			s.pass(time.Minute)
			s.order(fromBackup)
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, 3, func(s *stage) {
				s.backedUpAlone(t)
				do(t, s)
				s.pass(20 * time.Minute)
				s.Write("n2", "to the former")
				s.unbroken(t)
			})
		})
	}
}

// A foreign voter that the order calls destroyed is replaced by one of the same name on another machine, which cke cannot reach.
func TestRestoreOutsiders_ANameIsNoMember(t *testing.T) {
	for _, when := range []string{"while data is made", "while the order waits"} {
		t.Run(when, func(t *testing.T) {
			play(t, 4, func(s *stage) {
				s.Store().SetSpec(s.held("n1"))
				s.daemon()
				s.must("formed", s.settled)
				for _, n := range []string{"n2", "n3"} {
					s.joinsOn(t, n)
					s.pass(time.Minute)
				}
				s.Write("n1", "kept")
				s.TakeBackup()
				s.Node("n2").PowerOff()
				s.pass(time.Minute)
				o := fromBackup
				o.Destroyed = []string{"hand-n2"}
				again := func() {
					s.Cut(sim.Management, "n4")
					if !s.Node("n2").Leave("hand-n2") || !joinsKept(s.Node("n4"), "hand-n2") {
						t.Error("not replaced")
					}
				}
				if when == "while data is made" {
					s.onceAt("RestoreData", again)
					s.order(o)
				} else {
					s.Store().Ask("pause", func(r *cke.Requests) { r.Hold = &cke.Hold{Reason: "a moment"} })
					s.order(o)
					s.pass(time.Minute)
					again()
					s.pass(5 * time.Minute)
					s.Store().Ask("resume", func(r *cke.Requests) { r.Hold = nil })
				}
				s.pass(20 * time.Minute)
				s.Write("n3", "to the former")
				s.unbroken(t)
			})
		})
	}
}

// An addition on n2 was given up before etcd had taken it. The membership ended without an id, and an operator adds a member at its URL.
func TestRestoreOutsiders_AMembershipThatEndedWithoutAnIDStopsNobody(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.backedUpAlone(t)
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if c.Name == "AddLearner" {
				return sim.Refuse
			}
			return sim.Proceed
		}
		s.Store().SetSpec(s.held("n1", "n2"))
		s.pass(time.Minute)
		s.Store().SetSpec(s.held("n1"))
		s.pass(2 * time.Minute)
		if ended := s.Store().Identity().Ended; !slices.ContainsFunc(ended, func(j cke.Join) bool { return j.MemberID == "" }) {
			t.Fatalf("%+v", ended)
		}
		s.joinsMeanwhile(t, func([]*sim.Node) {})
		s.Write("n3", "to the former")
		s.unbroken(t)
	})
}

// Without a quorum n1 has an older member list than n2, of which one answer in ten seconds is lost. An attempt takes longer than that.
func TestRestoreOutsiders_ListsThatAlternateKeepNoRestoreFromItsEnd(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.keptOn("n1", "n2", "n3")
		s.TakeBackup()
		for _, n := range []string{"n2", "n3", "n4"} {
			s.Cut("n1", n)
			s.Cut(n, "n1")
		}
		s.pass(time.Minute)
		s.Node("n1").FilterClientPort(true)
		s.joinsOn(t, "n4")
		s.pass(time.Minute)
		s.Node("n1").FilterClientPort(false)
		s.Node("n3").PowerOff()
		s.Node("n4").PowerOff()
		s.HealNetwork()
		s.pass(time.Minute)
		s.latest().Kill()
		s.loop()
		s.pass(5 * time.Minute)
		o := fromBackup
		o.Destroyed = []string{"n3", "hand-n4"}
		last := time.Now().Add(10 * time.Second)
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if c.Name == "RestoreData" {
				s.Node("n1").SlowDown(4 * time.Second)
				s.Node("n2").SlowDown(4 * time.Second)
			}
			if c.Port == "look" && c.Name == "Etcd" && s.Store().Identity().Incarnation.State == cke.Restoring {
				lost := time.Since(last) > 10*time.Second
				if s.Node("n2").FilterClientPort(lost); lost {
					last = time.Now()
				}
			}
			return sim.Proceed
		}
		s.order(o)
		if !s.until(5*time.Hour, s.restored) {
			interrupted := 0
			for _, r := range s.Store().Records() {
				if r.Operation == "restore" && r.State == cke.RecordInterrupted {
					interrupted++
				}
			}
			t.Errorf("not restored after 5 hours, interrupted %d times; problems of the status: %+v", interrupted, s.Store().Status().Problems)
		}
		s.unbroken(t)
	})
}

// Members serve, and their list cannot be read: the status names a way out.
func TestRestoreOutsiders_AListThatCannotBeReadHasARemedy(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.joinsAtRestore(t, func([]*sim.Node) { s.MuteLists(true) })
		s.pass(3 * time.Hour)
		for _, p := range s.told().Problems {
			if p.Remedy == "" {
				t.Errorf("%+v", p)
			}
		}
	})
}

// N1 and n2 are two of four voters. N3, which is left out, is off, and a foreign voter serves with them: neither could serve without n1 and n2. Once n1 is
// stopped there is no quorum any more, and n2 is stopped all the same.
func TestRestoreOutsiders_AFenceThatTakesTheQuorumAwayEnds(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.heldOn(t, 3)
		s.TakeBackup()
		s.joinsOn(t, "n4")
		s.pass(time.Minute)
		s.Node("n3").PowerOff()
		s.pass(time.Minute)
		o := fromBackup
		o.Without = []string{"n3"}
		s.order(o)
		if !s.until(20*time.Minute, s.restored) {
			t.Errorf("not restored: %s %+v %+v", s.told().Reason, s.told().Problems, s.Store().Records()[len(s.Store().Records())-1])
		}
		s.unbroken(t)
	})
}
