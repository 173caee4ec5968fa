package keep_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"cke"
	"cke/sabakan/keep"
)

// Bad case 6: a kill, or an answer that is lost, at every write: the exchange is done once, by itself and by an order.
func TestKeeper_BadCase6_AKillAtEveryWrite(t *testing.T) {
	for _, mode := range []cke.InventoryMode{cke.InventoryAuto, cke.InventoryPropose} {
		if all := killedAtWrite(t, mode, false, -1); all < 3 {
			t.Fatalf("%s: an exchange has %d writes", mode, all)
		} else {
			for _, after := range []bool{false, true} {
				for at := range all {
					killedAtWrite(t, mode, after, at)
				}
			}
		}
	}
}

// killedAtWrite plays an exchange, kills the daemon at a write, or after it, and returns how many writes there were.
func killedAtWrite(t *testing.T, mode cke.InventoryMode, after bool, at int) (n int) {
	t.Helper()
	play(t, 5, mode, func(t *testing.T, h *house) {
		var writes atomic.Int32
		h.after = after
		h.fail = func(string) error {
			if writes.Add(1) == int32(at)+1 {
				return errors.New("no answer from the store")
			}
			return nil
		}
		killed := func() bool { return at >= 0 && writes.Load() > int32(at) }
		orders := func(k *keep.Keeper) { // as an operator, who sees a change
			if s := k.Status(); mode == cke.InventoryPropose && s != nil && s.Change != nil && h.members() == "s1 s2 s3" {
				h.asks(s.Change.Hash)
			}
		}
		h.lead(func(k *keep.Keeper) {
			pass(time.Minute)
			h.turns("s2", cke.HostRetired)
			for range 30 {
				if pass(10 * time.Second); killed() {
					return
				}
				orders(k)
			}
		})
		if n = int(writes.Load()); at >= 0 && !killed() {
			t.Errorf("%s: there is no write %d", mode, at)
		}
		h.lead(func(k *keep.Keeper) {
			for range 18 {
				orders(k)
				pass(10 * time.Second)
			}
			is(t, "members", h.members(), "s1 s3 s4")
			is(t, "revision", h.spec.Generation, int64(2))
			is(t, "changes", len(h.log.Changes), 1)
		})
	})
	return n
}
