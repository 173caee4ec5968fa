package backup

import (
	"context"
	"fmt"
	"time"

	"cke"
)

// sweepAge is how old a half-written local file must be to count as left behind.
const sweepAge = 24 * time.Hour

// Prune deletes what a retention does not keep. With dryRun it only returns the plan. It can be broken off at any
// point: what the plan keeps is never touched.
func (s *Store) Prune(ctx context.Context, r cke.Retention, dryRun bool) (PrunePlan, error) {
	lineages, err := s.Lineages(ctx)
	if err != nil {
		return PrunePlan{}, err
	}
	verified := map[string]*Verified{}
	for _, l := range lineages {
		if verified[l.Name], err = s.LastVerified(ctx, l.Name); err != nil && !IsDamage(err) {
			return PrunePlan{}, err
		}
	}
	plan := PlanPrune(lineages, verified, r, s.now())
	if dryRun {
		return plan, nil
	}
	for _, d := range plan.Delete {
		if err := s.Bucket.Delete(ctx, d.Name); err != nil {
			return plan, fmt.Errorf("delete %s: %w", d.Name, err)
		}
	}
	if b, ok := s.Bucket.(Sweeper); ok {
		if err := b.Sweep(ctx, sweepAge); err != nil {
			return plan, fmt.Errorf("sweep half-written files: %w", err)
		}
	}
	return plan, nil
}

// Delete removes one full, named by its ID, and the deltas that no other full needs. It refuses to remove the only
// full of a lineage, with ErrOnlyFull, unless force is set; then all of the lineage's deltas go too.
func (s *Store) Delete(ctx context.Context, id string, force bool) ([]Removal, error) {
	gone, err := s.PlanDelete(ctx, id, force)
	if err != nil {
		return nil, err
	}
	for i, g := range gone {
		if err := s.Bucket.Delete(ctx, g.Name); err != nil {
			return gone[:i], fmt.Errorf("delete %s: %w", g.Name, err)
		}
	}
	return gone, nil
}

// PlanDelete tells what Delete would remove.
func (s *Store) PlanDelete(ctx context.Context, id string, force bool) ([]Removal, error) {
	lineages, err := s.Lineages(ctx)
	if err != nil {
		return nil, err
	}
	for i := range lineages {
		l := &lineages[i]
		for j, f := range l.Fulls {
			if f.ID() == id {
				return l.planDelete(j, force)
			}
		}
	}
	return nil, fmt.Errorf("full backup %s: %w", id, ErrNotFound)
}

func (l *Lineage) planDelete(i int, force bool) ([]Removal, error) {
	if len(l.Fulls) == 1 && !force {
		return nil, fmt.Errorf("%s is %w", l.Fulls[i].ID(), ErrOnlyFull)
	}
	gone := []Removal{{l.Fulls[i].Name(), l.Fulls[i].Size, "asked for"}}
	rest := append(append([]Entry(nil), l.Fulls[:i]...), l.Fulls[i+1:]...)
	for _, st := range l.Streams {
		for j, d := range st.Deltas {
			last := st.Last
			if j+1 < len(st.Deltas) {
				last = st.Deltas[j+1].Revision - 1
			}
			// Deltas lead on from the oldest full that is left; only those before it are of no more use.
			if len(rest) == 0 || last >= d.Revision && last <= rest[0].Revision {
				gone = append(gone, Removal{d.Name(), d.Size, "no full is left that needs it"})
			}
		}
	}
	return gone, nil
}
