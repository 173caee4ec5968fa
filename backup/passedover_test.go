package backup

import (
	"fmt"
	"slices"
	"testing"
)

// passedOver is a lineage whose delta 2 somebody forged, so that number 3 follows number 1: fulls 100 and 150, deltas 0, 1, 3, 4 of ten
// revisions each.
func passedOver(t *testing.T) (b *shelf, s *Store, deltas map[int64]Header) {
	b, deltas = newShelf(), map[int64]Header{}
	signer := newSigner(t)
	b.dated(t, fullHead(100, signer))
	var before *Link
	first := int64(101)
	for _, n := range []int64{0, 1, 3, 4} {
		h := deltaHead(101, n, first, first+9, signer)
		h.After = before
		deltas[n] = b.dated(t, h)
		before, first = deltas[n].Link(), first+10
	}
	deltas[2] = b.dated(t, deltaHead(101, 2, 121, 125, nil))
	b.dated(t, fullHead(140, signer))
	return b, ours(b, signer), deltas
}

// What was pruned beside a number that was passed over is no damage, whether what was forged is still there or not. What is missing for
// another reason is.
func TestLineages_WhatWasPrunedBesideANumberPassedOver(t *testing.T) {
	for _, gone := range [][]int64{{1}, {3}, {1, 3}, {1, 3, 4}} {
		for _, told := range []bool{true, false} {
			for _, removed := range []string{"never", "before", "after"} {
				b, s, deltas := passedOver(t)
				if removed == "before" {
					b.Delete(t.Context(), deltas[2].Place.Name())
				}
				l, err := s.Lineage(t.Context(), "a1b2")
				if err == nil {
					err = s.vetted(t.Context(), &l, (*Lineage).entries)
				}
				if err != nil || len(l.Streams) != 1 {
					t.Fatalf("%+v, %v", l.Streams, err)
				}
				var going []Removal
				for _, n := range gone {
					going = append(going, Removal{Name: deltas[n].Place.Name()})
				}
				if told {
					d := s.tell(t.Context(), &l, going, "")
					for _, r := range slices.Backward(going) {
						b.Delete(t.Context(), r.Name)
					}
					if err := s.settle(t.Context(), d, going); err != nil {
						t.Fatal(err)
					}
				}
				for _, r := range going {
					b.Delete(t.Context(), r.Name)
				}
				if removed == "after" {
					b.Delete(t.Context(), deltas[2].Place.Name())
				}
				l, err = s.Lineage(t.Context(), "a1b2")
				if err != nil {
					t.Fatal(err)
				}
				what := fmt.Sprintf("deltas %v deleted, told %v, the forged one removed: %s", gone, told, removed)
				if damage := l.Streams[0].Damage; (damage == nil) != (told || slices.Contains(gone, 4)) {
					t.Errorf("%s: %v", what, damage)
				}
				if f, err := s.Find(t.Context(), At{}); err != nil || f.Revision != 140 {
					t.Errorf("%s: %+v, %v", what, f, err)
				}
				if _, err := s.Find(t.Context(), At{Revision: 125}); err == nil {
					t.Errorf("%s: revision 125 is there", what)
				}
			}
		}
	}
}
