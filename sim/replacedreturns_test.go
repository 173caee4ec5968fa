package sim_test

import (
	"slices"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// replacedReturns forms a cluster and recovers it from n1 while n2 and n3 run without the disks of their engines.
// The functions mount these.
func (s *stage) replacedReturns() (two, three func()) {
	s.daemon()
	s.must("formed", s.settled)
	s.Write("n1", "kept")
	s.pass(time.Minute)
	two, three = s.Node("n2").MissDisk(), s.Node("n3").MissDisk()
	s.must("lost", func() bool { return s.told().Health == cke.HealthLost })
	s.order(cke.RestoreOrder{Survivor: "n1"})
	s.must("recovered", func() bool { return s.settled() && s.Serving() == 3 && s.Write("n1", "recovered") })
	s.TakeBackup()
	s.pass(10 * time.Minute)
	return two, three
}

// replacedIsStopped asks whether what the recovery replaced was stopped on n2.
func (s *stage) replacedIsStopped(t *testing.T) {
	t.Helper()
	_, status := s.latest().now()
	t.Logf("%s: %s; %s", status.Health, status.Summary, status.Reason)
	if containers, _ := s.Node("n2").Look(); slices.ContainsFunc(containers, cke.Container.Running) {
		t.Error("an hour later the replaced member on n2 still runs")
	}
	if s.Write("n2", "to what was replaced") {
		t.Error("the replaced cluster takes writes")
	}
	for _, v := range s.Violations() {
		t.Log(v)
	}
}

// Another restore is under way, and waits for n1, when the disks are back.
func TestRestore_StopsWhatWasReplacedBeforeWhileItWaits(t *testing.T) {
	play(t, 3, func(s *stage) {
		two, three := s.replacedReturns()
		s.endsWhileDataIsMade()
		s.Cut(sim.Management, "n1")
		two()
		three()
		s.daemon()
		s.goesOn(time.Hour)
		s.replacedIsStopped(t)
	})
}

// The same while a deletion waits for n1.
func TestDelete_StopsWhatWasReplacedWhileItWaits(t *testing.T) {
	play(t, 3, func(s *stage) {
		two, three := s.replacedReturns()
		s.latest().Kill()
		s.Cut(sim.Management, "n1")
		two()
		three()
		s.Store().RequestDelete()
		s.daemon()
		s.goesOn(time.Hour)
		s.replacedIsStopped(t)
	})
}

// What continues if a restore is canceled serves while the restore waits, also if it was restored itself.
func TestRestore_DoesNotStopWhatItReplacesWhileItWaits(t *testing.T) {
	for _, delete := range []bool{false, true} {
		play(t, 3, func(s *stage) {
			s.heldOn(t, 3)
			s.TakeBackup()
			s.order(fromBackup)
			s.must("restored", func() bool { return s.restored() && s.settled() && s.Write("n2", "restored") })
			s.TakeBackup()
			s.endsWhileDataIsMade()
			s.Cut(sim.Management, "n1")
			if delete {
				s.Store().RequestDelete()
			}
			s.daemon()
			s.goesOn(30 * time.Minute)
			if !s.Write("n2", "while it waits") {
				t.Errorf("stopped: %s", s.told().Reason)
			}
			s.unbroken(t)
		})
	}
}
