package server

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"cke"
	"cke/server/strategy"
)

// Sightings puts on record what observations, and steps of operations, show of nodes that orders call destroyed.
type Sightings struct {
	mu       sync.Mutex
	unstored []cke.Sighting
}

// Keep keeps what was seen until it is on record.
func (s *Sightings) Keep(seen ...cke.Sighting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range seen {
		if !slices.ContainsFunc(s.unstored, one.Same) {
			s.unstored = append(s.unstored, one)
		}
	}
}

// Record stores what the input's observation adds, and what was kept, and adds it to the input's identity. If it cannot be stored, nothing
// may be decided.
func (s *Sightings) Record(ctx context.Context, l cke.Ledger, in *strategy.Input) error {
	seen, over := in.Sightings()
	s.Keep(seen...)
	stored, err := s.store(ctx, l)
	if err != nil {
		return fmt.Errorf("record what was seen of nodes that are called destroyed: %w", err)
	}
	in.Identity.Sighted = append(slices.Clone(in.Identity.Sighted), stored...)
	for _, one := range over {
		_ = l.DropSighting(ctx, one) // it counts no more, and is removed once it can be
	}
	return nil
}

// store stores what was kept.
func (s *Sightings) store(ctx context.Context, l cke.Ledger) (kept []cke.Sighting, err error) {
	s.mu.Lock()
	kept = slices.Clone(s.unstored)
	s.mu.Unlock()
	if len(kept) == 0 {
		return nil, nil
	}
	if err := l.PutSightings(ctx, kept...); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unstored = slices.DeleteFunc(s.unstored, func(one cke.Sighting) bool { return slices.ContainsFunc(kept, one.Same) })
	return kept, nil
}

// storeSeen stores what was seen of nodes that orders call destroyed and is not on record yet: the next leader may not see it any more.
func (l *Loop) storeSeen(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWordLimit)
	defer cancel()
	if _, err := l.sightings.store(ctx, l.Term); err != nil {
		l.Log.Warn("what was seen of nodes that are called destroyed is not on record", "error", err)
	}
}
