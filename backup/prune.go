package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cke"
)

// sweepAge is how old a half-written local file must be to count as left behind.
const sweepAge = 24 * time.Hour

// Prune deletes what a retention does not keep. With dryRun it only returns the plan. It can be broken off at any
// point: what the plan keeps is never touched. What cannot be deleted is passed over and told in the plan, with what it
// needs to be restored from; that the target protects an object is no error.
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
	told := make([]deletion, len(lineages))
	for i := range lineages {
		told[i] = s.tell(ctx, &lineages[i], plan.Delete)
	}
	if err = s.carryOut(ctx, lineages, &plan); ctx.Err() == nil {
		for _, d := range told {
			err = errors.Join(err, s.settle(ctx, d, plan.Delete))
		}
	}
	if b, ok := s.Bucket.(Sweeper); ok && ctx.Err() == nil {
		if swept := b.Sweep(ctx, sweepAge); swept != nil {
			err = errors.Join(err, fmt.Errorf("sweep half-written files: %w", swept))
		}
	}
	return plan, err
}

// carryOut deletes what a plan says, and leaves in it what became of that. What needs others goes before them, so that
// whatever has to stay can still be restored from.
func (s *Store) carryOut(ctx context.Context, lineages []Lineage, plan *PrunePlan) error {
	order := plan.Delete
	plan.Delete = []Removal{}
	slices.SortStableFunc(order, func(a, b Removal) int {
		p, _ := ParsePlace(a.Name)
		q, _ := ParsePlace(b.Name)
		return cmp.Or(strings.Compare(string(p.Kind), string(q.Kind)), cmp.Compare(q.Revision, p.Revision)) // "delta" < "full"
	})
	needed := map[string]string{} // what has to stay, and what for
	var failed error
	for _, r := range order {
		if by := needed[r.Name]; by != "" {
			plan.Held = append(plan.Held, Removal{r.Name, r.Size, by + ", which stays, needs it"})
			continue
		}
		gone, err := s.remove(ctx, r.Name)
		if gone {
			plan.Delete = append(plan.Delete, r)
			continue
		}
		switch {
		case errors.Is(err, ErrProtected):
			plan.Held = append(plan.Held, Removal{r.Name, r.Size, err.Error()})
		case errors.Is(err, errRefused):
			plan.Failed = append(plan.Failed, Removal{r.Name, r.Size, err.Error()})
			failed = cmp.Or(failed, fmt.Errorf("delete %s: %w", r.Name, err))
		default:
			return fmt.Errorf("delete %s: %w", r.Name, err)
		}
		for i := range lineages {
			for _, base := range lineages[i].bases(r.Name) {
				needed[base] = r.Name
			}
		}
	}
	return failed
}

// errRefused: a target that answers did not delete an object.
var errRefused = errors.New("it is still there")

// remove deletes an object. Of an attempt that failed the outcome is unknown until it was looked for.
func (s *Store) remove(ctx context.Context, name string) (gone bool, err error) {
	if err = s.Bucket.Delete(ctx, name); err == nil || errors.Is(err, ErrProtected) {
		return err == nil, err
	}
	left, lookErr := s.Bucket.List(ctx, name)
	if lookErr != nil {
		return false, err // the target does not answer
	}
	if !slices.ContainsFunc(left, func(o Object) bool { return o.Name == name }) {
		return true, nil
	}
	return false, fmt.Errorf("%w: %w", errRefused, err)
}

// Delete removes one full, named by its ID, and the deltas that no other full needs. It refuses to remove the only
// full of a lineage, with ErrOnlyFull, unless force is set; then all of the lineage's deltas go too. Deltas that cannot be
// deleted are passed over.
func (s *Store) Delete(ctx context.Context, id string, force bool) ([]Removal, error) {
	l, plan, err := s.planDelete(ctx, id, force)
	if err != nil {
		return nil, err
	}
	full, deltas := plan[0], plan[1:]
	if ok, err := s.remove(ctx, full.Name); !ok {
		return nil, fmt.Errorf("delete %s: %w", full.Name, err)
	}
	gone := []Removal{full}
	told := s.tell(ctx, l, deltas)
	var failed error
	for _, r := range deltas {
		ok, err := s.remove(ctx, r.Name)
		switch {
		case ok:
			gone = append(gone, r)
		case !errors.Is(err, ErrProtected) && !errors.Is(err, errRefused):
			return gone, fmt.Errorf("delete %s: %w", r.Name, err)
		default:
			failed = cmp.Or(failed, fmt.Errorf("delete %s: %w", r.Name, err))
		}
	}
	return gone, errors.Join(failed, s.settle(ctx, told, gone))
}

// PlanDelete tells what Delete would remove.
func (s *Store) PlanDelete(ctx context.Context, id string, force bool) ([]Removal, error) {
	_, plan, err := s.planDelete(ctx, id, force)
	return plan, err
}

// planDelete also returns the lineage. The full is the first of the plan.
func (s *Store) planDelete(ctx context.Context, id string, force bool) (*Lineage, []Removal, error) {
	lineages, err := s.Lineages(ctx)
	if err != nil {
		return nil, nil, err
	}
	for i := range lineages {
		l := &lineages[i]
		for j, f := range l.Fulls {
			if f.ID() == id {
				plan, err := l.planDelete(j, force)
				return l, plan, err
			}
		}
	}
	return nil, nil, fmt.Errorf("full backup %s: %w", id, ErrNotFound)
}

func (l *Lineage) planDelete(i int, force bool) ([]Removal, error) {
	if len(l.Fulls) == 1 && !force {
		return nil, fmt.Errorf("%s is %w", l.Fulls[i].ID(), ErrOnlyFull)
	}
	gone := []Removal{{l.Fulls[i].Name(), l.Fulls[i].Size, "asked for"}}
	rest := append(append([]Entry(nil), l.Fulls[:i]...), l.Fulls[i+1:]...)
	for _, st := range l.Streams {
		for j, d := range st.Deltas {
			last := st.lastOf(j)
			// Deltas lead on from the oldest full that is left; only those before it are of no more use.
			if len(rest) == 0 || last >= d.Revision && last <= rest[0].Revision {
				gone = append(gone, Removal{d.Name(), d.Size, "no full is left that needs it"})
			}
		}
	}
	return gone, nil
}
