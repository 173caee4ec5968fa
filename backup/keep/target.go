package keep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/take"
)

// A target that is emptied, unmounted or read-only while nothing changes would be noticed when something does, or never. So it
// is probed.
const (
	// probed is what a problem comes from that a probe found.
	probed take.EventType = "probe"
	// missing is what a problem comes from that ends with the next full.
	missing take.EventType = "missing"
	// probeLimit bounds one probe. One that has not returned after probeGrace more hangs, as in a directory on another machine.
	probeLimit = 10 * time.Second
	probeGrace = time.Second
	// listLimit bounds one listing: many objects take many requests.
	listLimit = 5 * time.Minute
	// writeEvery is how often it is tried whether an object store takes something, while nothing is stored. It costs two requests.
	writeEvery = time.Minute
	// listEvery is how often the target is listed, though nothing is known to be wrong: probes see only the newest objects.
	// That costs a request for each 1,000 objects, and one for each stream.
	listEvery = 10 * time.Minute
)

// mark opens the target as the one that it was before, or gives it a marker.
func (l *line) mark(ctx context.Context, store *backup.Store) (*backup.Marked, error) {
	if err := l.c.Guard(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	known := l.target
	l.mu.Unlock()
	m, err := store.Mark(ctx, known)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.target != known { // it became known meanwhile
		m.KnownBy(l.target)
		l.ask()
	} else if l.target != m.ID {
		l.target = m.ID
		l.news()
	}
	l.marked = m
	return m, nil
}

// knows takes in what the target has been known by since it was used first, also where this line took it for a new one: nothing more is stored
// in what lacks that marker. The caller holds the lock.
func (l *line) knows(w cke.BackupWanted) {
	if w.TargetID == "" || w.TargetID == l.target || w.Spec.Cluster.Backup.Target != l.backup.Target { // as while this line is about to end
		return
	}
	l.target = w.TargetID
	if l.marked != nil {
		l.marked.KnownBy(w.TargetID)
		l.ask()
	}
}

// watch probes the target once in each delta period.
// It ends the session with ErrLost where the target lacks what is believed to be there: then all is read again.
func (l *line) watch(ctx context.Context, stop context.CancelCauseFunc, store *backup.Store, m *backup.Marked) {
	period := time.Duration(l.backup.Delta.Period)
	if period <= 0 {
		period = take.DefaultPeriod
	}
	tick := time.NewTicker(period)
	defer tick.Stop()
	written, stored, listed := time.Now(), "", l.c.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-l.look:
		}
		if last := l.newestStored(); last != stored {
			written, stored = time.Now(), last
		}
		write := m.Local() || time.Since(written) >= writeEvery || l.untaken()
		if write {
			written = time.Now()
		}
		err := l.probe(ctx, m, write)
		if now := l.c.Now(); err == nil && (l.doubts() || now.Sub(listed).Abs() >= listEvery) {
			listed = now
			if err = l.compare(ctx, store); err == nil {
				l.probe(ctx, m, false) // that is the end of the trouble
			}
		}
		if errors.Is(err, backup.ErrLost) {
			stop(err)
			return
		}
	}
}

// ask has the target probed at once.
func (l *line) ask() {
	select {
	case l.look <- struct{}{}:
	default:
	}
}

func (l *line) doubts() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.doubt
}

// misses reports whether a full has to make up for what is missing.
func (l *line) misses() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost != ""
}

// forget: the target has to be read before anything is said of it.
func (l *line) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known = false
	l.news()
}

// compare lists the target, after trouble with it and every listEvery: ErrLost unless a full leads to all that is believed to be there.
func (l *line) compare(ctx context.Context, store *backup.Store) error {
	l.mu.Lock()
	believed, connected := l.reached, !l.gap && l.taker != nil && l.taker.Status().Connected
	l.mu.Unlock()
	lineage, err := l.list(ctx, store)
	if err != nil {
		return err
	}
	leads := func(c backup.Chain) bool { return c.Last >= believed }
	lost := connected && !slices.ContainsFunc(lineage.Chains(), leads)
	l.mu.Lock()
	l.listed(lineage)
	defer l.mu.Unlock()
	if l.doubt = lost; lost { // unless a full is on its way, or none is needed
		return fmt.Errorf("%w: no full leads to revision %d", backup.ErrLost, believed)
	}
	return nil
}

// list reads which objects of the lineage are in the target, without damaged fulls after the newest that is not. That it fails is a trouble of its own: it may take too long.
func (l *line) list(ctx context.Context, store *backup.Store) (backup.Lineage, error) {
	limited, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	late := time.AfterFunc(listLimit+probeGrace, l.hangs)
	defer late.Stop()
	lineage, err := store.Lineage(limited, l.lineage)
	if err == nil {
		err = leaveOutDamaged(limited, store, &lineage)
	}
	switch {
	case err == nil:
		l.settle("list")
		return lineage, nil
	case ctx.Err() == nil:
		l.suffer("list", fmt.Errorf("the backups could not be listed: %w", err))
	}
	return lineage, fmt.Errorf("read the target: %w", err)
}

// probe finds out whether the target is there and takes something.
func (l *line) probe(ctx context.Context, m *backup.Marked, write bool) error {
	limited, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	late := time.AfterFunc(probeLimit+probeGrace, l.hangs)
	err := m.Probe(limited, write)
	late.Stop()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	l.mu.Lock()
	other := l.problem != nil && l.from != probed // somebody else notices the end of that
	l.doubt = l.doubt || err != nil
	if err == nil && !l.doubt && (write || !l.unwritable) {
		l.unwritable = false
		l.well(probed)
	}
	l.unwritable = l.unwritable || err != nil && write
	l.mu.Unlock()
	if err != nil && !errors.Is(err, backup.ErrLost) && (!other || errors.Is(err, backup.ErrOtherTarget)) {
		l.fail(probed, cke.CodeTarget, err)
	}
	return err
}

// hangs notes that a probe does not return.
func (l *line) hangs() {
	l.mu.Lock()
	l.doubt = true
	other := l.problem != nil && l.from != probed
	l.mu.Unlock()
	if !other {
		l.fail(probed, cke.CodeTarget, errors.New("the target does not answer, and no call to it returns"))
	}
}

// untaken reports whether the last attempt to write something failed.
func (l *line) untaken() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unwritable
}

// newestStored names the object that was stored last.
func (l *line) newestStored() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newest.ID + l.delta.ID
}
