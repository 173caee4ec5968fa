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
	"cke/internal/contain"
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
	s.claims(id)
	go contain.Work(func() {
		defer t.Close()
		defer unlock()
		defer end()
		for mayRead(over, store, cluster, id) {
			_ = backup.Pause(over, cmp.Or(s.holdEvery, backup.DefaultLockTTL/4))
		}
	}, func(err error) { s.holdsNot(id, err) })()
	return func() {
		s.holdsNot(id, nil)
		end()
	}, notes, nil
}

// holdLimit is how long a restore waits for the backups of what was fetched to be held again: a target may hang.
const holdLimit = 5 * time.Second

// claims reports whether the backups of a restore are to be held now; they count as held from then on.
func (s *snapshots) claims(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.held[id]
	if s.held == nil {
		s.held = map[string]bool{}
	}
	s.held[id] = true
	return !was
}

// holdsNot notes that the backups of a restore are not held, or no longer. err is why; a panic is logged.
func (s *snapshots) holdsNot(id string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, id)
	if f := contain.Of(err); f != nil {
		s.log.Error("a panic while the backups of a restore are held; the restore continues", "cluster", s.cluster, "panic", f.Value, "stack", f.Stack)
	}
}

// holdAgain holds the backups of what was fetched by a daemon before: the snapshot may be lost, or another host lead, later.
func (s *snapshots) holdAgain(ctx context.Context, id string, o cke.RestoreOrder, progress func(string)) {
	if o.Survivor != "" || !s.claims(id) {
		return
	}
	ended := make(chan []string, 1)
	failed := func(err error) {
		s.holdsNot(id, err)
		ended <- []string{fmt.Sprintf("the restore continues, and its backups may be deleted meanwhile: %v", err)}
	}
	work := s.term.Context() // it may take longer than is waited for
	go contain.Work(func() {
		from, t, err := s.open(work, id, o)
		var notes []string
		if err == nil {
			_, notes, err = s.hold(work, id, from, t)
		}
		if err != nil {
			failed(err)
			return
		}
		ended <- notes
	}, failed)()
	var notes []string
	select {
	case notes = <-ended:
	case <-ctx.Done():
	case <-time.After(holdLimit):
		notes = []string{"the restore continues, and its backups may be deleted until they are held: after " + holdLimit.String() +
			" the target does not answer, or a deletion in it has not made way"}
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
