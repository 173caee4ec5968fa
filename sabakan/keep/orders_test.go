package keep_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/sabakan/keep"
)

// Bad case 6: what the operator rolls back days later is held for a day, too.
func TestKeeper_BadCase6_ALateRollbackHoldsTheExchange(t *testing.T) {
	play(t, 5, cke.InventoryAuto, func(t *testing.T, h *house) {
		before := h.spec.Cluster
		h.lead(func(k *keep.Keeper) {
			pass(time.Minute)
			h.turns("s2", cke.HostRetired)
			pass(30 * time.Hour)
			is(t, "members", h.members(), "s1 s3 s4")
			h.change(func() { h.spec.Cluster, h.spec.Generation, h.spec.SetBy, h.spec.Cause = before, 3, "me@here", "" })
			pass(23 * time.Hour)
			is(t, "within a day, members", h.members(), "s1 s2 s3")
			if s := k.Status(); s.Stop != "node" || !strings.Contains(s.Reason, "rolled back") || len(s.Log.Changes) != 1 {
				t.Errorf("%+v", s)
			}
			pass(2 * time.Hour)
			is(t, "a day later, members", h.members(), "s1 s3 s4")
		})
	})
}

// Bad case 6: what the inventory itself has reversed is no rollback; what it moved since can still be rolled back.
func TestKeeper_BadCase6_OnlyTheOperatorRollsBack(t *testing.T) {
	for _, c := range []struct {
		name       string
		changes    []cke.InventoryChange
		rolledBack bool
	}{
		{"one member fewer, and one more", []cke.InventoryChange{{Cause: cke.CauseFewer, Old: "s3"}, {Cause: cke.CauseMore, New: "s3"}}, false},
		{"one member more, and one fewer", []cke.InventoryChange{{Cause: cke.CauseMore, New: "s4"}, {Cause: cke.CauseFewer, Old: "s4"}}, false},
		{"one member more, which moved", []cke.InventoryChange{{Cause: cke.CauseMore, New: "s4"}, {Cause: cke.CauseMoved, Old: "s4", New: "s4"}}, true},
	} {
		play(t, 5, cke.InventoryPropose, func(t *testing.T, h *house) {
			for i := range c.changes {
				c.changes[i].Generation, c.changes[i].At = int64(i+2), time.Now().Add(-time.Hour)
			}
			h.log.Changes, h.spec.Generation = c.changes, 4
			h.lead(func(*keep.Keeper) {
				pass(time.Minute)
				is(t, c.name+", rolled back", !h.log.Changes[0].RolledBackAt.IsZero(), c.rolledBack)
			})
		})
	}
}

// An order that confirmed nothing overrides nothing: other machines turned bad after the change was shown.
func TestKeeper_AnOrderOverridesNoLaterStop(t *testing.T) {
	play(t, 8, cke.InventoryPropose, func(t *testing.T, h *house) {
		h.lead(func(k *keep.Keeper) {
			pass(time.Minute)
			h.turns("s2", cke.HostRetired)
			pass(2 * time.Minute)
			shown := k.Status().Change
			if shown == nil || shown.Confirm != nil {
				t.Fatalf("%+v", k.Status())
			}
			h.turns("s3", cke.HostUnhealthy)
			pass(2 * time.Minute)
			o := k.Status().Override
			if k.Status().Stop != "many" || o == nil || o.New != shown.New {
				t.Fatalf("%+v", k.Status())
			}
			h.asks(shown.Hash)
			pass(10 * time.Second)
			is(t, "members", h.members(), "s1 s2 s3")
			if a := k.Status().Log.Answer; a == nil || !strings.Contains(a.Refused, "no longer what follows") {
				t.Errorf("%+v", a)
			}
			h.asks(o.Hash)
			pass(10 * time.Second)
			is(t, "once it is confirmed, members", h.members(), "s1 s3 s4")
		})
	})
}

// While the file of another cluster cannot be read, that is shown, orders are answered, and nothing is changed.
func TestKeeper_SaysThatOtherClustersCannotBeRead(t *testing.T) {
	play(t, 5, cke.InventoryPropose, func(t *testing.T, h *house) {
		h.lead(func(k *keep.Keeper) {
			pass(time.Minute)
			h.turns("s2", cke.HostRetired)
			pass(2 * time.Minute)
			hash := k.Status().Change.Hash
			h.change(func() { h.others = errors.New("cluster dev: unknown field") })
			pass(5 * time.Minute)
			s := k.Status()
			if s.Stop != "others" || s.Code != "" || !strings.Contains(s.Reason, "cluster dev: unknown field") || s.Change != nil || time.Since(s.ReadAt) > time.Minute {
				t.Fatalf("%+v", s)
			}
			h.asks(hash)
			pass(10 * time.Second)
			if a := k.Status().Log.Answer; a == nil || !strings.Contains(a.Refused, "cluster dev") {
				t.Errorf("%+v", a)
			}
			is(t, "members", h.members(), "s1 s2 s3")
			h.change(func() { h.others = nil })
			pass(2 * time.Minute)
			is(t, "once it can be read, the change", k.Status().Change.Hash, hash)
		})
	})
}
