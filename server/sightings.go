package server

import (
	"context"
	"fmt"
	"slices"

	"cke"
	"cke/server/strategy"
)

// Sightings puts on record what observations show of nodes that orders call destroyed.
type Sightings struct {
	unstored []cke.Sighting
}

// Record stores what the input's observation adds, and earlier ones that could not be stored, and adds it to the input's identity. If it
// cannot be stored, nothing may be decided.
func (s *Sightings) Record(ctx context.Context, l cke.Ledger, in *strategy.Input) error {
	seen, over := in.Sightings()
	for _, one := range seen {
		if !slices.ContainsFunc(s.unstored, one.Same) {
			s.unstored = append(s.unstored, one)
		}
	}
	if s.unstored != nil {
		if err := l.PutSightings(ctx, s.unstored...); err != nil {
			return fmt.Errorf("record what was seen of nodes that are called destroyed: %w", err)
		}
		in.Identity.Sighted = append(slices.Clone(in.Identity.Sighted), s.unstored...)
		s.unstored = nil
	}
	for _, one := range over {
		_ = l.DropSighting(ctx, one) // it counts no more, and is removed once it can be
	}
	return nil
}
