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
	// writeEvery is how often it is tried whether an object store takes something, while nothing is stored. It costs two requests.
	writeEvery = time.Minute
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
	if l.target != m.ID {
		l.target = m.ID
		l.news()
	}
	l.marked = m
	return m, nil
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
	written, stored := time.Now(), ""
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
		if err == nil && l.doubts() {
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

// compare lists the target after trouble with it: ErrLost unless a full leads to all that is believed to be there.
func (l *line) compare(ctx context.Context, store *backup.Store) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	l.mu.Lock()
	believed, connected := l.reached, !l.gap && l.taker != nil && l.taker.Status().Connected
	l.mu.Unlock()
	lineage, err := store.Lineage(ctx, l.lineage)
	if err != nil {
		return fmt.Errorf("read the target: %w", err)
	}
	leads := func(c backup.Chain) bool { return c.Last >= believed }
	if chains := lineage.Chains(); connected && !slices.ContainsFunc(chains, leads) {
		return fmt.Errorf("%w: no full leads to revision %d", backup.ErrLost, believed)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doubt = false // a full is on its way, or none is needed
	return nil
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
		l.fail(probed, cke.CodeTarget, errors.New("the target does not answer, and lets no call return"))
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
