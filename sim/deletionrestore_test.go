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
			s.once(sim.KillBefore, func(c sim.Call) bool { return c.Name == "SealDelete" })
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

// The alarm that stops writes lands after the restore let clients write again, and the restore still waits for a node.
func TestRestore_ThatWaitsTakesBackAStopOfWritesThatLandsLate(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.backedUp()
		s.once(sim.KillLate, func(c sim.Call) bool { return c.Name == "Arm" })
		s.order(toldStored)
		s.comesTo(func() bool { return s.Judge == nil })
		s.Node("n3").PowerOff()
		s.daemon()
		if !s.until(10*time.Minute, func() bool {
			return s.Write("n2", "before it lands") && !s.Store().Identity().Incarnation.Restore.Stopping
		}) {
			t.Fatal("clients cannot write")
		}
		s.pass(5 * time.Minute)
		s.Land()
		if s.Write("n2", "while it holds") {
			t.Fatal("nothing landed")
		}
		if !s.until(10*time.Minute, func() bool { return s.Write("n2", "after it landed") }) {
			t.Errorf("clients cannot write: %v, %s", s.Alarms(), s.latest().decision.Reason)
		}
		s.Node("n3").PowerOn()
		s.must("restored", s.restored)
		for _, fault := range s.Violations() {
			t.Error(fault)
		}
	})
}

func TestRestore_AllowsWhatOneThatWasCalledOffHadStopped(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.backedUp()
		s.once(sim.KillAfter, func(c sim.Call) bool { return c.Name == "Arm" })
		s.order(toldStored)
		s.comesTo(func() bool { return s.Judge == nil })
		s.ask(cke.TaskCancelRestore, "", "", "")
		s.once(sim.KillAfter, func(c sim.Call) bool { return c.Name == "CancelRestore" })
		s.daemon()
		s.comesTo(func() bool { return s.Judge == nil })
		if s.Alarms() == nil {
			t.Fatal("clients write again before the next restore is asked for")
		}
		s.order(toldStored)
		s.daemon()
		s.comesTo(func() bool { return s.Store().Identity().Incarnation.State == cke.Restoring })
		s.Node("n3").PowerOff()
		if !s.until(10*time.Minute, func() bool { return s.Write("n2", "while it waits") }) {
			t.Errorf("clients cannot write: %v, %s", s.Alarms(), s.latest().decision.Reason)
		}
		s.Node("n3").PowerOn()
		s.must("restored", s.restored)
	})
}
