package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// revisionAt finds the newest revision that had been received at a time. It refuses with ErrAmbiguousTime when the
// clock that gave the times went backwards across it.
//
// A quiet cluster writes nothing, so nothing in a store shows how long its newest state was current. A time after it and not in the
// future stands for it; the note says what is known.
func (s *Store) revisionAt(ctx context.Context, l *Lineage, t time.Time) (revision int64, note []string, err error) {
	chains, lost, err := s.soundChains(ctx, l, t)
	if err != nil {
		return 0, nil, err
	}
	var base *Chain
	for i := range chains {
		if chains[i].Full.Time.After(t) {
			continue
		}
		if base == nil && i > 0 || base != nil && base != &chains[i-1] {
			return 0, nil, fmt.Errorf("%w: fulls of later revisions have earlier times than %s", ErrAmbiguousTime, chains[i-1].Full.ID())
		}
		base = &chains[i]
	}
	if base, err = s.completeBy(ctx, l, chains, base, t); err != nil {
		return 0, nil, err
	}
	if base == nil {
		first := chains[0].Full.Time
		if !t.Before(first) {
			return 0, nil, fmt.Errorf("%w: at %s the first full of incarnation %s was not complete", ErrNotCovered, t.Format(time.RFC3339), l.Name)
		}
		return 0, nil, fmt.Errorf("%w: %s is before the first full of incarnation %s, taken %s",
			ErrNotCovered, t.Format(time.RFC3339), l.Name, first.Format(time.RFC3339))
	}
	revision, covered, note, err := s.lastBefore(ctx, base, t)
	if err != nil {
		return 0, nil, err
	}
	if next := base.before(chains); !covered && next == nil && lost != nil && lost.revision > base.Last {
		return 0, nil, &DamagedError{Object: lost.Object, LastGood: base.Last, Err: lost.Err}
	} else if !covered && next != nil && base.Last < next.Full.Revision {
		return 0, nil, fmt.Errorf("%w: the changes between %s and %s (revisions %d to %d) are missing in incarnation %s", ErrNotCovered,
			base.End.UTC().Format(time.RFC3339), next.Full.Time.Format(time.RFC3339), base.Last+1, next.Full.Revision, l.Name)
	} else if !covered && next == nil {
		return s.newestAt(l, base, revision, t)
	}
	return revision, note, nil
}

// soundChains are the chains of the fulls whose headers can be read: of the others the names are anybody's, and their times decide nothing.
// lost is the newest of those others that by its name had been started at a time; nil: there is none.
func (s *Store) soundChains(ctx context.Context, l *Lineage, t time.Time) (chains []Chain, lost *lostFull, err error) {
	var errs []error
	for some := range slices.Chunk(l.Fulls, atOnce) {
		_, of := s.headers(ctx, some)
		errs = append(errs, of...)
	}
	for i, c := range l.Chains() {
		switch errs[i] = s.confirmed(ctx, c.Full.Name(), errs[i]); {
		case errs[i] == nil:
			chains = append(chains, c)
		case errors.Is(errs[i], ErrNotFound): // pruned since it was listed
		case !IsDamage(errs[i]): // one that is listed and not found may be there the next time
			return nil, nil, errs[i]
		case !c.Full.Time.After(t):
			lost = &lostFull{DamagedError{Object: c.Full.Name(), Err: errs[i]}, c.Full.Revision}
		}
	}
	if len(chains) == 0 {
		return nil, nil, fmt.Errorf("%s: %w", l.Fulls[0].Name(), errs[0])
	}
	return chains, lost, nil
}

// lostFull is a full that is damaged, and the revision in its name.
type lostFull struct {
	DamagedError
	revision int64
}

// completeBy returns base, or the chain before it whose full was complete at a time; nil: there is none. A full is dated when it was started, and the
// member cuts the snapshot later: until it is complete it may hold what came after that time.
func (s *Store) completeBy(ctx context.Context, l *Lineage, chains []Chain, base *Chain, t time.Time) (*Chain, error) {
	for i := slices.IndexFunc(chains, func(c Chain) bool { return base != nil && c.Full == base.Full }); i >= 0; i-- {
		h, err := s.headerIn(ctx, l, chains[i].Full)
		if err != nil {
			return nil, err
		}
		if !h.End.After(t) {
			return &chains[i], nil
		}
	}
	return nil, nil
}

// newestAt is for a time after all that the backups of an incarnation hold.
func (s *Store) newestAt(l *Lineage, newest *Chain, revision int64, t time.Time) (int64, []string, error) {
	known := newest.End.UTC().Format(time.RFC3339)
	switch {
	case newest.Damage != nil:
		return 0, nil, newest.Damage
	case l.after(newest.Last) != nil:
		return 0, nil, l.after(newest.Last)
	case t.After(s.now()):
		return 0, nil, fmt.Errorf("%w: %s is in the future, and the newest change in incarnation %s was received %s; ask for the latest instead",
			ErrNotCovered, t.UTC().Format(time.RFC3339), l.Name, known)
	}
	return revision, []string{fmt.Sprintf("the backups hold no change between %s, when revision %d was received, and %s: changes that were made while the cluster was not backed up are not in them",
		known, revision, t.UTC().Format(time.RFC3339))}, nil
}

// before returns the chain that follows c.
func (c *Chain) before(chains []Chain) *Chain {
	for i := range chains {
		if &chains[i] == c && i+1 < len(chains) {
			return &chains[i+1]
		}
	}
	return nil
}

// lastBefore looks through the deltas of a chain. covered: the chain also knows of a change or a moment after t.
func (s *Store) lastBefore(ctx context.Context, c *Chain, t time.Time) (revision int64, covered bool, note []string, err error) {
	known := c.Full.Time
	revision, covered = c.Full.Revision, c.Full.Time.Equal(t)
	hs, errs := s.headers(ctx, c.Deltas)
	for i, h := range hs {
		if IsDamage(errs[i]) {
			return 0, false, nil, &DamagedError{Object: c.Deltas[i].Name(), LastGood: c.Deltas[i].Revision - 1, Err: errs[i]}
		}
		if errs[i] != nil {
			return 0, false, nil, errs[i]
		}
		if h.Last <= c.Full.Revision {
			continue
		}
		if h.wentBack() {
			within, err := s.within(ctx, c.Deltas[i], t)
			switch {
			case err != nil:
				return 0, false, nil, err
			case within < h.Place.Revision:
				if !covered && h.Watched.After(t) {
					note = unwatched(known, h.Watched, t)
				}
				covered = true
				continue
			case covered && !c.Full.Time.Equal(t):
				return 0, false, nil, fmt.Errorf("%w: revisions %d and %d", ErrAmbiguousTime, revision, within)
			}
			revision, covered = max(revision, within), covered || within < h.Last
			if h.Watched.After(t) {
				note = unwatched(h.Begin, h.Watched, t)
			}
			continue
		}
		if h.Begin.After(t) {
			if !covered {
				note = h.unwatched(t, known)
			}
			covered = true
			continue
		}
		if covered && !c.Full.Time.Equal(t) {
			return 0, false, nil, fmt.Errorf("%w: revisions %d and %d", ErrAmbiguousTime, revision, h.Place.Revision)
		}
		if known = h.End; !h.End.After(t) {
			revision, covered = max(revision, h.Last), h.End.Equal(t)
			continue
		}
		covered = true
		within, err := s.within(ctx, c.Deltas[i], t)
		if err != nil {
			return 0, false, nil, err
		}
		revision = max(revision, within)
		if h.Watched.After(t) { // the watch was broken while the delta was filled
			note = unwatched(h.Begin, h.Watched, t)
		}
	}
	return revision, covered, note, nil
}

// quiet is how long nothing may have been received, by deltas that do not record since when their watch was unbroken, before that is
// worth a note.
const quiet = 10 * time.Minute

// unwatched notes that changes between known and the first one of a delta may have been made long before they were received.
func (h Header) unwatched(t, known time.Time) []string {
	if !h.Watched.IsZero() && !h.Watched.After(t) || h.Watched.IsZero() && h.Begin.Sub(known) < quiet {
		return nil
	}
	return unwatched(known, h.Begin, t)
}

func unwatched(from, to, t time.Time) []string {
	return []string{fmt.Sprintf("no watch on the cluster is known between %s and %s: its changes in that time were received at the end of it, so the state at %s may have been a later one",
		from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339), t.UTC().Format(time.RFC3339))}
}

// wentBack reports whether the clock was put back while a delta was filled, so that its changes have to be checked one by one.
func (h Header) wentBack() bool { return h.ClockBack || h.End.Before(h.Begin) }

// within finds the newest revision in one delta that had been received at a time.
func (s *Store) within(ctx context.Context, e Entry, t time.Time) (revision int64, err error) {
	revision = e.Revision - 1
	open, passed := false, false
	_, err = readDelta(ctx, s.Bucket, e.Place, s.Identities, deltaVisitor{
		frame: func(received time.Time, first Record) error {
			open = !received.After(t)
			if open && passed {
				return fmt.Errorf("%w: revisions %d and %d", ErrAmbiguousTime, revision, first.Main)
			}
			passed = passed || !open
			return nil
		},
		record: func(r Record) error {
			if open {
				revision = r.Main
			}
			return nil
		},
	})
	if IsDamage(err) {
		err = &DamagedError{Object: e.Name(), LastGood: e.Revision - 1, Err: err}
	}
	return revision, err
}
