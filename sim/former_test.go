package sim_test

import (
	"testing"
	"time"

	"cke"
)

// A copy of the store that was made while CORRUPT froze the cluster takes the place of the store. That it is older is found all the same,
// and what it asks for is held. Once its memberships are on record again the cluster is as frozen as in the copy.
func TestOlderStore_FromWhileItWasFrozen(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		s.Node("n2").CorruptData()
		s.NoticeCorruption()
		s.must("frozen", func() bool { return s.frozenFor(cke.FreezeCorrupt) })
		copied := s.Store().Copy()
		s.ask(cke.TaskUnfreeze, "", s.freeze().ID, "n2 is to be replaced")
		s.must("lifted", func() bool { return s.answered() && !s.freeze().Active() })
		s.ask(cke.TaskDisarm, "", "", "")
		s.must("without an alarm", func() bool { return s.answered() && len(s.Alarms()) == 0 })
		s.replaceAll(t, "n2")
		s.broughtBack(copied)
		s.freezesAndServes(t)
		s.reclaim(t)
		s.must("frozen as before", func() bool { return s.answered() && s.frozenFor(cke.FreezeCorrupt) })
		s.pass(time.Minute)
		s.ask(cke.TaskUnfreeze, "", s.freeze().ID, "that is over")
		s.must("as declared", func() bool { return s.changed() && s.answered() })
		s.isUnharmed(t)
	})
}

// All members were replaced since the copy was made, and the operator lifts the freeze instead of putting their memberships on record: the
// cluster is still seen, no status calls it lost, and it can be reclaimed an hour later.
func TestOlderStore_ThatWasOutrunStillSeesTheCluster(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		copied := s.Store().Copy()
		s.replaceAll(t, "n1", "n2", "n3")
		s.broughtBack(copied)
		s.freezesAndServes(t)
		s.ask(cke.TaskUnfreeze, "", s.freeze().ID, "all that came after it is gone")
		s.pass(time.Hour)
		_, status := s.latest().now()
		if n := len(s.Store().Identity().Joins); n == 0 || status.Health == cke.HealthLost || len(s.Violations()) > 0 {
			t.Fatalf("%d memberships are left, %s %s\n%v", n, status.Health, status.Summary, s.Violations())
		}
		s.reclaims(t)
		s.isUnharmed(t)
	})
}

// A node that shows that the store is older answers only after the cluster was frozen for what another one showed: it is added to the
// record. A lift of less is refused, and after one of all of it the cluster is not frozen again.
func TestOlderStore_MoreOfItIsShownLater(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		copied := s.Store().Copy()
		s.replaceAll(t, "n2", "n3")
		s.Isolate("n3")
		s.broughtBack(copied)
		s.freezesAndServes(t)
		first := s.freeze()
		s.HealNetwork()
		s.must("frozen for both", func() bool { return s.freeze().ID != first.ID })
		if f := s.freeze(); !f.Active() || !cke.Covers(f.Finding, first.Finding) || cke.Covers(first.Finding, f.Finding) {
			t.Fatalf("%s became %+v", first.Finding, f)
		}
		s.ask(cke.TaskUnfreeze, "", first.ID, "n2 is known")
		s.must("answered", s.answered)
		if !s.freeze().Active() {
			t.Error("a lift of less lifts all of it")
		}
		s.ask(cke.TaskUnfreeze, "", s.freeze().ID, "both are known")
		s.pass(time.Hour)
		if s.freeze().Active() {
			t.Errorf("frozen again: %+v", s.freeze())
		}
		s.reclaims(t)
		s.isUnharmed(t)
	})
}
