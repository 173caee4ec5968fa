package keep_test

import (
	"testing"
	"testing/synctest"
	"time"

	"cke"
	"cke/sabakan/keep"
)

// An inventory whose answers lack a machine that it knows when it is asked for that one is asked once after each read.
func TestKeeper_AsksForAMachineOnceAfterEachRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 5, cke.InventoryAuto)
		h.lead(func(*keep.Keeper) {
			h.change(func() { h.listed = []string{"s2"} })
			h.vanishes("s2")
			pass(2 * time.Hour)
			h.mu.Lock()
			defer h.mu.Unlock()
			if n, most := len(h.unknown), int(2*time.Hour/interval); n == 0 || n > most {
				t.Errorf("it was asked %d times in two hours of %d reads", n, most)
			}
			if len(h.applied) > 0 && h.applied[0] == cke.CauseMissing {
				t.Errorf("applied %v", h.applied)
			}
		})
	})
}
