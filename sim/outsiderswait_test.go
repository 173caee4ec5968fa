package sim_test

import (
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// removedByHand lets an operator remove members of cke from the list, and remove their containers: what etcd said there of its removal is gone.
func (s *stage) removedByHand(t *testing.T, nodes ...string) {
	t.Helper()
	for _, n := range nodes {
		s.removedAndStopped(t, n)
		s.Node(n).RemoveContainers()
	}
}

// removedAndStopped lets an operator remove members of cke from the list, and stop them for good.
func (s *stage) removedAndStopped(t *testing.T, nodes ...string) {
	t.Helper()
	for _, n := range nodes {
		if !s.Node(n).Leave(n) {
			t.Error("not removed: ", n)
		}
		time.Sleep(time.Minute)
		s.Node(n).SwitchRestartsOff()
		s.Node(n).StopByHand()
	}
}

// endsWhileDataIsMade has the daemon end while a restore makes data, before it stops anybody.
func (s *stage) endsWhileDataIsMade() {
	killed := s.killedAt("RestoreData", func() {})
	s.order(fromBackup)
	s.must("ended while data is made", killed)
	s.Judge = nil
}

// endsAfterStops has the daemon end right after its nth stop of a member by a restore.
func (s *stage) endsAfterStops(t *testing.T, nth int) (ended func() bool) {
	calls := 0
	s.Judge = func(_ int, c sim.Call) sim.Verdict {
		if _, step := s.Store().Running(); step != "fence" || c.Name != "StopContainer" {
			return sim.Proceed
		}
		if calls++; calls == nth {
			return sim.KillAfter
		}
		return sim.Proceed
	}
	return func() bool { return calls >= nth }
}

// stopsAll has a restore stop n1, n2 and n3, and its daemon end after that. Another one leads then.
func (s *stage) stopsAll(t *testing.T) {
	t.Helper()
	ended := s.endsAfterStops(t, 3)
	s.order(fromBackup)
	if !s.until(20*time.Minute, ended) {
		t.Fatalf("not stopped: %s", s.told().Reason)
	}
	s.Judge = nil
	s.daemon()
}

// hides takes n4 and n5 out of the reach of cke, if they are to be silent.
func (s *stage) hides(silent bool) {
	if silent {
		s.Cut(sim.Management, "n4")
		s.Cut(sim.Management, "n5")
	}
}

// ends has a daemon lead, and the cluster restored or deleted.
func (s *stage) ends(what string) {
	s.daemon()
	s.pass(time.Minute)
	if what == "delete" {
		s.Store().RequestDelete()
	} else {
		s.order(fromBackup)
	}
	s.pass(30 * time.Minute)
}

// notServedBeside asks the foreign voters whether they serve though the cluster was restored or deleted.
func (s *stage) notServedBeside(t *testing.T, over bool) {
	t.Helper()
	t.Log(over, s.told().Reason)
	s.HealNetwork()
	if s.Write("n4", "to the former") && over {
		t.Error("restored or deleted while foreign voters serve")
	}
	s.unbroken(t)
}

// Foreign voters join while data is made. The restore waits, and says that it continues once they are removed. They are, the restore stops n1, and the daemon
// ends. The next one has to continue: what the operator was told to do is done.
func TestRestoreOutsiders_ContinuesOnceTheyAreRemovedAsItSaid(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.backedUpAlone(t)
		joined := false
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if !joined && c.Name == "RestoreData" {
				joined = true
				s.joinsOn(t, "n2", "n3")
			}
			return sim.Proceed
		}
		s.order(fromBackup)
		s.pass(10 * time.Minute)
		if s.restored() {
			t.Fatal("restored beside a quorum")
		}
		ended := s.endsAfterStops(t, 1)
		for _, n := range []string{"n3", "n2"} {
			s.leaves(t, n)
			s.Node(n).RemoveContainers()
		}
		if !s.until(20*time.Minute, ended) {
			t.Fatalf("n1 is not stopped: %s", s.told().Reason)
		}
		s.Judge = nil
		s.daemon()
		if !s.until(time.Hour, s.restored) {
			t.Errorf("not restored: %s", s.told().Reason)
		}
		s.unbroken(t)
	})
}

// A foreign voter, 1 of 4, answers all the time. The daemon ends once it has stopped n1, n2 and n3.
func TestRestoreOutsiders_ContinuesWhileAForeignVoterAnswers(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.heldOn(t, 3)
		s.TakeBackup()
		s.joinsOn(t, "n4")
		s.pass(time.Minute)
		s.stopsAll(t)
		if !s.until(time.Hour, s.restored) {
			t.Errorf("not restored: %s", s.told().Reason)
		}
		s.unbroken(t)
	})
}

// The same of a foreign learner, which cannot serve alone: it answers, and the restore says that it continues once it does.
func TestRestoreOutsiders_ContinuesWhileAForeignLearnerAnswers(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.heldOn(t, 3)
		s.TakeBackup()
		if !s.Node("n4").JoinLearner("hand-n4") {
			t.Fatal("does not join")
		}
		s.Node("n4").Keep("hand-n4")
		s.pass(time.Minute)
		s.stopsAll(t)
		if !s.until(time.Hour, s.restored) {
			t.Errorf("not restored: %s", s.told().Reason)
		}
		s.unbroken(t)
	})
}

// A foreign voter, 1 of 4, is out of the reach of cke, and the daemon ends once it has stopped n1, n2 and n3. The operator cancels the restore, and orders it
// again once they run, as it says.
func TestRestoreOutsiders_CancelAndOrderAgainHelps(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.heldOn(t, 3)
		s.TakeBackup()
		s.joinsOn(t, "n4")
		s.pass(time.Minute)
		s.Cut(sim.Management, "n4")
		s.stopsAll(t)
		s.pass(10 * time.Minute)
		s.ask(cke.TaskCancelRestore, "", "", "")
		if !s.until(10*time.Minute, func() bool { return !s.restoring() }) {
			t.Error("not canceled", s.told().Reason)
		}
		s.pass(10 * time.Minute)
		s.order(fromBackup)
		if !s.until(time.Hour, s.restored) {
			t.Errorf("not restored: %s", s.told().Reason)
		}
		s.unbroken(t)
	})
}

// N1 is cut off from the others, answers, and has an old list with n4. Then n5 joins, n1, n2 and n3 are removed, and n4 and n5 serve.
func TestOutsiders_AnOutdatedListDoesNotSpeakForForeignVoters(t *testing.T) {
	for _, what := range []string{"restore", "delete"} {
		for _, silent := range []bool{false, true} {
			t.Run(what+map[bool]string{true: ", silent", false: ", answers"}[silent], func(t *testing.T) {
				play(t, 5, func(s *stage) {
					s.heldOn(t, 3)
					s.TakeBackup()
					s.joinsOn(t, "n4")
					s.pass(time.Minute)
					s.latest().Kill()
					s.cutFromMembers("n1", "n2", "n3", "n4", "n5")
					time.Sleep(time.Minute)
					for _, n := range []string{"n1", "n2"} {
						if !s.Node(n).Leave(n) {
							t.Log("not removed: ", n)
						}
						time.Sleep(time.Minute)
						if n == "n1" {
							s.joinsOn(t, "n5")
						}
					}
					s.removedByHand(t, "n3")
					s.Node("n2").SwitchRestartsOff()
					s.Node("n2").StopByHand()
					s.hides(silent)
					s.ends(what)
					s.notServedBeside(t, s.Store().Deleted() || s.restored() || s.restoring() && s.Store().Identity().Started())
				})
			})
		}
	}
}

// As before, of a restore whose daemon ends while it makes data.
func TestRestoreOutsiders_AnOutdatedListDoesNotSpeakForForeignVoters(t *testing.T) {
	for _, silent := range []bool{false, true} {
		t.Run(map[bool]string{true: "silent", false: "answers"}[silent], func(t *testing.T) {
			play(t, 5, func(s *stage) {
				s.heldOn(t, 3)
				s.TakeBackup()
				s.joinsOn(t, "n4")
				s.pass(time.Minute)
				s.endsWhileDataIsMade()
				s.cutFromMembers("n1", "n2", "n3", "n4", "n5")
				time.Sleep(time.Minute)
				s.joinsOn(t, "n5")
				for _, n := range []string{"n1", "n2", "n3"} {
					if !s.Node(n).Leave(n) {
						t.Log("not removed: ", n)
					}
					time.Sleep(time.Minute)
				}
				for _, n := range []string{"n2", "n3"} {
					s.Node(n).SwitchRestartsOff()
					s.Node(n).StopByHand()
				}
				s.hides(silent)
				s.daemon()
				if s.until(30*time.Minute, s.restored) {
					t.Error("restored")
				}
				s.notServedBeside(t, s.restored())
			})
		})
	}
}

// A restore is under way, and its daemon ends while it makes data. Then all members of cke leave the list and end, n4 and n5 serve, and the operator deletes
// the cluster instead.
func TestDeleteOutsiders_OfARestoreUnderWay(t *testing.T) {
	for _, silent := range []bool{false, true} {
		t.Run(map[bool]string{true: "silent", false: "answers"}[silent], func(t *testing.T) {
			play(t, 5, func(s *stage) {
				s.heldOn(t, 3)
				s.TakeBackup()
				s.joinsOn(t, "n4")
				s.pass(time.Minute)
				s.endsWhileDataIsMade()
				s.joinsOn(t, "n5")
				time.Sleep(time.Minute)
				for _, n := range []string{"n1", "n2", "n3"} {
					if !s.Node(n).Leave(n) {
						t.Log("not removed: ", n)
					}
					time.Sleep(time.Minute)
					s.Node(n).SwitchRestartsOff()
					s.Node(n).StopByHand()
				}
				s.hides(silent)
				s.Store().RequestDelete()
				s.daemon()
				s.pass(30 * time.Minute)
				s.notServedBeside(t, s.Store().Deleted())
			})
		})
	}
}
