package server

import (
	"context"
	"time"

	"cke"
)

// Inventory works with the inventory of one cluster during one term, beside the loop.
type Inventory interface {
	// Update sets what is declared and observed now. It never waits.
	Update(w cke.InventoryWanted)
	// Status returns what is known now; nil: the cluster has no inventory. It is not changed afterward.
	Status() *cke.InventoryStatus
	// Changed receives after something that operators should know of has changed; coalesced.
	Changed() <-chan struct{}
	// Run works until ctx is canceled.
	Run(ctx context.Context)
}

// inventoryEnd is how long a read that hangs in the file system is waited for once a term ends.
const inventoryEnd = time.Second

// beside runs the work with the inventory of a term; end waits until it has ended.
func (d *Daemon) beside(ctx context.Context, i Inventory) (end func()) {
	return d.run(ctx, i.Run, inventoryEnd, "a read of the inventory does not end; it is left behind")
}
