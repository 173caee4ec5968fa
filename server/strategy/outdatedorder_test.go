package strategy_test

import (
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// An order to restore whose plan was confirmed for another state is refused, once a pause is over or a daemon leads again. It is
// never carried out long after it was meant.
func TestRestore_OfAnOrderThatIsNotWhatWasConfirmed(t *testing.T) {
	now := formed(3).Seen.ObservedAt
	for name, c := range map[string]struct {
		order cke.RestoreOrder
		at    time.Time
		paused,
		wrongClock bool
		says string // by the refusal; empty: it is begun, or waits for the end of the pause
	}{
		"it was just given":                     {order: cke.RestoreOrder{ShownIncarnation: "life1", ShownGeneration: 1}, at: now},
		"an earlier ckecli gave it":             {at: now.Add(-time.Minute)},
		"it waits for the end of a pause":       {at: now.Add(-5 * time.Hour), paused: true},
		"after a short pause":                   {at: now.Add(-50 * time.Minute)},
		"after a long pause":                    {at: now.Add(-5 * time.Hour), says: "5h0m ago"},
		"a recovery, after a long pause":        {order: cke.RestoreOrder{Survivor: "n1", Named: true}, at: now.Add(-5 * time.Hour), says: "5h0m ago"},
		"asked by a clock that is ahead":        {at: now.Add(5 * time.Hour)},
		"the cluster was restored since":        {order: cke.RestoreOrder{ShownIncarnation: "before"}, at: now, says: "was to replace incarnation before"},
		"the cluster file was replaced since":   {order: cke.RestoreOrder{ShownGeneration: 7}, at: now, says: "revision 7 of the cluster file"},
		"the daemon's clock alone is 5 h ahead": {at: now.Add(-5 * time.Hour), wrongClock: true, says: "clock"},
	} {
		t.Run(name, func(t *testing.T) {
			s := formed(3).restored()
			s.Generation = 1
			if s.Identity.Incarnation.ID != "life1" && c.order.ShownIncarnation == "life1" {
				c.order.ShownIncarnation = s.Identity.Incarnation.ID
			}
			if c.order.Survivor == "" {
				c.order.Target, c.order.Source = "file:///backups", "demo"
			}
			s.Requests.Tasks[0].Restore, s.Requests.Tasks[0].At = &c.order, c.at
			if c.paused {
				s.Requests.Hold = &cke.Hold{Reason: "a new switch"}
			}
			if c.wrongClock {
				for i := range s.Seen.Nodes {
					s.Seen.Nodes[i].Clock = now.Add(-5 * time.Hour)
				}
			}
			d := strategy.Decide(s.Input)
			refused, is := d.Operation.(op.Refuse)
			_, begun := d.Operation.(op.BeginRestore)
			switch {
			case c.says == "" && (is || begun == c.paused):
				t.Errorf("%#v: %s", d.Operation, d.Reason)
			case c.says != "" && (!is || !strings.Contains(refused.Why.Error(), c.says) || refused.Why.Try == "" && !c.wrongClock):
				t.Errorf("%#v: %s", d.Operation, d.Reason)
			}
		})
	}
}
