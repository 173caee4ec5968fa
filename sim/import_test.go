package sim_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// imports begins with an old cluster on the last machines of the world, which holds a write, and declares the first three.
func (s *stage) imports(t *testing.T, plain bool) (old []*sim.Node) {
	old = s.Nodes()[3:]
	s.RunOld(plain, old...)
	s.pass(time.Minute)
	s.Import(s.cluster(s.Nodes()[:3]), plain, old...)
	if !s.Write(old[0].Name(), "from before") {
		t.Fatal("the old cluster takes no write")
	}
	s.daemon()
	return old
}

// imported reports whether all members are those of cke, as declared.
func (s *stage) imported() bool {
	inc := s.Store().Identity().Incarnation
	return s.settled() && s.OldMembers() == 0 && !inc.Import.EndedAt.IsZero() && len(s.notImported()) == 0
}

// notImported is what is not as declared; what carried the old members is kept.
func (s *stage) notImported() []string {
	return slices.DeleteFunc(s.faults("n1", "n2", "n3"), func(f string) bool {
		return strings.Contains(f, "container old of life") || strings.Contains(f, "volume old of life")
	})
}

// An old cluster keeps its id and its writes, and its members leave only once each declared node has a voter.
func TestImport_MembersOfCkeTakeThePlaceOfThoseOfAnOldCluster(t *testing.T) {
	for _, machines := range []int{1, 2, 3} {
		for _, plain := range []bool{false, true} {
			play(t, 3+machines, func(s *stage) {
				old := s.imports(t, plain)
				id := s.Store().Identity().Incarnation.ClusterID
				if !s.until(convergence, s.imported) {
					dec, _ := s.latest().now()
					t.Fatal(describeDecision(1, dec), strings.Join(s.notImported(), "\n"), fmt.Sprint(s.World))
				}
				if now := s.Store().Identity(); now.Incarnation.ClusterID != id || slices.ContainsFunc(now.Joins, func(j cke.Join) bool { return j.PlainPeers }) {
					t.Errorf("%+v", now)
				}
				if !s.Write("n1", "after") || s.Write(old[0].Name(), "to the old one") {
					t.Error("writes go elsewhere than to the members of cke")
				}
				for _, n := range old {
					n.Reboot()
					n.StartByHand() // one that has left does not come back
				}
				s.pass(time.Hour)
				if !s.imported() {
					t.Error("an old member came back")
				}
			})
		}
	}
}

// The operator may keep the old members until clients have moved.
func TestImport_KeepsTheOldMembersUntilTheOperatorContinues(t *testing.T) {
	play(t, 6, func(s *stage) {
		old := s.imports(t, true)
		s.KeepOld()
		s.pass(2 * time.Hour)
		if s.OldMembers() != 3 || s.Serving() != 6 || !s.Write("n1", "through the new ones") || !s.Write(old[0].Name(), "through the old ones") {
			t.Fatal(fmt.Sprint(s.World))
		}
		s.Store().Ask("continue", func(r *cke.Requests) {
			r.Tasks = append(r.Tasks, cke.NewTask(cke.TaskImport, "", cke.ImportContinue, "ann@boot-1", time.Now()))
		})
		if !s.until(convergence, s.imported) {
			dec, _ := s.latest().now()
			t.Error(describeDecision(1, dec))
		}
	})
}

// Old machines may be destroyed while the quorum needs them. By the word of the operator, and only of all of them, the cluster is
// recovered from a member of cke, which has every acknowledged write.
func TestImport_IsRecoveredWhenTheOldMachinesAreDestroyed(t *testing.T) {
	play(t, 6, func(s *stage) {
		old := s.imports(t, true)
		s.KeepOld()
		if !s.until(convergence, func() bool { return len(s.Store().Identity().Joins) == 3 && s.Serving() == 6 }) || !s.Write("n1", "before") {
			t.Fatal("members of cke do not vote")
		}
		for _, n := range old {
			n.PowerOff()
		}
		s.pass(time.Hour)
		for _, destroyed := range [][]string{nil, {"n4"}, {"n4", "n5"}} {
			s.order(cke.RestoreOrder{Survivor: "n1", Destroyed: destroyed})
			s.pass(10 * time.Minute)
			if r := s.Store().Records(); r[len(r)-1].Refusal == nil || !strings.Contains(r[len(r)-1].Refusal.What, "while members of the old cluster vote") {
				t.Fatalf("%v: %+v", destroyed, r[len(r)-1])
			}
		}
		s.order(cke.RestoreOrder{Survivor: "n1", Destroyed: []string{"n4", "n5", "n6"}})
		if !s.until(convergence, func() bool {
			return s.settled() && s.Serving() == 3 && s.Store().Identity().Incarnation.Importing() == nil
		}) {
			dec, _ := s.latest().now()
			t.Fatal(describeDecision(1, dec), s.Store().Records()[len(s.Store().Records())-1])
		}
		if !s.Write("n2", "after") {
			t.Error("no write is taken")
		}
		if v := s.Violations(); v != nil {
			t.Error(v)
		}
	})
}

// Another cluster of the name may serve on the nodes: then no member is added anywhere.
func TestImport_StartsOnlyOnNodesThatHoldNothing(t *testing.T) {
	play(t, 6, func(s *stage) {
		s.Node("n1").AddVolume(cke.Volume{Name: "etcd-cke.000000000000", Cluster: clusterName, Incarnation: "unknown", Join: "000000000000"})
		s.imports(t, false)
		s.pass(time.Hour)
		dec, _ := s.latest().now()
		if len(s.Store().Identity().Joins) > 0 || dec.Operation != nil || !named(dec.Blockers, "n1", cke.CodeLeftover) {
			t.Fatal(describeDecision(1, dec))
		}
		s.Node("n1").Remove("etcd-cke.000000000000")
		if !s.until(convergence, s.imported) {
			dec, _ := s.latest().now()
			t.Error(describeDecision(1, dec))
		}
	})
}

// Each call may kill the daemon, halfway or late: the end is the same, and no rule of the checker is broken.
func TestImport_EndsAsDeclaredFromEveryCrashPoint(t *testing.T) {
	t.Parallel()
	fromEveryCrashPoint(t, 12, 1, func(seed uint64, judge judge) (calls int, faults []string) {
		play(t, 6, func(s *stage) {
			s.imports(t, true)
			begin := s.Calls()
			s.Judge = func(n int, _ sim.Call) sim.Verdict { return judge(s, n-begin) }
			if seed > 0 {
				s.Pick = rand.New(rand.NewPCG(seed, 0)).IntN
			}
			done := func() bool { s.succeed(); return s.imported() }
			ok := s.until(4*convergence, done)
			calls = s.Calls() - begin
			s.Land()
			for _, d := range s.drivers {
				d.Wake()
			}
			if !ok || !s.until(convergence, done) {
				dec, _ := s.latest().now()
				faults = append(s.notImported(), "is not imported: "+describeDecision(s.latest().Number(), dec))
			}
			faults = append(faults, s.Violations()...)
		})
		return calls, faults
	})
}

// Until the last old member has left the operator can turn back: the old cluster is as it was, without a member of cke.
func TestImport_IsReverted(t *testing.T) {
	for left := range 3 { // old members that have left by then
		play(t, 6, func(s *stage) {
			s.imports(t, true)
			ask := func(subject string) {
				s.Store().Ask(subject, func(r *cke.Requests) {
					r.Tasks = append(r.Tasks, cke.NewTask(cke.TaskImport, "", subject, "ann@boot-1", time.Now()))
				})
			}
			if !s.until(convergence, func() bool { return s.OldMembers() == 3-left && len(s.Store().Identity().Joins) == 3 }) {
				t.Fatal("the import does not come that far")
			}
			ask(cke.ImportRevert)
			reverted := func() bool {
				return len(s.Store().Identity().Joins) == 0 && s.OldMembers() == s.ForeignMembers()
			}
			if !s.until(convergence, reverted) {
				dec, _ := s.latest().now()
				t.Fatal(describeDecision(1, dec))
			}
			s.pass(time.Hour)
			if !reverted() || s.OldMembers() < 3-left-1 {
				t.Fatalf("%d old members", s.OldMembers())
			}
			if left%2 == 0 {
				ask(cke.ImportContinue)
				if !s.until(convergence, s.imported) {
					dec, _ := s.latest().now()
					t.Fatal(describeDecision(1, dec))
				}
				return
			}
			s.Store().RequestDelete()
			if !s.until(convergence, func() bool { return s.latest().Dead() || s.Store().Identity().Incarnation == nil }) {
				dec, _ := s.latest().now()
				t.Error(describeDecision(1, dec))
			}
		})
	}
}

// What would stop members on which the old cluster depends is not done.
func TestImport_IsNeitherHibernatedNorDeletedNorRestored(t *testing.T) {
	play(t, 6, func(s *stage) {
		s.imports(t, false)
		if !s.until(convergence, func() bool { return len(s.Store().Identity().Joins) == 3 && s.Serving() == 6 }) {
			t.Fatal("members of cke do not vote")
		}
		s.Node("n1").PowerOff()
		s.Store().Hibernate(true)
		s.pass(time.Hour)
		s.Store().RequestDelete()
		s.pass(time.Hour)
		if !s.Write("n2", "meanwhile") || s.Store().Identity().Incarnation == nil || s.OldMembers() != 3 {
			t.Fatal(fmt.Sprint(s.World))
		}
		s.Node("n1").PowerOn()
		s.Store().CancelDelete()
		s.Store().Hibernate(false)
		s.Node("n4").PowerOff() // one that is dead leaves as well
		if !s.until(convergence, s.imported) {
			dec, _ := s.latest().now()
			t.Error(describeDecision(1, dec))
		}
	})
}

// Silence proves nothing: while the old cluster does not answer nothing is made, and the quorum is not called lost.
func TestImport_WaitsForAnOldClusterThatIsSilent(t *testing.T) {
	play(t, 6, func(s *stage) {
		old := s.Nodes()[3:]
		s.RunOld(false, old...)
		s.pass(time.Minute)
		s.Import(s.cluster(s.Nodes()[:3]), false, old...)
		for _, n := range old {
			s.Cut(sim.Management, n.Name())
		}
		s.daemon()
		s.pass(time.Hour)
		dec, status := s.latest().now()
		if dec.Operation != nil || status.Health != cke.HealthUnknown || len(s.Store().Identity().Joins) > 0 || !named(dec.Blockers, "n4", cke.CodeOldCluster) {
			t.Error(status.Health, describeDecision(1, dec))
		}
		for _, n := range old {
			s.Heal(sim.Management, n.Name())
		}
		if !s.until(convergence, s.imported) {
			dec, _ := s.latest().now()
			t.Error(describeDecision(1, dec))
		}
	})
}

// Faults of every kind by chance, on both sides, while the operator turns the import around now and then: no rule of the checker is
// broken, and once all is healed the import ends.
func TestImport_KeepsItsPromisesUnderRandomFaults(t *testing.T) {
	t.Parallel()
	for seed := *firstSeed; seed < *firstSeed+uint64(some(2000)); seed++ {
		var faults []string
		play(t, 6, func(s *stage) { faults = s.importsAmid(t, rand.New(rand.NewPCG(seed, 7))) })
		if faults != nil {
			t.Fatalf("seed %d, which -first=%[1]d plays first:\n%s", seed, strings.Join(faults, "\n"))
		}
	}
}

func (s *stage) importsAmid(t *testing.T, r *rand.Rand) []string {
	old := s.imports(t, r.IntN(2) == 0)
	ask := func(subject string) {
		s.Store().Ask(subject, func(q *cke.Requests) {
			q.Tasks = append(q.Tasks, cke.NewTask(cke.TaskImport, "", subject, "ann@boot-1", time.Now()))
		})
	}
	rate := []float64{0, 0.01, 0.05}[r.IntN(3)]
	s.Pick, s.Judge = r.IntN, func(int, sim.Call) sim.Verdict {
		if r.Float64() < rate {
			return crashes[r.IntN(len(crashes))]
		}
		return sim.Proceed
	}
	nodes := s.Nodes()
	any := func() *sim.Node { return nodes[r.IntN(len(nodes))] }
	writes := 0
	for range 10 + r.IntN(30) {
		s.until(time.Duration(r.IntN(30))*time.Second, func() bool { s.succeed(); return false })
		switch r.IntN(12) {
		case 0:
			any().PowerOff()
		case 1:
			any().KillEtcd()
		case 2:
			s.Isolate(any().Name())
		case 3:
			s.Cut(any().Name(), sim.Management)
		case 4:
			any().Freeze()
		case 5:
			any().Hang()
		case 6:
			s.Land()
		case 7:
			if r.IntN(3) == 0 {
				ask([]string{cke.ImportRevert, cke.ImportContinue}[r.IntN(2)])
			}
		case 8, 9:
			s.mend(old)
		default:
			writes++
			s.Write(any().Name(), fmt.Sprint("write ", writes))
		}
		if v := s.Violations(); v != nil {
			return v
		}
	}
	s.Judge = nil
	s.Land()
	for _, d := range s.drivers {
		d.Wake()
	}
	s.mend(old)
	ask(cke.ImportContinue)
	if !s.until(4*convergence, func() bool { s.succeed(); return s.imported() }) {
		dec, _ := s.latest().now()
		return append(s.notImported(), "is not imported: "+describeDecision(s.latest().Number(), dec), fmt.Sprint(s.World))
	}
	return s.Violations()
}

// mend repairs the machines and the network, and starts the old members, as operators do.
func (s *stage) mend(old []*sim.Node) {
	s.HealNetwork()
	for _, n := range s.Nodes() {
		s.Rejoin(n.Name())
		n.Thaw()
		n.Unhang()
		n.PowerOn()
	}
	for _, n := range old {
		n.StartByHand()
	}
}

// A store that is brought back from before the end of an import is found to be older, or knows enough; nothing is lost either way.
func TestImport_SurvivesAStoreThatGoesBack(t *testing.T) {
	for joins := range 4 {
		for _, ended := range []bool{true, false} { // by the time when it is brought back
			play(t, 6, func(s *stage) {
				copied := s.copiedOnce(func(id cke.Identity, _ sim.Call) bool { return len(id.Joins) == joins })
				s.imports(t, true)
				far := s.imported
				if !ended {
					far = func() bool { return s.OldMembers() == 2 }
				}
				if !s.until(convergence, far) || !copied.made || !s.Write("n2", "after the copy") {
					t.Fatal("the import does not come that far")
				}
				s.broughtBack(copied.StoreCopy)
				s.until(convergence, func() bool { return s.frozenFor(cke.FreezeOlderStore) || s.imported() })
				if s.frozenFor(cke.FreezeOlderStore) {
					s.freezesAndServes(t)
					s.reclaims(t)
				}
				if !s.until(convergence, s.imported) {
					dec, _ := s.latest().now()
					t.Fatal(joins, ended, describeDecision(1, dec), s.notImported(), fmt.Sprint(s.World))
				}
				if v := s.Violations(); v != nil || !s.Write("n1", "at the end") {
					t.Error(joins, ended, v)
				}
			})
		}
	}
}
