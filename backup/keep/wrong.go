package keep

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cke"
	"cke/backup"
)

// read reads what the target holds that counts: without the fulls that were found wrong, and those after the newest one whose header can be
// read and whose size is as it says. wrong are the first.
func (l *line) read(ctx context.Context, store *backup.Store) (lineage backup.Lineage, wrong []backup.Entry, err error) {
	if lineage, err = store.Lineage(ctx, l.lineage); err == nil {
		wrong, err = store.LeaveOutWrong(ctx, &lineage)
	}
	if err != nil {
		return lineage, nil, fmt.Errorf("read the target: %w", err)
	}
	_ = leaveOutDamaged(ctx, store, &lineage) // the Taker reads it, too
	return lineage, wrong, nil
}

// leaveOutDamaged removes those fulls after the newest one whose header can be read and whose size is as it says. The error is one of access.
func leaveOutDamaged(ctx context.Context, store *backup.Store, lineage *backup.Lineage) error {
	for n := len(lineage.Fulls); n > 0; n-- {
		if _, err := store.Header(ctx, lineage.Fulls[n-1]); !backup.IsDamage(err) {
			return err
		}
		lineage.Fulls = lineage.Fulls[:n-1]
	}
	return nil
}

// measure takes in how far fulls and deltas lead. wrong are fulls that were left out: what only they lead to cannot be
// restored before another full is stored. The caller holds the lock.
func (l *line) measure(lineage backup.Lineage, wrong []backup.Entry) {
	l.newest, l.reached, l.reachedAt, l.events, l.bytes, l.wrong = cke.StoredBackup{}, 0, time.Time{}, 0, 0, len(wrong) > 0
	for _, c := range lineage.Chains() {
		f := c.Full // in order of their revisions, whatever clock dated them
		if f.Revision < l.newest.Revision {
			continue
		}
		l.newest = cke.StoredBackup{Kind: string(f.Kind), ID: f.ID(), Revision: f.Revision, Size: f.Size, At: f.Time}
		l.reached, l.reachedAt = c.Last, c.End
		l.events = c.Last - f.Revision // at least so many; every transaction over several keys had more
		l.bytes = 0
		for _, d := range c.Deltas {
			l.bytes += d.Size
		}
	}
	l.listed(lineage)
	beyond := func(f backup.Entry) bool { return f.Revision > l.reached }
	further := func(st backup.Stream) bool { return st.Last > l.reached }
	l.gap = l.gap || slices.ContainsFunc(wrong, beyond) || l.wrong && slices.ContainsFunc(lineage.Streams, further)
}

// holds reports whether what leads to a revision is there, by fulls that were found wrong.
func holds(revision int64, lineage backup.Lineage, wrong []backup.Entry) bool {
	last := int64(0)
	for _, f := range wrong {
		last = max(last, f.Revision)
	}
	for _, st := range lineage.Streams {
		last = max(last, st.Last)
	}
	return len(wrong) > 0 && last >= revision
}

// judge takes in which fulls were found wrong in this session: the status no longer counts them, nor what only they lead to. Where the target
// cannot be read, that is tried again.
func (w *chores) judge(ctx context.Context) error {
	l := w.l
	l.mu.Lock()
	newest, believed := l.newest.ID, l.reached
	l.mu.Unlock()
	w.unjudged = true
	lineage, wrong, err := l.read(ctx, w.store)
	if err != nil {
		return err
	}
	leads := slices.ContainsFunc(lineage.Chains(), func(c backup.Chain) bool { return c.Last >= believed })
	if len(wrong) > 0 && !leads {
		if err := w.taker.Baseless(ctx, wrong); err != nil {
			return err
		}
	}
	w.unjudged = false
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.newest.ID == newest && (!leads || slices.ContainsFunc(wrong, func(f backup.Entry) bool { return f.ID() == newest })) { // else another full was stored meanwhile
		l.measure(lineage, wrong)
		l.news()
	}
	return nil
}
