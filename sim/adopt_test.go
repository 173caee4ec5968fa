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

// adopt lets a person ask, by what ckecli shows, for the stranger on a node to give its place to a member of cke's.
func (s *stage) adopt(node *sim.Node) {
	status := s.told()
	t := cke.NewTask(cke.TaskAdopt, node.Name(), "", "ann@boot-1", time.Now())
	for _, m := range status.Members {
		i := slices.IndexFunc(status.Etcd.Members, func(e cke.Member) bool { return e.ID == m.ID })
		if m.State != "stranger" || m.Address != node.Declared().Address || i < 0 {
			continue
		}
		t.Adopt = &cke.Adoption{Member: status.Etcd.Members[i]}
		for _, seen := range status.Nodes {
			if carriers := seen.Carriers(t.Adopt.Member.PeerURLs); seen.Node.Name() == node.Name() && len(carriers) == 1 {
				t.Adopt.Container = carriers[0].ID
			}
		}
	}
	s.Store().Ask("adopt "+node.Name(), func(r *cke.Requests) { r.Tasks = append(r.Tasks, t) })
}

// strange begins with a cluster of three on four declared nodes; on the fourth the operator runs a member.
func (s *stage) strange(t *testing.T, kept bool) {
	s.beginChange(t, change{from: []int{1, 2, 3}, to: []int{1, 2, 3}})
	n4 := s.Node("n4")
	if !s.until(convergence, s.changed) || !n4.Join("hand", true) {
		t.Fatal("does not form")
	}
	if kept {
		n4.Keep("hand")
	}
	s.pass(time.Minute)
	s.declare(s.Nodes()...)
	s.pass(time.Minute)
	if s.ForeignMembers() != 1 || len(s.Store().Identity().Joins) != 3 {
		t.Fatalf("%d strangers, %d memberships", s.ForeignMembers(), len(s.Store().Identity().Joins))
	}
}

// replaced reports whether a member of cke's has taken the stranger's place, and what carried that is down for good.
func (s *stage) replaced() bool {
	containers, _ := s.Node("n4").Look()
	down := !slices.ContainsFunc(containers, func(c cke.Container) bool { return c.Name == "hand" && !c.Down() })
	return s.answered() && s.settled() && s.ForeignMembers() == 0 && down && len(s.Store().Identity().Joins) == 4 && s.Serving() == 4
}

// Requirements A6, I15: held strangers are adopted when a person says so, whichever call of it kills the daemon; what was
// acknowledged is there, nothing else is stopped, and what carried the stranger does not come back after a reboot.
func TestAdopt_PutsAMemberInAStrangersPlaceFromEveryCrashPoint(t *testing.T) {
	t.Parallel()
	fromEveryCrashPoint(t, 10, 1, func(seed uint64, j judge) (int, []string) { return adopted(t, seed, j) })
}

// adopted plays an adoption that judge disturbs, which is given calls counted from when it is asked for.
func adopted(t *testing.T, seed uint64, judge judge) (calls int, faults []string) {
	play(t, 4, func(s *stage) {
		s.strange(t, true)
		s.adopt(s.Node("n4"))
		begin := s.Calls()
		s.Judge = func(n int, _ sim.Call) sim.Verdict { return judge(s, n-begin) }
		if seed > 0 {
			s.Pick = rand.New(rand.NewPCG(seed, 0)).IntN
		}
		asked := 0
		done := func() bool {
			s.succeed()
			if s.answered() && s.failed() && !s.replaced() && asked < 3 { // a write to the store whose outcome was not known
				asked++
				s.adopt(s.Node("n4"))
			}
			return s.replaced()
		}
		ok := s.until(2*convergence, done)
		calls = s.Calls() - begin
		s.Land()
		for _, d := range s.drivers {
			d.Wake()
		}
		if !ok || !s.until(convergence, done) {
			dec, _ := s.latest().now()
			faults = append(faults, "is not done: "+describeDecision(s.latest().Number(), dec), fmt.Sprint(s.World))
		}
		s.Node("n4").Reboot()
		if !s.until(convergence, done) || !s.Write("n4", "afterwards") || !s.Node("n4").Holds("hand") {
			faults = append(faults, "the node does not come back as it was")
		}
		faults = append(faults, s.Violations()...)
	})
	return calls, faults
}

// Requirement A6: without a person's word a stranger on a declared node is let alone, dead or alive, and no member of
// cke's is put beside it or into its place in the list.
func TestAdopt_WithoutAPersonsWordAStrangerOnADeclaredNodeIsLetAlone(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.strange(t, false)
		s.Node("n4").StopOne("hand")
		s.pass(time.Hour)
		dec, _ := s.latest().now()
		if s.ForeignMembers() != 1 || len(s.Store().Identity().Joins) != 3 || !strings.Contains(dec.Reason, "foreign member hand is on this node") {
			t.Fatal(describeDecision(1, dec))
		}
		s.adopt(s.Node("n4"))
		if !s.until(convergence, s.replaced) {
			dec, _ := s.latest().now()
			t.Error(describeDecision(1, dec))
		}
		if v := s.Violations(); v != nil {
			t.Error(v)
		}
	})
}

// Requirement A6: that one of ours once stood where a person has put a member does not make it ours.
func TestAdopt_AStrangerWhereOneOfOursStoodIsHeld(t *testing.T) {
	inFormed(t, 4, func(s *stage) {
		s.declare(s.Nodes()[:3]...)
		s.must("of three", s.changed)
		if !s.Node("n4").Join("hand", true) {
			t.Fatal("not added")
		}
		s.pass(time.Hour)
		if id := s.Store().Identity(); s.ForeignMembers() != 1 || s.Serving() != 4 || len(id.Ended) != 1 {
			dec, _ := s.latest().now()
			t.Error(s.ForeignMembers(), s.Serving(), describeDecision(1, dec))
		}
	})
}

// Requirement A1: what cannot be done safely is refused, and nothing has changed.
func TestAdopt_IsRefusedWhereItIsNotSafe(t *testing.T) {
	for name, spoil := range map[string]func(s *stage){
		"another member is dead": func(s *stage) { s.Node("n2").PowerOff() },
		"somebody else's etcd":   func(s *stage) { s.Node("n4").AddForeignEtcd("theirs", 9999) },
	} {
		play(t, 4, func(s *stage) {
			s.strange(t, true)
			spoil(s)
			s.pass(time.Minute)
			s.adopt(s.Node("n4"))
			if !s.until(convergence, s.answered) {
				t.Fatal("nobody answers")
			}
			last := s.Store().Records()[len(s.Store().Records())-1]
			if last.State != cke.RecordFailed || last.Refusal == nil || !last.Refusal.Unchanged || s.ForeignMembers() != 1 || s.runningOn("n4") == 0 {
				t.Errorf("%s: %+v %+v", name, last, last.Refusal)
			}
			if v := s.Violations(); v != nil {
				t.Error(name, v)
			}
		})
	}
}

// A member that runs on removed files is replaced although the node of a foreign member lacks one of cke's, and gives its place after that.
func TestAdopt_ComesAfterAMemberThatRunsOnRemovedFilesIsReplaced(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.replace = cke.ReplaceAuto
		s.strange(t, true)
		was := s.join("n3").ID
		s.Node("n3").Unlink()
		s.pass(10 * time.Minute)
		s.must("replaced", func() bool { return s.join("n3").ID != was && s.Serving() == 4 })
		s.adopt(s.Node("n4"))
		s.must("adopted", s.replaced)
	})
}
