package backup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// At says which state of the cluster is wanted. The zero value is the newest one that the backups hold.
type At struct {
	// Lineage; empty: the newest.
	Lineage string
	// Revision wanted; 0: not by revision.
	Revision int64
	// Time wanted: the newest revision whose change had been received by then. Zero: not by time.
	Time time.Time
	// Full names a full by its ID, as LINEAGE/REVISION-TIME, or the part after the slash: exactly its revision.
	Full string
}

// target is a revision and the chains that lead to it, the best first.
type target struct {
	lineage  Lineage
	revision int64
	chains   []Chain
	// damage says why the newest cannot be had, when the target is less than what was asked for.
	damage *DamagedError
	notes  []string
}

// resolve finds out what is wanted. With partial, damage that lies in the way lowers the target.
func (s *Store) resolve(ctx context.Context, at At, partial bool) (target, error) {
	l, err := s.pick(ctx, &at)
	if err != nil {
		return target{}, err
	}
	switch {
	case at.Full != "":
		return l.full(at.Full)
	case at.Revision > 0:
		t := target{lineage: l, revision: at.Revision}
		t.chains, err = l.choose(at.Revision)
		return t.orPartial(err, partial)
	case !at.Time.IsZero():
		revision, note, err := s.revisionAt(ctx, &l, at.Time)
		if err != nil {
			return target{}, err
		}
		t := target{lineage: l, revision: revision, notes: note}
		t.chains, err = l.choose(revision)
		return t.orPartial(err, partial)
	}
	return l.latest(partial)
}

// Found is a state that backups hold.
type Found struct {
	Lineage  string
	Revision int64
	// Received is when its newest change had come; zero: the names and headers do not tell.
	Received time.Time
	Notes    []string
}

// Find tells which state Extract would write, and refuses what is not there to be written, with the same error. It goes by names
// and headers; only for a time that lies within a delta it reads that delta. So Extract may still find damage.
func (s *Store) Find(ctx context.Context, at At) (Found, error) {
	t, err := s.resolve(ctx, at, false)
	if err != nil {
		return Found{}, err
	}
	f := Found{Lineage: t.lineage.Name, Revision: t.revision, Notes: t.notes}
	for _, c := range t.chains {
		switch t.revision {
		case c.Last:
			f.Received = c.End
		case c.Full.Revision:
			f.Received = c.Full.Time
		}
	}
	return f, nil
}

// pick returns the lineage wanted; ErrEmpty if there is no full in it.
func (s *Store) pick(ctx context.Context, at *At) (Lineage, error) {
	if l, _, ok := strings.Cut(at.Full, "/"); ok && at.Lineage == "" {
		at.Lineage = l
	}
	lineages, err := s.Lineages(ctx)
	if err != nil {
		return Lineage{}, err
	}
	var newest *Lineage
	deltas := 0
	for i := range lineages {
		l := &lineages[i]
		if at.Lineage == "" || l.Name == at.Lineage {
			deltas += len(l.Streams)
			if len(l.Fulls) > 0 {
				newest = l // the newest is last
			}
		}
	}
	if newest != nil {
		return *newest, nil
	}
	what := "of cluster " + s.Cluster
	if at.Lineage != "" {
		what += ", lineage " + at.Lineage
	}
	if deltas > 0 {
		return Lineage{}, fmt.Errorf("%w %s: there are only deltas, which need a full to start from", ErrEmpty, what)
	}
	return Lineage{}, fmt.Errorf("%w %s in this store", ErrEmpty, what)
}

func (l *Lineage) full(id string) (target, error) {
	for _, c := range l.Chains() {
		if c.Full.ID() == id || strings.HasSuffix(c.Full.ID(), "/"+id) {
			c.Deltas, c.Damage, c.Last = nil, nil, c.Full.Revision
			return target{lineage: *l, revision: c.Full.Revision, chains: []Chain{c}}, nil
		}
	}
	return target{}, fmt.Errorf("full backup %s: %w", id, ErrNotFound)
}

// latest is the end of the chain of the newest full.
func (l *Lineage) latest(partial bool) (target, error) {
	chains := l.Chains()
	best := chains[0]
	for _, c := range chains {
		// Fulls are in order of their revisions, so a later one never reaches less unless its deltas are damaged.
		if c.Last >= best.Last || c.Full.Revision > best.Last {
			best = c
		}
	}
	if best.Damage != nil && !partial {
		return target{}, best.Damage
	}
	t := target{lineage: *l, revision: best.Last, damage: best.Damage}
	fits, err := l.choose(best.Last)
	t.chains = fits
	return t, err
}

func (t target) orPartial(err error, partial bool) (target, error) {
	var d *DamagedError
	if !partial || !errors.As(err, &d) || d.LastGood == 0 {
		return t, err
	}
	t.revision, t.damage = d.LastGood, d
	t.chains, err = t.lineage.choose(d.LastGood)
	return t, err
}

// revisionAt finds the newest revision that had been received at a time. It refuses with ErrAmbiguousTime when the
// clock that gave the times went backwards across it.
//
// A quiet cluster writes nothing, so nothing in a store tells how long its newest state lasted. A time after it and not in the
// future stands for it; the note says what is known.
func (s *Store) revisionAt(ctx context.Context, l *Lineage, t time.Time) (revision int64, note []string, err error) {
	var base *Chain
	chains := l.Chains()
	for i := range chains {
		if chains[i].Full.Time.After(t) {
			continue
		}
		if base == nil && i > 0 || base != nil && base != &chains[i-1] {
			return 0, nil, fmt.Errorf("%w: fulls of later revisions carry earlier times than %s", ErrAmbiguousTime, chains[i-1].Full.ID())
		}
		base = &chains[i]
	}
	if base == nil {
		return 0, nil, fmt.Errorf("%w: %s is before the first full of lineage %s, taken %s",
			ErrNotCovered, t.Format(time.RFC3339), l.Name, chains[0].Full.Time.Format(time.RFC3339))
	}
	revision, covered, err := s.lastBefore(ctx, base, t)
	if err != nil {
		return 0, nil, err
	}
	if next := base.before(chains); !covered && next != nil && base.Last < next.Full.Revision {
		return 0, nil, fmt.Errorf("%w: the changes between %s and %s (revisions %d to %d) are missing in lineage %s", ErrNotCovered,
			base.End.UTC().Format(time.RFC3339), next.Full.Time.Format(time.RFC3339), base.Last+1, next.Full.Revision, l.Name)
	} else if !covered && next == nil {
		return s.newestAt(l, base, revision, t)
	}
	return revision, nil, nil
}

// newestAt is for a time after all that the backups of a lineage tell of.
func (s *Store) newestAt(l *Lineage, newest *Chain, revision int64, t time.Time) (int64, []string, error) {
	known := newest.End.UTC().Format(time.RFC3339)
	switch {
	case newest.Damage != nil:
		return 0, nil, newest.Damage
	case t.After(s.now()):
		return 0, nil, fmt.Errorf("%w: %s is in the future, and the newest change in lineage %s was received %s; ask for the latest instead",
			ErrNotCovered, t.UTC().Format(time.RFC3339), l.Name, known)
	}
	return revision, []string{fmt.Sprintf("the backups tell of no change between %s, when revision %d was received, and %s: what a cluster changed without being backed up is not in them",
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
func (s *Store) lastBefore(ctx context.Context, c *Chain, t time.Time) (revision int64, covered bool, err error) {
	revision, covered = c.Full.Revision, c.Full.Time.Equal(t)
	hs, errs := s.headers(ctx, c.Deltas)
	for i, h := range hs {
		if IsDamage(errs[i]) {
			return 0, false, &DamagedError{Object: c.Deltas[i].Name(), LastGood: c.Deltas[i].Revision - 1, Err: errs[i]}
		}
		if errs[i] != nil {
			return 0, false, errs[i]
		}
		if h.Last <= c.Full.Revision {
			continue
		}
		if h.Begin.After(t) {
			covered = true
			continue
		}
		if covered && !c.Full.Time.Equal(t) {
			return 0, false, fmt.Errorf("%w: revisions %d and %d", ErrAmbiguousTime, revision, h.Place.Revision)
		}
		if !h.End.After(t) {
			revision, covered = max(revision, h.Last), h.End.Equal(t)
			continue
		}
		covered = true
		within, err := s.within(ctx, c.Deltas[i], t)
		if err != nil {
			return 0, false, err
		}
		revision = max(revision, within)
	}
	return revision, covered, nil
}

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
