package sim_test

import (
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// The foreign voters on n2 and n3 run in no container, at the URLs of foreign containers there that are stopped for good, and cke cannot reach their
// client ports. N1 serves through a quorum, so one of them at least runs.
func TestDeleteOutsiders_AVoterWithoutWhichThereIsNoQuorumIsNotDownBesideAStoppedContainer(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.keptOn("n1")
		for _, n := range []string{"n2", "n3"} {
			s.joinsOn(t, n)
			s.pass(time.Minute)
			s.leaves(t, n)
			s.pass(time.Minute)
			if !s.Node(n).JoinAs("bare-"+n, s.Node(n).Declared().Address) {
				t.Error("cannot join")
			}
			s.pass(time.Minute)
			s.Node(n).FilterClientPort(true)
		}
		s.pass(time.Minute)
		s.Store().RequestDelete()
		s.pass(20 * time.Minute)
		deleted := s.Store().Deleted()
		s.Node("n2").FilterClientPort(false)
		if deleted && s.Write("n2", "to the former") {
			t.Error("deleted while foreign voters serve")
		}
		s.unbroken(t)
	})
}

// The record on the new host is from before the member moved from n1 to n2, which did not answer when a restore began. The restore waits for it, and the
// cluster is deleted in its place. N2 is no foreign member.
func TestDeleteOutsiders_AMemberThatIsNotOnRecordIsNotForeign(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.Store().SetSpec(s.held("n1"))
		s.daemon()
		s.must("formed", s.settled)
		s.Write("n1", "kept")
		s.TakeBackup()
		beside := s.Store().Copy()
		s.Store().SetSpec(s.held("n2"))
		s.must("moved", s.settled)
		s.pass(2 * time.Minute)
		s.Node("n2").FilterClientPort(true)
		s.latest().Kill()
		s.declaredFrom(beside)
		s.Store().SetSpec(s.held("n1", "n2"))
		s.pass(time.Minute)
		s.order(fromBackup)
		s.pass(5 * time.Minute)
		if !s.restoring() {
			t.Errorf("not restoring: %s", s.told().Reason)
		}
		s.Store().RequestDelete()
		s.pass(time.Minute)
		s.Node("n2").FilterClientPort(false)
		if !s.until(time.Hour, func() bool { return s.Store().Deleted() }) {
			t.Errorf("not deleted: %s: %+v", s.told().Reason, s.told().Problems)
		}
		s.unbroken(t)
	})
}

// The engine of n1 is slow. Foreign voters join after the restore has asked the members, and the daemon reads that long before n1 is stopped.
func TestRestoreOutsiders_ARestoreThatStopsMembersCountsWhatIsReadMeanwhile(t *testing.T) {
	for _, host := range []string{"the same host", "a new host"} {
		t.Run(host, func(t *testing.T) {
			play(t, 3, func(s *stage) {
				s.backedUpAlone(t)
				if host == "a new host" {
					s.burnt()
				}
				s.latest().Kill()
				s.loop()
				s.pass(time.Minute)
				joined := false
				s.Judge = func(_ int, c sim.Call) sim.Verdict {
					operation, step := s.Store().Running()
					if operation == "restore" && (step == "stop" || step == "fence" || step == "check-fence") && !joined {
						joined = true
						s.Node("n1").SlowDown(10 * time.Second)
						s.joinByHand(t)
					}
					return sim.Proceed
				}
				s.order(fromBackup)
				s.pass(20 * time.Minute)
				s.Write("n2", "to the former")
				if !joined {
					t.Error("not joined")
				}
				s.unbroken(t)
			})
		})
	}
}

// Foreign voters join while data is made, of which one never runs, and are gone for good. What the refusal advises ends with a restored cluster.
func TestRestoreOutsiders_TheAdviceOfARefusalEnds(t *testing.T) {
	for _, host := range []string{"the same host", "a new host"} {
		t.Run(host, func(t *testing.T) {
			play(t, 4, func(s *stage) {
				s.backedUpAlone(t)
				if host == "a new host" {
					s.burnt()
					s.pass(time.Minute)
				}
				s.onceAt("RestoreData", func() {
					s.joinsOn(t, "n2", "n3")
					if !s.Node("n4").Join("hand-n4", false) {
						t.Error("not added")
					}
				})
				s.order(fromBackup)
				s.pass(5 * time.Minute)
				s.Node("n2").PowerOff()
				s.Node("n3").PowerOff()
				s.pass(time.Minute)
				s.ask(cke.TaskCancelRestore, "", "", "")
				s.pass(5 * time.Minute)
				o := fromBackup
				o.Destroyed = []string{"hand-n2", "hand-n3"}
				for _, m := range s.told().Etcd.Members {
					if m.Name == "" {
						o.Destroyed = append(o.Destroyed, m.ID)
					}
				}
				s.order(o)
				if !s.until(20*time.Minute, s.restored) {
					t.Errorf("not restored: %v %+v %+v", o.Destroyed, s.told().Reason, s.told().Problems)
				}
				s.unbroken(t)
			})
		})
	}
}

// As AForeignVoterWithTheNameOfADestroyedNodeCounts; n1 is cut off from the others, and a recovery continues from it.
func TestRecoverOutsiders_AForeignVoterWithTheNameOfADestroyedNodeCounts(t *testing.T) {
	play(t, 5, func(s *stage) {
		s.heldOn(t, 3)
		s.Node("n2").PowerOff()
		s.replacedByHand(t, "n2", "n2", "n4")
		s.Node("n3").PowerOff()
		s.replacedByHand(t, "n3", "n3", "n5")
		for _, n := range []string{"n4", "n5"} {
			s.Cut("n1", n)
			s.Cut(n, "n1")
		}
		s.pass(time.Minute)
		s.order(cke.RestoreOrder{Survivor: "n1", Destroyed: []string{"n2", "n3"}})
		s.pass(20 * time.Minute)
		s.Write("n4", "to the former")
		s.unbroken(t)
	})
}
