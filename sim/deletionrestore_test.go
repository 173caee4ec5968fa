package sim_test

import (
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// A deletion is asked for while restored members that were started wait for the end of the restore, and canceled once all containers are
// gone: the members are started again on their volumes, with all that clients wrote to them.
func TestRestore_GoesOnAfterADeletionThatWasCanceled(t *testing.T) {
	for _, at := range []string{"HashKV", "KeepRunning", "UpdateIncarnation"} {
		play(t, 3, func(s *stage) {
			s.backedUp()
			s.once(sim.KillBefore, func(c sim.Call) bool {
				return c.Name == at && s.Store().Identity().Incarnation.State == cke.Restoring && s.Store().Identity().Started()
			})
			s.order(fromBackup)
			s.comesTo(func() bool { return s.Judge == nil })
			s.pass(10 * time.Second)
			s.Store().RequestDelete()
			s.once(sim.KillBefore, func(c sim.Call) bool { return c.Name == "FinishDelete" })
			s.daemon()
			s.comesTo(func() bool { return s.Judge == nil })
			s.Store().CancelDelete()
			s.must("restored", s.restored)
			s.must("as declared", s.changed)
			for _, fault := range s.Violations() {
				t.Error(at, fault)
			}
		})
	}
}
