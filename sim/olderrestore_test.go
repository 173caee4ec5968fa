package sim_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// hibernates has all members stopped for a person, and the daemon ended; the copy that is brought back then knows of no such wish.
func (s *stage) hibernates() {
	s.t.Helper()
	s.Store().Hibernate(true)
	s.must("hibernates", func() bool { return s.runningOn("n1")+s.runningOn("n2")+s.runningOn("n3") == 0 })
	s.latest().Kill()
	s.Store().Hibernate(false)
}

// reports reports whether the status has a problem of a code on a node.
func (s *stage) reports(code cke.Code, node string) bool {
	return slices.ContainsFunc(s.told().Problems, func(p cke.Problem) bool { return p.Code == code && (node == "" || p.Node == node) })
}

// The store is copied while a restore is being prepared, and brought back once the restored cluster has served: what the restored
// members hold is not made anew, whether they run or not, and engines go on starting them.
func TestOlderStore_OfARestore(t *testing.T) {
	for name, harm := range map[string]func(s *stage){
		"all serve":   func(*stage) {},
		"hibernate":   (*stage).hibernates,
		"all stopped": func(s *stage) { s.eachNode((*sim.Node).StopByHand) },
		"power fails": func(s *stage) { s.pass(10 * time.Minute); s.eachNode((*sim.Node).PowerOff) },
	} {
		for _, options := range []bool{false, true} { // the members were restarted with other options since
			for _, order := range []cke.RestoreOrder{toldStored, fromBackup} {
				t.Run(fmt.Sprintf("%s, other options %v, stored %v", name, options, order.Stored), func(t *testing.T) {
					t.Parallel()
					play(t, 3, func(s *stage) {
						s.backedUp()
						copied := s.copiedOnce(func(id cke.Identity, c sim.Call) bool {
							return id.Incarnation != nil && id.Incarnation.State == cke.Restoring && !id.Started() && c.Port == "node"
						})
						s.order(order)
						s.must("restored", func() bool { return s.restored() && s.settled() && copied.made })
						if options {
							c := s.cluster(s.Nodes())
							c.Options.Etcd.ExtraArgs = []string{"--quota-backend-bytes=4000000000"}
							s.Store().SetSpec(c)
							s.must("changed", s.changed)
						}
						if !s.Write("n1", "acknowledged") {
							t.Fatal("not written")
						}
						s.pass(2 * time.Minute)
						written := s.Written()
						harm(s)
						s.broughtBack(copied.StoreCopy)
						s.pass(30 * time.Minute)
						s.eachNode((*sim.Node).PowerOn)
						s.must("reported", func() bool { return s.reports(cke.CodeOlderStore, "") })
						if name == "hibernate" || name == "all stopped" {
							s.eachNode((*sim.Node).StartByHand)
						}
						s.pass(time.Minute)
						if !s.Write("n2", "afterwards") || !slices.Equal(s.Written(), append(written, "afterwards")) {
							t.Errorf("%v was written, and %v is there; %s", written, s.Written(), s.latest().decision.Reason)
						}
						for _, v := range s.Violations() {
							t.Error(v)
						}
					})
				})
			}
		}
	}
}

// The store is brought back from a copy from before a restore, while the restored cluster hibernates: the cluster that was replaced
// is not started beside it.
func TestOlderStore_FromBeforeARestoreThatHibernates(t *testing.T) {
	for _, hibernates := range []bool{false, true} {
		play(t, 3, func(s *stage) {
			s.backedUp()
			copied := s.Store().Copy()
			s.order(toldStored)
			s.must("restored", func() bool { return s.restored() && s.settled() })
			if !s.Write("n1", "acknowledged") {
				t.Fatal("not written")
			}
			s.pass(2 * time.Minute)
			if hibernates {
				s.hibernates()
			}
			s.broughtBack(copied)
			s.must("frozen", func() bool { return s.frozenFor(cke.FreezeOlderStore) })
			s.pass(30 * time.Minute)
			s.eachNode((*sim.Node).StartByHand)
			s.pass(time.Minute)
			if got := s.Written(); !slices.Contains(got, "acknowledged") {
				t.Errorf("hibernates %v: holds %v", hibernates, got)
			}
			for _, v := range s.Violations() {
				t.Errorf("hibernates %v: %s", hibernates, v)
			}
		})
	}
}

// A restored member that its peers do not reach, and the management host does, is not waited for: the others are a quorum.
func TestRestore_GoesOnWithoutAMemberThatItsPeersDoNotReach(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.backedUp()
		cut := false
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if id := s.Store().Identity(); !cut && id.Incarnation.State == cke.Restoring && id.Started() && c.Name == "StartContainer" {
				cut = true
				for _, other := range []string{"n1", "n2"} {
					s.Cut("n3", other)
					s.Cut(other, "n3")
				}
			}
			return sim.Proceed
		}
		s.order(toldStored)
		if !s.until(10*time.Minute, func() bool { return cut && s.restored() }) {
			t.Fatalf("not restored: %s", s.latest().decision.Reason)
		}
		s.HealNetwork()
		s.must("healed", s.settled)
	})
}

// A founder that was killed for want of memory, whose bootstrap does not end for that, holds nothing: the others prove it. With a
// corrected file the bootstrap begins anew.
func TestBootstrap_BeginsAnewWithoutAFounderThatWasKilled(t *testing.T) {
	for _, at := range []string{"StartContainer", "ProveWrite"} {
		play(t, 3, func(s *stage) {
			short := true
			s.Judge = func(_ int, c sim.Call) sim.Verdict {
				id := s.Store().Identity()
				if short && id.Incarnation != nil && id.Incarnation.State == cke.Forming && id.Started() && c.Name == at {
					s.Node("n3").KillEtcd()
				}
				return sim.Proceed
			}
			s.daemon()
			s.pass(3 * time.Minute)
			short = false
			c := s.cluster(s.Nodes())
			c.Options.Etcd.Resources.Memory = 1 << 30
			s.Store().SetSpec(c)
			s.must("formed at "+at, s.settled)
		})
	}
}

// A founder of a bootstrap that was given up comes back once another life is formed, and its engine starts it: while it does not answer
// it may hold what clients wrote, and is reported with its name. It goes once it answers.
func TestBootstrap_ReportsAFounderOfAnEarlierLifeThatIsKept(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.declare(s.Nodes()[:3]...)
		kept, dead := 0, false
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			inc := s.Store().Identity().Incarnation
			switch {
			case dead || inc == nil || inc.State != cke.Forming:
			case c.Name == "PutJoins" && kept > 0, c.Name == "UpdateIncarnation":
				dead = true
				return sim.KillBefore
			case c.Name == "KeepRunning":
				kept++
			}
			return sim.Proceed
		}
		s.daemon()
		if !s.until(convergence, func() bool { return dead }) {
			t.Fatal("the bootstrap ended")
		}
		s.Node("n3").PowerOff()
		s.declare(s.Node("n1"), s.Node("n2"), s.Node("n4"))
		s.daemon()
		s.must("formed without n3", s.settled)
		s.Node("n3").FilterClientPort(true)
		s.Node("n3").PowerOn()
		s.declare(s.Nodes()...)
		s.must("reported", func() bool { return s.reports(cke.CodeOlderStore, "n3") })
		s.pass(10 * time.Minute)
		if containers, _ := s.Node("n3").Look(); len(containers) != 1 || !containers[0].Running() {
			t.Errorf("%+v", containers)
		}
		s.Node("n3").FilterClientPort(false)
		s.must("as declared", s.changed)
	})
}

// The store is brought back from a copy from before a learner was put on record, of which only the empty volume is there, and a person
// restores the cluster: that volume is of a life that was replaced, and on record nowhere. It is reported until the operator removes it.
func TestOlderStore_ReportsWhatARestoreHasReplaced(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.declare(s.Nodes()[:3]...)
		s.backedUp()
		copied := s.Store().Copy()
		dead := s.killedAt("EnsureVolume", func() {})
		s.declare(s.Nodes()...)
		s.comesTo(dead)
		s.Judge = nil
		s.broughtBack(copied)
		s.declare(s.Nodes()...)
		s.must("frozen", func() bool { return s.frozenFor(cke.FreezeOlderStore) })
		_, left := s.Node("n4").Look()
		s.order(fromBackup)
		s.must("restored", func() bool { return s.restored() && s.settled() })
		purge := "if its data is not needed: ckecli volume purge " + left[0].Name
		if !slices.ContainsFunc(s.told().Problems, func(p cke.Problem) bool { return p.Code == cke.CodeNotOnRecord && p.Remedy == purge }) {
			t.Errorf("%+v", s.told().Problems)
		}
		s.ask(cke.TaskPurge, "", left[0].Name, "")
		s.must("removed", func() bool {
			_, is := s.Node("n4").Look()
			return len(is) == 1 && is[0].Name != left[0].Name && s.answered()
		})
		s.must("told no more", func() bool { return !s.reports(cke.CodeNotOnRecord, "") })
		for _, v := range s.Violations() {
			t.Error(v)
		}
	})
}
