package sim_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// n3 and two foreign voters are cut off from cke, and serve. A recovery calls them destroyed, and is canceled after it has stopped n1 and n2. The next
// order only leaves n3 out: nobody reports a member list, and the foreign voters count all the same.
func TestRestore_RemembersTheMemberListOfARestoreThatWasCanceled(t *testing.T) {
	for name, another := range map[string]bool{"the same daemon": false, "another daemon": true} {
		t.Run(name, func(t *testing.T) {
			play(t, 5, func(s *stage) {
				_, names := s.heldForeign(t, 3)
				s.TakeBackup()
				for _, n := range s.Nodes()[2:] {
					for _, from := range []string{sim.Management, "n1", "n2"} {
						s.Cut(from, n.Name())
					}
				}
				s.pass(time.Minute)
				if !s.Write("n3", "late") {
					t.Fatal("the others do not serve")
				}
				s.Node("n1").FillDisk()
				s.order(cke.RestoreOrder{Survivor: "n1", Destroyed: append(names, "n3")})
				s.must("begun", func() bool { return s.Store().Identity().Incarnation.State == cke.Restoring })
				s.pass(time.Minute)
				s.Store().Ask("pause", func(r *cke.Requests) { r.Hold = &cke.Hold{Reason: "it was a mistake"} })
				s.ask(cke.TaskCancelRestore, "", "", "")
				s.must("canceled", func() bool { return s.Store().Identity().Incarnation.State == cke.Formed && len(s.asked()) == 0 })
				s.Node("n1").FreeDisk()
				if another {
					s.latest().Kill()
					s.daemon()
				}
				s.pass(time.Minute)
				s.order(cke.RestoreOrder{Target: fromBackup.Target, Source: fromBackup.Source, Without: []string{"n3"}})
				s.pass(time.Minute)
				s.Store().Ask("resume", func(r *cke.Requests) { r.Hold = nil })
				s.pass(20 * time.Minute)
				if s.restored() || len(s.asked()) > 0 {
					t.Errorf("restored %v, or not refused, while others serve: %s", s.restored(), s.told().Reason)
				}
				s.unbroken(t)
			})
		})
	}
}

// joinsAtRestore restores a cluster of n1 from a backup. While its data is made, two foreign voters join it, and then something else happens.
func (s *stage) joinsAtRestore(t *testing.T, then func(foreign []*sim.Node)) {
	t.Helper()
	s.backedUpAlone(t)
	s.joinsMeanwhile(t, then)
}

// backedUpAlone forms a cluster of n1, and backs it up.
func (s *stage) backedUpAlone(t *testing.T) {
	t.Helper()
	s.heldOn(t, 1)
	s.TakeBackup()
}

// joinByHand lets an operator add members on all other nodes than the first.
func (s *stage) joinByHand(t *testing.T) {
	t.Helper()
	for _, n := range s.Nodes()[1:] {
		s.joinsOn(t, n.Name())
	}
}

func (s *stage) joinsMeanwhile(t *testing.T, then func(foreign []*sim.Node)) {
	t.Helper()
	joined := false
	s.Judge = func(_ int, c sim.Call) sim.Verdict {
		if !joined && c.Name == "RestoreData" {
			joined = true
			s.joinByHand(t)
			then(s.Nodes()[1:])
		}
		return sim.Proceed
	}
	s.order(fromBackup)
	s.pass(20 * time.Minute)
	if !joined {
		t.Fatal("no data was made")
	}
}

// No list is read through a quorum before the restore stops n1: foreign voters may be a quorum without it.
func TestRestore_StopsNobodyByAMemberListThatCannotBeRead(t *testing.T) {
	for name, then := range map[string]func(s *stage, foreign []*sim.Node){
		"lists are not answered": func(s *stage, _ []*sim.Node) { s.MuteLists(true) },
		"the foreign voters are cut off from n1 and cke": func(s *stage, foreign []*sim.Node) {
			for _, n := range foreign {
				s.Cut(sim.Management, n.Name())
				s.Cut("n1", n.Name())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, 3, func(s *stage) {
				s.joinsAtRestore(t, func(foreign []*sim.Node) { then(s, foreign) })
				if s.restored() {
					t.Errorf("restored beside foreign voters: %s", s.told().Reason)
				}
				s.MuteLists(false)
				s.HealNetwork()
				s.ask(cke.TaskCancelRestore, "", "", "")
				s.pass(20 * time.Minute)
				if s.Store().Identity().Incarnation.State != cke.Formed || !s.Write("n2", "later") {
					t.Errorf("not canceled, or it takes no writes: %s", s.told().Reason)
				}
				s.unbroken(t)
			})
		})
	}
}

// Two foreign voters join n1 while its data is made, and the daemon dies. The next one reads the list; then n1, which the restore stops, answers no more.
func TestRestore_StopsNobodyBesideForeignVotersThatWereReadBefore(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.backedUpAlone(t)
		joined, begins := false, 0
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			switch {
			case joined && c.Name == "AppendRecord": // an operation begins
				if begins++; begins == 1 {
					s.Node("n1").FilterClientPort(true)
				}
				return sim.Proceed
			case joined || c.Name != "RestoreData":
				return sim.Proceed
			}
			joined = true
			s.joinByHand(t)
			return sim.KillBefore
		}
		s.order(fromBackup)
		s.until(20*time.Minute, func() bool { s.succeed(); return false })
		if begins == 0 || s.restored() {
			t.Errorf("%d operations began; restored %v beside foreign voters: %s", begins, s.restored(), s.told().Reason)
		}
		s.unbroken(t)
	})
}

// Two foreign voters join n1 while its data is made, and the daemon reads that meanwhile. Then n1 answers no more, before it is stopped: what was read
// while the restore was under way counts, too.
func TestRestore_StopsNobodyBesideForeignVotersThatWereReadUnderWay(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.backedUpAlone(t)
		s.latest().Kill()
		joined, silent := false, false
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			switch {
			case !joined && c.Name == "RestoreData":
				joined = true
				s.joinByHand(t)
				s.Node("n1").SlowDown(10 * time.Second) // the loop looks meanwhile
			case joined && !silent && c.Name == "Data":
				silent = true
				s.Node("n1").SlowDown(0)
				s.Node("n1").FilterClientPort(true)
			}
			return sim.Proceed
		}
		s.order(fromBackup)
		s.loop()
		s.pass(20 * time.Minute)
		if !silent || s.restored() {
			t.Errorf("silent %v, restored %v beside foreign voters: %s", silent, s.restored(), s.told().Reason)
		}
		s.unbroken(t)
	})
}

// Foreign voters that joined since a restore was put on record count when the cluster is deleted instead.
func TestDelete_CountsForeignVotersThatJoinedWhileARestoreWasPrepared(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.joinsAtRestore(t, func([]*sim.Node) { s.Store().RequestDelete() })
		if s.Store().Deleted() || !s.reports(cke.CodeStranger, "hand-n2") {
			t.Errorf("deleted %v while foreign voters serve: %s", s.Store().Deleted(), s.told().Reason)
		}
		s.unbroken(t)
	})
}

// The management host is lost, and the cluster is restored from a new one while it serves. Foreign voters that join it meanwhile count, and n1, which
// may know of some and answers no more, is not stopped. Once the operator has stopped it, the restore continues.
func TestRestore_OnANewHostCountsForeignVotersThatJoinMeanwhile(t *testing.T) {
	for name, then := range map[string]func(*stage){
		"":        func(*stage) {},
		"silence": func(s *stage) { s.Node("n1").FilterClientPort(true) },
	} {
		t.Run(name, func(t *testing.T) {
			play(t, 3, func(s *stage) {
				s.backedUpAlone(t)
				s.burnt()
				s.pass(time.Minute)
				s.joinsMeanwhile(t, func([]*sim.Node) { then(s) })
				if s.restored() {
					t.Errorf("restored beside foreign voters: %s", s.told().Reason)
				}
				s.unbroken(t)
			})
		})
	}
	play(t, 1, func(s *stage) {
		s.backedUpAlone(t)
		s.burnt()
		s.pass(time.Minute)
		s.Node("n1").FilterClientPort(true)
		s.order(fromBackup)
		s.pass(20 * time.Minute)
		if _, why := s.latest().now(); s.restored() || !strings.Contains(fmt.Sprint(why.Problems), "docker stop") {
			t.Errorf("restored %v: %+v", s.restored(), why.Problems)
		}
		s.Node("n1").StopByHand()
		s.Node("n1").FilterClientPort(false)
		s.must("restored", s.restored)
		s.unbroken(t)
	})
}
