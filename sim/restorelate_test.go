package sim_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// A restore is on record, and no daemon leads, or the cluster is paused, for hours. Its members serve: what they acknowledge is
// not replaced without a question.
func TestRestore_KeepsWhatIsAcknowledgedWhileItWaits(t *testing.T) {
	for name, paused := range map[string]bool{"while no daemon leads": false, "in a pause": true} {
		t.Run(name, func(t *testing.T) {
			play(t, 3, func(s *stage) {
				s.daemon()
				s.must("formed", s.settled)
				s.Write("n1", "kept")
				s.TakeBackup()
				s.once(sim.KillBefore, func(sim.Call) bool { return s.Store().Identity().Incarnation.State == cke.Restoring })
				s.order(fromBackup)
				s.comesTo(func() bool { return s.Judge == nil }) // the daemon is killed then
				if paused {
					s.Store().Ask("hold", func(r *cke.Requests) { r.Hold = &cke.Hold{Reason: "a new switch"} })
					s.daemon()
				}
				s.pass(5 * time.Hour)
				if !s.Write("n2", "late") {
					t.Fatal("the members before do not serve")
				}
				if paused {
					s.Store().Ask("hold", func(r *cke.Requests) { r.Hold = nil })
				} else {
					s.daemon()
				}
				s.must("continues", func() bool { return s.Store().Identity().Incarnation.State == cke.Formed && s.settled() })
				if id := s.Store().Identity(); id.Incarnation.Restore != nil || !slices.Contains(s.Written(), "late") {
					t.Errorf("the cluster holds %v; %s", s.Written(), s.told().Summary)
				}
				if v := s.Violations(); v != nil {
					t.Error(strings.Join(v, "\n"))
				}
			})
		})
	}
}
