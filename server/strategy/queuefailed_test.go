package strategy_test

import (
	"strings"
	"testing"
	"time"

	"cke/op"
	"cke/server/strategy"
)

// A node that cannot be drained keeps no other one waiting, and is failed when that continues.
func TestReboots_OneThatCannotBeDrained(t *testing.T) {
	drain := func(s *scene, i, count int, ago time.Duration) *scene {
		return s.failed(op.LeaseEntry{Entry: *s.entry(i)}, count, ago)
	}
	since := func(d time.Duration) func(*scene) {
		return func(s *scene) {
			for key, f := range s.Failures {
				f.First = noon.Add(-d)
				s.Failures[key] = f
			}
		}
	}
	checkReboots(t, []rebootRow{
		{"without a member", drain(rebootable(3, 5).queued(4, 5), 4, 3, time.Second), "drain n5", ""},
		{"with a member", drain(rebootable(3, 3).queued(2, 3), 2, 3, time.Second), "drain n3", ""},
		{"one that is to be repaired, while another one is to be rebooted", drain(repairable(3, 5).queued(4).repairs("dead").queued(5), 4, 3, time.Second), "drain n5", ""},
		{"after its pause it is tried again", drain(rebootable(3, 5).queued(4, 5), 4, 3, time.Minute), "drain n4", ""},
		{"five times in a row", drain(rebootable(3, 5).queued(4, 5), 4, 5, time.Second).with(since(20 * time.Second)), "drain n5", ""},
		{"twice, ten minutes apart", drain(rebootable(3, 5).queued(4, 5), 4, 2, time.Second).with(since(11 * time.Minute)), "drain n5", ""},
		{"for ten minutes", drain(rebootable(3, 5).queued(4, 5), 4, 5, time.Second).with(since(11 * time.Minute)), "note n4 failed, failed, released", "it could not be drained: it broke"},
		{"for ten minutes, and its agent asked", drain(rebootable(3, 3).with(func(s *scene) { s.Spec.Reboot.FleetLock = true }).queued(2).with(func(s *scene) { s.entry(2).Agent, s.entry(2).AskedAt = "cafe", noon }), 2, 5, time.Second).with(since(11 * time.Minute)), "note n2 failed, failed, released", ""},
		{"once since it was retried", drain(rebootable(3, 5).queued(4, 5).with(func(s *scene) { s.entry(4).Since = noon.Add(-10 * time.Second) }), 4, 6, time.Second).with(since(time.Hour)), "drain n5", ""},
	})
	st := drain(rebootable(3, 5).queued(4, 5), 4, 3, time.Second).report()
	if got := st.Reboots.Entries[0].Waits; !strings.Contains(got, "it broke") {
		t.Error(got)
	}
	// a machine that cannot show its boot is repaired all the same
	if o, is := strategy.Decide(repairable(3, 3).queued(2).repairs("dead").Input).Operation.(op.LeaseEntry); !is || o.Image != "" || o.Drain == nil || o.Drain.Join == nil {
		t.Errorf("%+v", o)
	}
}
