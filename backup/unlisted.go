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
