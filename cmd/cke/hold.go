package main

import (
	"cmp"
	"context"
	"slices"

	"cke/backup"
	"cke/backup/target"
	"cke/storage"
)

// hold keeps the backups that a restore reads from being deleted, until it is over, released, or this daemon no longer leads:
// another host may have to read them again. A process that asks this store does not delete them anyway; one that knows only the
// target sees the lock in it. It closes the target.
func (s *snapshots) hold(ctx context.Context, id string, from *backup.Store, t *target.Target) (release func(), err error) {
	unlock, _, err := from.Hold(ctx, "restore "+s.cluster) // each reading notes what cannot be kept from it
	if err != nil {
		t.Close()
		return nil, err
	}
	over, release := context.WithCancel(s.term.Context())
	store, cluster := s.store, s.cluster
	go func() {
		defer t.Close()
		defer unlock()
		defer release()
		for mayRead(over, store, cluster, id) {
			_ = backup.Pause(over, cmp.Or(s.holdEvery, backup.DefaultLockTTL/4))
		}
	}()
	return release, nil
}

// mayRead reports whether a restore may still read its backups: what cannot be read is held on.
func mayRead(ctx context.Context, store *storage.Store, cluster, id string) bool {
	open, err := store.OpenRestores(ctx, cluster)
	return ctx.Err() == nil && (err != nil || slices.Contains(open, id))
}
