package sim_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// n1 and n2 are two of four voters: a foreign one serves with them, and n3, which the order leaves out, is off. The daemon ends after the first stop.
// No quorum confirms the list of the rest any more, so the restore does not continue. Canceled, which starts them again, and ordered again, it does.
func TestRestoreOutsiders_AnInterruptedFenceEndsOnceItIsCanceled(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.heldOn(t, 3)
		s.TakeBackup()
		s.joinsOn(t, "n4")
		s.Node("n3").PowerOff()
		s.pass(time.Minute)
		stopped := s.killedAt("StopContainer", func() {})
		o := fromBackup
		o.Without = []string{"n3"}
		s.order(o)
		s.must("killed", stopped)
		s.Judge = func(int, sim.Call) sim.Verdict { return sim.Proceed }
		s.daemon()
		s.pass(5 * time.Minute)
		told := func(r cke.Record) bool { return strings.Contains(r.Error, "ckecli restore --cancel starts them again") }
		if s.restored() || !slices.ContainsFunc(s.Store().Records(), told) {
			t.Fatalf("restored %v: %+v", s.restored(), s.told().Problems)
		}
		s.ask(cke.TaskCancelRestore, "", "", "")
		s.must("canceled, and they serve", func() bool {
			return s.Store().Identity().Incarnation.State == cke.Formed && s.Write("n1", "again")
		})
		s.TakeBackup()
		s.order(o)
		s.must("restored", s.restored)
		s.unbroken(t)
	})
}
