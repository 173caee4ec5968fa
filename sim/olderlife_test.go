package sim_test

import (
	"slices"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// The store is copied, the cluster is restored to other nodes, and the copy is brought back: the members before, whose volumes are kept,
// are not started beside the restored ones, and nobody restores the cluster a second time.
func TestOlderStore_FromBeforeARestoreToOtherNodes(t *testing.T) {
	t.Parallel()
	play(t, 6, func(s *stage) {
		s.declare(s.Nodes()[:3]...)
		s.backedUp()
		copied := s.Store().Copy()
		s.declare(s.Nodes()[3:]...)
		s.order(fromBackup)
		s.must("restored", func() bool { return s.restored() && s.settled() })
		if !s.Write("n4", "acknowledged") {
			t.Fatal("not written")
		}
		s.latest().Kill()
		s.broughtBack(copied)
		s.must("frozen", func() bool { return s.told().Health == cke.HealthFrozen && s.reports(cke.CodeOlderStore, "n1") })
		s.order(fromBackup)
		s.pass(10 * time.Minute)
		if n := s.runningOn("n1") + s.runningOn("n2") + s.runningOn("n3"); n > 0 {
			t.Errorf("%d members of before run", n)
		}
		if !slices.Equal(s.Written(), []string{"kept", "acknowledged"}) {
			t.Errorf("holds %v", s.Written())
		}
		for _, v := range s.Violations() {
			t.Error(v)
		}
	})
}

// A restore that was called off after the store was copied does not go on when the copy is brought back, and can be called off again.
func TestOlderStore_OfARestoreThatWasCalledOff(t *testing.T) {
	t.Parallel()
	play(t, 3, func(s *stage) {
		s.backedUp()
		was := s.Store().Identity().Incarnation.ID
		s.Node("n2").FillDisk()
		s.order(fromBackup)
		s.must("begun", func() bool { return s.Store().Identity().Incarnation.State == cke.Restoring })
		s.pass(time.Minute)
		copied := s.Store().Copy()
		off := func() {
			s.Store().Ask("cancel the restore", func(r *cke.Requests) {
				r.Tasks = append(r.Tasks, cke.NewTask(cke.TaskCancelRestore, "", "", "person@host", time.Now()))
			})
			s.must("called off", func() bool { return s.Store().Identity().Incarnation.ID == was && len(s.asked()) == 0 })
		}
		off()
		s.Node("n2").FreeDisk()
		s.must("clean", s.settled)
		if !s.Write("n1", "acknowledged") {
			t.Fatal("not written")
		}
		s.latest().Kill()
		stops := 0
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if c.Name == "StopContainer" {
				stops++
			}
			return sim.Proceed
		}
		s.broughtBack(copied)
		s.must("frozen", func() bool { return s.told().Health == cke.HealthFrozen && s.reports(cke.CodeOlderStore, "") })
		s.pass(10 * time.Minute)
		if stops > 0 {
			t.Errorf("%d stops", stops)
		}
		off()
		s.must("as before", func() bool { return s.settled() && s.faults(s.everyNode()...) == nil })
		if !slices.Equal(s.Written(), []string{"kept", "acknowledged"}) {
			t.Errorf("holds %v", s.Written())
		}
	})
}

// So does not one that cke called off, since the last writes could not be stored.
func TestOlderStore_OfARestoreThatCkeCalledOff(t *testing.T) {
	t.Parallel()
	play(t, 3, func(s *stage) {
		armed := s.refusedOnceStopped()
		s.must("begun", func() bool { return s.Store().Identity().Incarnation.State == cke.Restoring })
		copied := s.Store().Copy()
		s.must("called off", func() bool {
			return *armed && s.settled() && len(s.asked()) == 0 && s.Store().Identity().Incarnation.Restore == nil && len(s.Alarms()) == 0
		})
		if !s.Write("n1", "acknowledged") {
			t.Fatal("not written")
		}
		s.latest().Kill()
		s.TargetRefuses(false)
		s.broughtBack(copied)
		s.must("frozen", func() bool { return s.told().Health == cke.HealthFrozen && s.reports(cke.CodeOlderStore, "") })
		s.pass(10 * time.Minute)
		if !slices.Equal(s.Written(), []string{"kept", "acknowledged"}) {
			t.Errorf("holds %v", s.Written())
		}
	})
}
