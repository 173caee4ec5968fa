package backup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// errUnlisted: a listing is no list of what there is.
var errUnlisted = errors.New("the target has an object that its own listing lacks, so nothing is deleted")

// allListed returns an error if one of these fulls, by name, is in the target and not in the listing that the lineage was made of: where the listing
// lacks one that is kept, nothing seems to need its deltas.
func (s *Store) allListed(ctx context.Context, l *Lineage, fulls map[string]bool) error {
	listed := l.entries()
	if l.sifted != nil {
		listed = l.listed
	}
	for _, e := range listed {
		delete(fulls, e.Name())
	}
	for _, name := range slices.Sorted(maps.Keys(fulls)) {
		p, ok := ParsePlace(name)
		if !ok || p.Kind != KindFull || p.Cluster != s.Cluster || p.Lineage != l.Name {
			continue
		}
		_, err := ReadHeader(ctx, s.Bucket, p)
		switch {
		case errors.Is(err, ErrNotFound): // deleted
		case err == nil, IsDamage(err):
			return fmt.Errorf("%w: %s", errUnlisted, name)
		default:
			return err
		}
	}
	return nil
}

// errListed: nothing shows that an object is gone.
var errListed = errors.New("the target lists it and does not find it")

// confirmed is the error of reading a listed object, or errListed in place of ErrNotFound if another listing has it, too: once may be a fault of
// the target, and nothing may be concluded from that.
func (s *Store) confirmed(ctx context.Context, name string, err error) error {
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	listed, failed := s.lists(ctx, name)
	switch {
	case failed != nil:
		return failed
	case listed:
		return fmt.Errorf("%s: %w", name, errListed)
	}
	return err
}

// lists reports whether a listing has an object.
func (s *Store) lists(ctx context.Context, name string) (bool, error) {
	objects, err := s.Bucket.List(ctx, name)
	return slices.ContainsFunc(objects, func(o Object) bool { return o.Name == name }), err
}

// proved are the fulls that drills found right, by name, of which the deltas are kept.
func (v *Verified) proved(cluster string) map[string]bool {
	names := map[string]bool{}
	if v != nil {
		for _, id := range []string{v.Full, v.HashProved} {
			if lineage, name, ok := strings.Cut(id, "/"); ok {
				names[path.Join(cluster, lineage, string(KindFull), name+suffix)] = true
			}
		}
	}
	return names
}
