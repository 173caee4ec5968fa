package sim

import (
	"context"
	"fmt"
	"slices"

	"cke"
)

// PutSightings implements cke.Ledger.
func (t *Term) PutSightings(ctx context.Context, seen ...cke.Sighting) error {
	return t.write(ctx, "PutSightings", func(s *Store) error {
		for _, one := range seen {
			s.identity.Sighted = append(slices.DeleteFunc(slices.Clone(s.identity.Sighted), one.Same), one)
		}
		return nil
	})
}

// DropSighting implements cke.Ledger.
func (t *Term) DropSighting(ctx context.Context, over cke.Sighting) error {
	return t.write(ctx, "DropSighting", func(s *Store) error {
		if slices.ContainsFunc(s.requests.Tasks, func(task cke.Task) bool { return task.ID == over.Order }) || slices.Contains(s.requests.Unread, over.Order) {
			return fmt.Errorf("the order %s is still there: %w", over.Order, cke.ErrConflict)
		}
		s.identity.Sighted = slices.DeleteFunc(slices.Clone(s.identity.Sighted), over.Same)
		return nil
	})
}
