package cketest

import (
	"slices"
	"testing"
	"time"

	"cke"
)

// sightingsLast: what was seen of a node is part of the identity, whatever becomes of it, until the order is over that it contradicts.
func sightingsLast(t *testing.T, s Store) {
	ctx := bounded(t)
	formed(t, s)
	one := ordered(t, s, "one", false)
	two := cke.Sighting{Order: "two", Node: "n2", What: "n2 answers", At: time.Now().UTC()}
	seen := cke.Sighting{Order: "one", Node: "n3", What: "n3 answers", At: two.At}
	for range 2 {
		must(t, "PutSightings", s.PutSightings(ctx, two, seen))
	}
	has := func(when string, want ...cke.Sighting) {
		t.Helper()
		got := identity(t, s).Sighted
		slices.SortFunc(got, func(a, b cke.Sighting) int { return len(a.Order+a.Node) - len(b.Order+b.Node) })
		if len(got) != len(want) || slices.ContainsFunc(want, func(w cke.Sighting) bool { return !slices.Contains(got, w) }) {
			t.Errorf("%s: %+v", when, got)
		}
	}
	has("at first", two, seen)
	is(t, "DropSighting of an order that waits", s.DropSighting(ctx, seen), cke.ErrConflict)
	must(t, "DropSighting of an order that is over", s.DropSighting(ctx, two))
	must(t, "BeginRestore", s.BeginRestore(ctx, one))
	has("while it is carried out", seen)
	must(t, "CancelRestore", s.CancelRestore(ctx, one))
	has("once it is canceled", seen)
	must(t, "DropSighting", s.DropSighting(ctx, seen))
	has("once it is over")
}
