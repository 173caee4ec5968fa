package server

import (
	"context"
	"time"

	"cke"
)

// Backups works on the backups of one cluster during one term, beside the loop.
type Backups interface {
	cke.Backups
	// Update sets what is declared now. It never waits.
	Update(w cke.BackupWanted)
	// Changed receives after something that operators should know of has started or is over; coalesced.
	Changed() <-chan struct{}
	// Run takes backups until ctx is canceled and then stores the last changes, within a bounded time.
	Run(ctx context.Context)
}

// backupsEnd is how long the backups may take to store the last changes once a term ends, beside all else that ends.
const backupsEnd = 3 * time.Second

// keep runs the backups of a term; end waits until the last changes are stored, or cannot be.
func (d *Daemon) keep(ctx context.Context, b Backups) (end func()) {
	return d.run(ctx, b.Run, backupsEnd, "the last changes may not be in the backup target: it does not answer")
}

// run does work beside the loop of a term; end ends it and waits for it, so long at most, and else logs what that means.
func (d *Daemon) run(ctx context.Context, work func(context.Context), limit time.Duration, late string) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		work(ctx)
	}()
	return func() {
		cancel()
		timer := time.NewTimer(limit)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
			d.Log.Warn(late)
		}
	}
}
