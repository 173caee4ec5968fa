package backup

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"cke/internal/contain"
)

// errUnreadable: as after a rule of an object store has moved an object to an archive, with a bad sector, or without the right to read one object. It is like
// damage of that object for whoever reads, and is neither recorded nor remembered. Nothing is deleted from a lineage that has such an object.
var errUnreadable = errors.New("the target lists it and does not let it be read, but lets others be read")

// Unreadable is the damage of the object that goes furthest of those that the target does not let be read, and the revision up to which it
// may go; nil: none is known.
func (l *Lineage) Unreadable() (last int64, damage error) {
	if l.sifted == nil {
		return 0, nil
	}
	for i, e := range l.listed {
		to := e.Revision
		if e.Kind == KindDelta {
			to = math.MaxInt64
			if next := i + 1; next < len(l.listed) && l.listed[next].Kind == KindDelta && l.listed[next].Stream == e.Stream { // by their sequence
				to = l.listed[next].Revision - 1
			}
		}
		if bad := l.seen[e.Name()].bad; errors.Is(bad, errUnreadable) && to >= last {
			last, damage = to, bad
		}
	}
	return last, damage
}

func unreadableNote(err error) string { return fmt.Sprintf("not read: %v", err) }

// headersOrUnreadable is headers. Where a target does not let some objects be read, before and after it lets another one be read, that is damage of these.
func (s *Store) headersOrUnreadable(ctx context.Context, entries []Entry) (hs []Header, errs []error) {
	hs, errs = s.headers(ctx, entries)
	fails := func(err error) bool {
		return err != nil && !IsDamage(err) && !errors.Is(err, ErrNotFound) && !errors.As(err, new(*newerFormatError)) && contain.Of(err) == nil
	}
	failed := func() (at []int, left []Entry) {
		for i, e := range entries {
			if fails(errs[i]) {
				at, left = append(at, i), append(left, e)
			}
		}
		return at, left
	}
	for _, witness := range []bool{false, true} {
		at, left := failed()
		if len(left) == 0 || witness && !s.lets(ctx, left) || Pause(ctx, s.Retry.withDefaults().First) != nil {
			return hs, errs
		}
		some, of := s.headers(ctx, left)
		for j, i := range at {
			hs[i], errs[i] = some[j], of[j]
		}
	}
	if at, _ := failed(); ctx.Err() == nil {
		for _, i := range at {
			errs[i] = fmt.Errorf("%s: %w", entries[i].Name(), damaged("%w (%v)", errUnreadable, errs[i]))
		}
	}
	return hs, errs
}

// mostWitnesses is of how many objects it is tried whether one can be read.
const mostWitnesses = 3

// lets reports whether a target lets a backup of the cluster be read that is none of some.
func (s *Store) lets(ctx context.Context, some []Entry) bool {
	objects, err := s.Bucket.List(ctx, s.Cluster+"/")
	if err != nil {
		return false
	}
	slices.SortStableFunc(objects, func(a, b Object) int { return b.ModTime.Compare(a.ModTime) }) // old ones may be in an archive
	tried := 0
	for _, o := range objects {
		p, ok := ParsePlace(o.Name)
		if !ok || slices.ContainsFunc(some, func(e Entry) bool { return e.Name() == o.Name }) {
			continue
		}
		if _, err := ReadHeader(ctx, s.Bucket, p); err == nil || IsDamage(err) {
			return true
		}
		if tried++; tried == mostWitnesses {
			break
		}
	}
	return false
}
