package backup

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// At selects a state of the cluster. The zero value is the newest one that the backups hold.
type At struct {
	// Lineage names the incarnation; empty means the newest.
	Lineage string
	// Revision selects a state by revision; 0 means not by revision.
	Revision int64
	// Time selects the newest revision whose change had been received by then; zero means not by time. With a Revision, that is the state, and users and
	// roles are those of the time.
	Time time.Time
	// Full names a full by its ID, as `LINEAGE/REVISION-TIME` or the part after the slash, and selects exactly its
	// revision.
	Full string
}

// named reports whether a state is named, and not just the newest one of a lineage.
func (at At) named() bool { return at != At{Lineage: at.Lineage} }

// target is a revision and the chains that lead to it, the best first.
type target struct {
	lineage  Lineage
	revision int64
	by       time.Time // the state is that of this time; zero: it is not known of which
	chains   []Chain
	// damage says why the newest cannot be had, when the target is less than what was asked for.
	damage *DamagedError
	notes  []string
	// wrong are fulls that drills found wrong, by ID; accepts: they are restored from all the same, if nothing else leads there. doubted are those of
	// wrong whose hashes do not count: the member that gave the data may have given the hash, too.
	wrong, doubted []string
	accepts        bool
}

// resolve finds out what is wanted. With partial, damage that lies in the way lowers the target.
func (s *Store) resolve(ctx context.Context, at At, partial bool) (target, error) {
	anyLineage := at.Lineage == "" && at.Full == ""
	l, err := s.pick(ctx, &at)
	if err != nil {
		return target{}, err
	}
	t, err := s.resolveIn(ctx, l, at, partial)
	if err == nil {
		err = s.checkTail(&t, at, !anyLineage)
	}
	t.notes = append(t.notes, t.lineage.left()...)
	if l.doubt != "" {
		t.notes = append([]string{l.doubt}, t.notes...)
	}
	if anyLineage && errors.Is(err, ErrNotCovered) {
		err = s.coveredElsewhere(ctx, l.Name, at, err)
	}
	return t, err
}

// coveredElsewhere adds to an error which other lineages have what the newest has not.
func (s *Store) coveredElsewhere(ctx context.Context, newest string, at At, notCovered error) error {
	lineages, err := s.Lineages(ctx)
	if err != nil {
		return err
	}
	var others []string
	for _, l := range lineages {
		if l.Name == newest || len(l.Fulls) == 0 {
			continue
		}
		if _, err := s.resolveIn(ctx, l, at, false); err == nil {
			others = append(others, l.Name)
		}
	}
	if len(others) == 0 {
		return notCovered
	}
	return fmt.Errorf("%w; another incarnation of the cluster covers it (choose it with `--lineage`): %s", notCovered, strings.Join(others, ", "))
}

func (s *Store) resolveIn(ctx context.Context, l Lineage, at At, partial bool) (t target, err error) {
	if err := s.vetted(ctx, &l, at.needs); err != nil {
		return target{}, err
	}
	if len(l.Fulls) == 0 { // by what was read now, none counts
		return target{}, s.noFull(at, []Lineage{l}, len(l.Streams) > 0)
	}
	switch {
	case at.Full != "":
		return l.full(at.Full)
	case at.Revision > 0:
		t = target{lineage: l, revision: at.Revision, by: at.Time}
		t.chains, err = l.choose(at.Revision)
		return t.orPartial(err, partial)
	case !at.Time.IsZero():
		revision, note, err := s.revisionAt(ctx, &l, at.Time)
		if err != nil {
			return target{}, err
		}
		t = target{lineage: l, revision: revision, by: at.Time, notes: note}
		t.chains, err = l.choose(revision)
		return t.orPartial(err, partial)
	}
	return l.latest(partial)
}

// needs are the deltas of a lineage that a state depends on.
func (at At) needs(l *Lineage) []Entry {
	before, from := int64(0), int64(0)
	for _, f := range l.Fulls {
		if l.seen[f.Name()].bad != nil {
			continue
		}
		if at.Revision > 0 && f.Revision <= at.Revision || at.Revision == 0 && !at.Time.IsZero() && !f.Time.After(at.Time) {
			before, from = from, f.Revision
		}
	}
	switch {
	case at.Full != "":
		return nil
	case at.Revision > 0:
		return l.between(from, at.Revision)
	case !at.Time.IsZero():
		return l.between(before, math.MaxInt64) // the last of these fulls may not have been complete
	}
	return nil // what the newest state depends on is known
}

// Found describes a state that backups hold.
type Found struct {
	Lineage  string
	Revision int64
	// Received is when the newest change of the state was received; zero if names and headers do not show it.
	Received time.Time
	// EtcdVersion is that of the member that gave the full; empty: not recorded. Its data may be of the minor version before.
	EtcdVersion string
	Notes       []string
}

// Find returns the state that Extract would write, or the error with which Extract would refuse. It reads names and
// headers, and one delta if a time lies within it; so Extract may still find damage.
func (s *Store) Find(ctx context.Context, at At) (Found, error) {
	return s.FindFor(ctx, at, ExtractOptions{})
}

// FindFor does what Find does, for an Extract with these options.
func (s *Store) FindFor(ctx context.Context, at At, o ExtractOptions) (Found, error) {
	t, err := s.resolve(ctx, at, false)
	if err == nil {
		err = s.mistrust(ctx, &t, at, o)
	}
	if err == nil {
		t, err = t.withoutWrong()
	}
	if err != nil {
		return Found{}, err
	}
	f := Found{Lineage: t.lineage.Name, Revision: t.revision, Notes: t.notes}
	h, err := s.headerIn(ctx, &t.lineage, t.chains[0].Full)
	if err != nil && !IsDamage(err) { // Extract tries another one then
		return Found{}, err
	}
	f.EtcdVersion = h.EtcdVersion
	if full := t.chains[0].Full; t.lineage.unsigned(full) {
		f.Notes = append(f.Notes, fmt.Sprintf("%s is not signed: any client that can write to the target may have made it", full.Name()))
	}
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
	if newest != nil && at.Lineage == "" {
		return s.present(ctx, lineages)
	}
	if newest != nil {
		return *newest, nil
	}
	return Lineage{}, s.noFull(*at, lineages, deltas > 0)
}

// noFull is the error for lineages without a full that counts.
func (s *Store) noFull(at At, lineages []Lineage, deltas bool) error {
	what := "of cluster " + s.Cluster
	if at.Lineage != "" {
		what += ", incarnation " + at.Lineage
	}
	for _, l := range lineages {
		for _, u := range l.Untrusted {
			if u.Kind == KindFull && (at.Lineage == "" || at.Lineage == l.Name) {
				return fmt.Errorf("%w %s that can be used: %w", ErrEmpty, what, u.damage(0))
			}
		}
	}
	if deltas {
		return fmt.Errorf("%w %s: there are only deltas, which need a full to start from", ErrEmpty, what)
	}
	return fmt.Errorf("%w %s in this store", ErrEmpty, what)
}

// Present returns the incarnation to use if none is named: the cluster's present one, as far as is known. The notes say
// what that depends on.
func (s *Store) Present(ctx context.Context) (l Lineage, notes []string, err error) {
	if l, err = s.pick(ctx, &At{}); l.doubt != "" {
		notes = []string{l.doubt}
	}
	return l, notes, err
}

func (l *Lineage) full(id string) (target, error) {
	meant := func(e Entry) bool { return e.ID() == id || strings.HasSuffix(e.ID(), "/"+id) }
	for _, c := range l.Chains() {
		if meant(c.Full) {
			c.Deltas, c.Damage, c.Last = nil, nil, c.Full.Revision
			return target{lineage: *l, revision: c.Full.Revision, chains: []Chain{c}}, nil
		}
	}
	for _, u := range l.Untrusted {
		if u.Kind == KindFull && meant(u.Entry) {
			return target{}, u.damage(l.reach(u.Revision))
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
	damage := best.Damage
	if damage == nil {
		damage = l.after(best.Last)
	}
	if damage != nil && !partial {
		return target{}, damage
	}
	t := target{lineage: *l, revision: best.Last, damage: damage}
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
