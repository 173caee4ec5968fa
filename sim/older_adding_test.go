package sim_test

import (
	"strings"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// copied grows a cluster of two by n3, and returns the copy of the store that was made at the first call at which its membership
// had no start on record and was so.
func (s *stage) copied(t *testing.T, so func(cke.Join) bool) sim.StoreCopy {
	t.Helper()
	s.declare(s.Nodes()[:2]...)
	s.daemon()
	if !s.until(convergence, s.settled) {
		t.Fatal("does not form")
	}
	c := s.copiedOnce(func(id cke.Identity, _ sim.Call) bool {
		j, joined := id.On(s.Node("n3").Declared())
		return joined && j.StartedAt.IsZero() && so(j)
	})
	s.declare(s.Nodes()[:3]...)
	if !s.until(convergence, func() bool { return s.settled() && c.made }) || !s.Write("n1", "acknowledged by three") {
		t.Fatal("has not grown")
	}
	s.pass(2 * time.Minute)
	return c.StoreCopy
}

// copies are when the store is copied while a member is added.
var copies = map[string]func(cke.Join) bool{
	"once its membership is on record": func(j cke.Join) bool { return j.MemberID == "" },
	"once its member id is":            func(j cke.Join) bool { return j.MemberID != "" },
}

// eachCopy plays a story after n3 was added and a copy of the store from before its start was brought back.
func eachCopy(t *testing.T, harm, story func(s *stage)) {
	t.Helper()
	for name, so := range copies {
		t.Run(name, func(t *testing.T) {
			play(t, 3, func(s *stage) {
				c := s.copied(t, so)
				s.TakeBackup()
				harm(s)
				s.broughtBack(c)
				s.pass(10 * time.Minute)
				story(s)
				if v := s.Violations(); v != nil {
					t.Error(strings.Join(v, "\n"))
				}
			})
		})
	}
}

// Where the member id is not in the copy either, and nothing of the member is left, nobody can tell whose voter stands there.
func TestOlderStore_OfAnAdditionWhoseMachineIsBlankSince(t *testing.T) {
	for name, so := range copies {
		t.Run(name, func(t *testing.T) {
			play(t, 3, func(s *stage) {
				c := s.copied(t, so)
				s.Node("n3").Blank()
				s.broughtBack(c)
				cluster := s.cluster(s.Nodes())
				cluster.Policies.Foreign, cluster.Policies.Replace.Mode = cke.ForeignRemove, cke.ReplaceAuto
				s.Store().SetSpec(cluster)
				s.pass(10 * time.Minute)
				s.must("healed", s.settled)
			})
		})
	}
}

// Nor does that keep another node from taking its place.
func TestOlderStore_OfAnAdditionWhoseMachineIsBlankAndTakenOut(t *testing.T) {
	for name, so := range copies {
		t.Run(name, func(t *testing.T) {
			play(t, 4, func(s *stage) {
				c := s.copied(t, so)
				s.Node("n3").Blank()
				s.broughtBack(c)
				cluster := s.cluster([]*sim.Node{s.Node("n1"), s.Node("n2"), s.Node("n4")})
				cluster.Policies.Foreign, cluster.Policies.Replace.Mode = cke.ForeignRemove, cke.ReplaceAuto
				s.Store().SetSpec(cluster)
				s.pass(time.Hour)
				s.must("grown", func() bool { return s.faults("n1", "n2", "n4") == nil })
			})
		})
	}
}

func (s *stage) cutOff(nodes ...string) {
	for _, n := range nodes {
		for _, from := range []string{sim.Management, "n1"} {
			s.Cut(from, n)
			s.Cut(n, from)
		}
	}
}

// The store is brought back from a copy that was made while n3 was added: its start is put on record, and it is started like any
// other voter.
func TestOlderStore_OfAnAddition(t *testing.T) {
	eachCopy(t, func(*stage) {}, func(s *stage) {
		if j := s.join("n3"); j.StartedAt.IsZero() || j.MemberID == "" || s.frozenFor(cke.FreezeOlderStore) || !s.settled() {
			t.Errorf("%+v", j)
		}
		s.Node("n3").StopByHand()
		s.pass(time.Minute)
		s.Node("n2").PowerOff()
		s.pass(time.Minute)
		if !s.Write("n1", "of two") {
			t.Errorf("n3 does not serve: %s", s.latest().decision.Reason)
		}
	})
}

// Other members are replaced since: an operator puts those on record, and the start of n3 with them.
func TestOlderStore_OfAnAdditionIsReclaimed(t *testing.T) {
	eachCopy(t, func(s *stage) { s.replaceAll(t, "n2") }, func(s *stage) {
		if !s.frozenFor(cke.FreezeOlderStore) {
			t.Fatal("not frozen")
		}
		s.reclaims(t)
		s.must("its start on record", func() bool { j := s.join("n3"); return !j.StartedAt.IsZero() && j.MemberID != "" && s.changed() })
	})
}

// Also where n3 does not run, and without it there is no quorum.
func TestOlderStore_OfAnAdditionStartsAStoppedVoter(t *testing.T) {
	eachCopy(t, func(s *stage) { s.Node("n3").StopByHand(); s.Node("n2").PowerOff() }, func(s *stage) {
		if !s.Write("n1", "of two") {
			t.Errorf("n3 is not started: %s", s.latest().decision.Reason)
		}
	})
}

// Requirement A1: n2 and n3 serve without n1. They are a quorum, whatever the store says of the start of n3.
func TestOlderStore_OfAnAdditionIsNotRestoredBesideItsVoters(t *testing.T) {
	eachCopy(t, func(s *stage) { s.latest().Kill(); s.cutOff("n2", "n3") }, func(s *stage) {
		life := s.Store().Identity().Incarnation.ID
		if s.told().Health == cke.HealthLost || !s.Write("n2", "of two") {
			t.Errorf("%s: %s", s.told().Health, s.told().Summary)
		}
		s.order(cke.RestoreOrder{Target: "file:///backups", Source: clusterName, Without: []string{"n2", "n3"}})
		s.pass(30 * time.Minute)
		if now := s.Store().Identity().Incarnation; now.ID != life || s.restored() {
			t.Errorf("restored: %+v", now)
		}
	})
}

// The volume of n3 is that of a voter: it is kept for as long as the file says, whoever removes its member.
func TestOlderStore_OfAnAdditionKeepsTheVolumeOfItsVoter(t *testing.T) {
	undeclare := func(s *stage) {
		c := s.cluster(s.Nodes()[:2])
		c.Nodes = append(c.Nodes, s.Nodes()[2].Declared())
		c.Nodes[2].ControlPlane, c.Policies.Volumes.OnRemoval = false, cke.VolumeRetain
		s.Store().SetSpec(c)
	}
	for name, leave := range map[string]func(s *stage){
		"taken out of the file":              undeclare,
		"removed manually":                   func(s *stage) { s.Forget("n3") },
		"taken out of the file while silent": func(s *stage) { s.Isolate("n3"); undeclare(s); s.pass(time.Hour); s.HealNetwork() },
		"taken out of the file, and stopped": func(s *stage) { s.Node("n3").StopByHand(); undeclare(s) },
	} {
		t.Run(name, func(t *testing.T) {
			eachCopy(t, func(*stage) {}, func(s *stage) {
				was := s.join("n3").ID
				leave(s)
				s.pass(3 * time.Hour)
				for _, j := range s.Store().Identity().Ended {
					if j.ID == was && (j.NeverVoted || !j.PurgedAt.IsZero()) {
						t.Errorf("given up as that of a learner: %+v", j)
					}
				}
				if _, lasts := s.Store().Identity().Join(was); lasts {
					t.Errorf("it has not ended: %s", s.latest().decision.Reason)
				}
			})
		})
	}
}

// A learner that runs, whose start the copy does not have, is started on its own data or given up for another one.
func TestOlderStore_OfAnAdditionStartsNoLearnerEmpty(t *testing.T) {
	for name, harm := range map[string]func(s *stage){
		"it runs":           func(*stage) {},
		"it is stopped":     func(s *stage) { s.Node("n3").StopByHand() },
		"its disk is blank": func(s *stage) { s.Node("n3").Blank() },
		"its node is off":   func(s *stage) { s.Node("n3").PowerOff() },
	} {
		for when, so := range copies {
			t.Run(name+", "+when, func(t *testing.T) {
				play(t, 3, func(s *stage) {
					s.declare(s.Nodes()[:2]...)
					s.daemon()
					if !s.until(convergence, s.settled) {
						t.Fatal("does not form")
					}
					var c sim.StoreCopy
					have, ran := false, false
					s.Judge = func(_ int, call sim.Call) sim.Verdict {
						id := s.Store().Identity()
						if j, joined := id.On(s.Node("n3").Declared()); !have && joined && j.StartedAt.IsZero() && so(j) {
							c, have = s.Store().Copy(), true
						}
						if !ran && have && call.Name == "Promote" {
							ran = true
							return sim.KillBefore
						}
						return sim.Proceed
					}
					s.declare(s.Nodes()...)
					if !s.until(convergence, func() bool { return ran }) {
						t.Fatal("no learner")
					}
					harm(s)
					s.Store().BringBack(c)
					s.daemon()
					s.pass(30 * time.Minute)
					s.Node("n3").PowerOn()
					s.must("as declared", s.changed)
					if v := s.Violations(); v != nil {
						t.Error(strings.Join(v, "\n"))
					}
				})
			})
		}
	}
}

// n3 has left since, and nothing but its archived volume, and a mark, is left of it: that is kept, and n3 gets another membership where the
// file declares it.
func TestOlderStore_OfAnAdditionKeepsTheArchiveOfAVoterThatLeft(t *testing.T) {
	undeclare := func(s *stage) {
		c := s.cluster(s.Nodes())
		c.Nodes[2].ControlPlane = false
		s.Store().SetSpec(c)
	}
	reclaim := func(s *stage) {
		if s.frozenFor(cke.FreezeOlderStore) {
			s.reclaim(t)
		}
	}
	for name, then := range map[string]struct{ harm, story func(s *stage) }{
		"declared":               {func(*stage) {}, func(s *stage) { s.must("as declared", s.changed) }},
		"taken out":              {func(s *stage) { s.Isolate("n3") }, func(s *stage) { undeclare(s); s.HealNetwork() }},
		"taken out while silent": {func(s *stage) { s.Isolate("n3") }, func(s *stage) { undeclare(s); s.pass(time.Hour); s.HealNetwork() }},
	} {
		t.Run(name, func(t *testing.T) {
			var was cke.Join
			eachCopy(t, func(s *stage) {
				was = s.join("n3")
				undeclare(s)
				s.must("without n3", func() bool { return s.changed() && s.join("n3").ID == "" })
				then.harm(s)
			}, func(s *stage) {
				reclaim(s)
				then.story(s)
				s.pass(10 * time.Minute)
				reclaim(s)
				s.pass(3 * time.Hour)
				if _, lasts := s.Store().Identity().Join(was.ID); lasts || !s.Node("n3").Holds(was.Volume) {
					t.Errorf("lasts %v, holds its data %v: %s", lasts, s.Node("n3").Holds(was.Volume), s.latest().decision.Reason)
				}
			})
		})
	}
}
