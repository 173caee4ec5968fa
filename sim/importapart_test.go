package sim_test

import (
	"fmt"
	"testing"
	"time"

	"cke"
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
