package sim_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// A member of the old cluster is started with --force-new-cluster: the import is frozen until it is stopped on its machine.
func TestImport_FreezesWhereAnOldMemberContinuesAlone(t *testing.T) {
	for _, own := range []int{0, 3} { // voters of cke
		play(t, 6, func(s *stage) {
			old := s.imports(t, true)
			s.KeepOld()
			if own == 0 {
				s.Isolate("n1") // then none is added
			}
			serve := func() bool { return s.Serving() == 3+own && s.latest().count() > 10 }
			if !s.until(convergence, serve) {
				t.Fatal(fmt.Sprint(s.World))
			}
			if !old[0].ContinueAlone() {
				t.Fatal("it cannot continue alone")
			}
			if !s.until(10*time.Minute, func() bool { return s.freeze().Active() }) || s.freeze().Kind != cke.FreezeTwoQuorums {
				dec, _ := s.latest().now()
				t.Fatal(describeDecision(1, dec))
			}
			s.HealNetwork()
			s.ask(cke.TaskUnfreeze, "", s.freeze().ID, "it goes on though both serve")
			s.pass(10 * time.Minute)
			if !s.freeze().Active() {
				t.Error("it is lifted while both serve")
			}
			old[0].StopByHand()
			s.ask(cke.TaskUnfreeze, "", s.freeze().ID, "the wrong one is stopped")
			s.must("lifted", func() bool { return !s.freeze().Active() })
			s.ask(cke.TaskImport, "", cke.ImportContinue, "")
			if own > 0 && !s.until(convergence, s.imported) { // else the old cluster has to be whole first
				dec, _ := s.latest().now()
				t.Error(describeDecision(1, dec), s.freeze().Active())
			}
			s.unbroken(t)
		})
	}
}

// The operator who keeps the old members and turns back twice keeps them still: that clients have moved is said separately.
func TestImport_KeepsTheOldMembersWhenItContinuesAfterARevert(t *testing.T) {
	play(t, 6, func(s *stage) {
		s.imports(t, true)
		s.KeepOld()
		ask := func(subject string) {
			s.ask(cke.TaskImport, "", subject, "")
			s.pass(2 * time.Hour)
		}
		s.pass(time.Hour)
		ask(cke.ImportRevert)
		if s.Serving() != 3 {
			t.Fatal(fmt.Sprint(s.World))
		}
		ask(cke.ImportContinue)
		if s.OldMembers() != 3 || s.Serving() != 6 || !s.Store().Identity().Incarnation.Import.KeepOld {
			t.Fatal(fmt.Sprint(s.World))
		}
		ask(cke.ImportContinue)
		if !s.imported() {
			t.Error(fmt.Sprint(s.World))
		}
		s.unbroken(t)
	})
}

// That the old machines are destroyed is not true: they are back before the restored members start. These are not started beside them.
func TestImport_StartsNothingBesideOldMembersThatComeBack(t *testing.T) {
	for _, at := range []string{"Fetch", "RestoreData"} {
		play(t, 6, func(s *stage) {
			old := s.imports(t, true)
			s.KeepOld()
			if !s.until(convergence, func() bool { return s.Serving() == 4 }) || !s.Write("n1", "before") {
				t.Fatal("no member of cke votes")
			}
			for _, n := range old {
				n.PowerOff()
			}
			s.pass(time.Minute)
			back := false
			s.Judge = func(_ int, c sim.Call) sim.Verdict {
				if c.Name == at && !back {
					back = true
					for _, n := range old {
						n.PowerOn()
						n.StartByHand()
					}
				}
				return sim.Proceed
			}
			s.order(cke.RestoreOrder{Survivor: "n1", Destroyed: []string{"n4", "n5", "n6"}})
			s.pass(30 * time.Minute)
			if !back || s.restored() || !s.Write(old[0].Name(), "to the old ones") {
				t.Errorf("at %s: back %v, %v", at, back, s.Store().Records()[len(s.Store().Records())-1])
			}
			s.unbroken(t)
		})
	}
}

// Old members that serve are not destroyed, whatever the order says.
func TestImport_IsNotRestoredBesideOldMembersThatServe(t *testing.T) {
	play(t, 6, func(s *stage) {
		old := s.imports(t, true)
		s.KeepOld()
		if !s.until(convergence, func() bool { return s.Serving() == 4 }) {
			t.Fatal("no member of cke votes")
		}
		s.TakeBackup()
		o := fromBackup
		o.Destroyed = []string{"n4", "n5", "n6"}
		s.order(o)
		s.pass(30 * time.Minute)
		r := s.Store().Records()
		if refused := slices.ContainsFunc(r, func(r cke.Record) bool { return r.Refusal != nil && r.Code == cke.CodeFence }); !refused || !s.Write(old[0].Name(), "to the old ones") {
			t.Errorf("%+v", r[len(r)-1])
		}
		s.unbroken(t)
	})
}
