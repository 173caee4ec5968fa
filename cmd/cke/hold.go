package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

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
	s.holds(id)
	go func() {
		defer t.Close()
		defer unlock()
		defer end()
		for mayRead(over, store, cluster, id) {
			_ = backup.Pause(over, cmp.Or(s.holdEvery, backup.DefaultLockTTL/4))
		}
	}()
	return func() {
		s.holds("")
		end()
	}, notes, nil
}

// holdLimit is how long a restore waits for the backups of what was fetched to be held again: a target may hang.
const holdLimit = 5 * time.Second

func (s *snapshots) holds(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = id
}

// claims reports whether the backups of a restore are to be held now; they count as held from then on.
func (s *snapshots) claims(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.held
	s.held = id
	return was != id
}

// holdAgain holds the backups of what was fetched by a daemon before: the snapshot may be lost, or another host lead, later.
func (s *snapshots) holdAgain(ctx context.Context, id string, o cke.RestoreOrder, progress func(string)) {
	if o.Survivor != "" || !s.claims(id) {
		return
	}
	ended := make(chan []string, 1)
	work := s.term.Context() // it may take longer than is waited for
	go func() {
		from, t, err := s.open(work, id, o)
		var notes []string
		if err == nil {
			_, notes, err = s.hold(work, id, from, t)
		}
		if err != nil {
			s.holds("")
			notes = []string{fmt.Sprintf("the restore continues, and its backups may be deleted meanwhile: %v", err)}
		}
		ended <- notes
	}()
	var notes []string
	select {
	case notes = <-ended:
	case <-ctx.Done():
	case <-time.After(holdLimit):
		notes = []string{"the restore continues, and its backups may be deleted meanwhile: the target has not answered in " + holdLimit.String()}
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
