package strategy_test

import (
	"testing"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// The daemon died after it had put an order on record and before that was taken from the requests. A later order, of a host whose clock is behind, goes
// first and takes its place: what the first one asked for is not begun again.
func TestDecide_BeginsNoRestoreAgainThatALaterOneReplaced(t *testing.T) {
	for name, state := range map[string]cke.IncarnationState{"while it was prepared": cke.Restoring, "once it served": cke.Formed} {
		t.Run(name, func(t *testing.T) {
			s := cutOffRestore().restored()
			r := s.Identity.Incarnation.Restore
			r.Stopping, s.Seen.Etcd.Alarms = false, nil
			if d := strategy.Decide(s.Input); d.Operation == nil || d.Operation.Name() != "begin-restore" {
				t.Fatalf("the scene: %T %s", d.Operation, d.Reason)
			}
			r.Before.State, r.Before.Restore = state, &cke.Restoration{ID: s.Requests.Tasks[0].ID}
			d := strategy.Decide(s.Input)
			if o, settled := d.Operation.(op.Settled); !settled || o.Task.ID != "t1" {
				t.Errorf("%T: %s", d.Operation, d.Reason)
			}
		})
	}
}
