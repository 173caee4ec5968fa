package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"cke"
	"cke/backup"
	"cke/backup/target"
	"cke/storage"
)

// hold keeps the backups that a restore reads from being deleted, until it is over, released, or this daemon no longer leads:
// another host may have to read them again. A process that asks this store does not delete them anyway; one that knows only the
// target sees the lock in it. It closes the target.
func (s *snapshots) hold(ctx context.Context, id string, from *backup.Store, t *target.Target) (release func(), notes []string, err error) {
	unlock, notes, err := from.Hold(ctx, "restore "+s.cluster)
	if err != nil {
		t.Close()
		return nil, nil, err
	}
	over, end := context.WithCancel(s.term.Context())
	store, cluster := s.store, s.cluster
	s.held = id
	go func() {
		defer t.Close()
		defer unlock()
		defer end()
		for mayRead(over, store, cluster, id) {
			_ = backup.Pause(over, cmp.Or(s.holdEvery, backup.DefaultLockTTL/4))
		}
	}()
	return func() {
		s.held = ""
		end()
	}, notes, nil
}

// holdAgain holds the backups of what was fetched by a daemon before: the snapshot may be lost, or another host lead, later.
func (s *snapshots) holdAgain(ctx context.Context, id string, o cke.RestoreOrder, progress func(string)) {
	if o.Survivor != "" || s.held == id {
		return
	}
	from, t, err := s.open(ctx, id, o)
	var notes []string
	if err == nil {
		_, notes, err = s.hold(ctx, id, from, t)
	}
	if err != nil {
		notes = []string{fmt.Sprintf("the restore continues, and its backups may be deleted meanwhile: %v", err)}
	}
	for _, n := range notes {
		progress(n)
	}
}

// mayRead reports whether a restore may still read its backups: what cannot be read is held on.
func mayRead(ctx context.Context, store *storage.Store, cluster, id string) bool {
	open, err := store.OpenRestores(ctx, cluster)
	return ctx.Err() == nil && (err != nil || slices.Contains(open, id))
}
