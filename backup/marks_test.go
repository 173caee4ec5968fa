package backup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// drillWorld is a lineage of which a drill found the first full wrong.
func drillWorld(t *testing.T) (b *shelf, s *Store, wrong string) {
	t.Helper()
	b, signer := newShelf(), newSigner(t)
	first := fullHead(1, signer)
	b.put(t, first)
	b.put(t, fullHead(9, signer))
	s, wrong = ours(b, signer), first.Place.ID()
	if err := s.markVerified(t.Context(), "a1b2", Verified{At: s.now(), Wrong: []string{wrong}}); err != nil {
		t.Fatal(err)
	}
	return b, s, wrong
}

func (s *Store) knowsWrong(t *testing.T, want ...string) {
	t.Helper()
	if v, err := s.LastVerified(t.Context(), "a1b2"); err != nil && !IsDamage(err) || !slices.Equal(v.Wrong, want) {
		t.Errorf("%+v, %v; want %q", v, err, want)
	}
}

// failing reports whether the last drill of the newest state failed. A copy may have the record of one that failed beside that of a later one.
func (s *Store) failing(ctx context.Context, lineage string) (bool, error) {
	d, err := s.drills(ctx, lineage)
	return d.failing, err
}

// Of two drills that end at once neither knows what the other found. What they found stays known however many follow, while it is there.
func TestMarks_TwoDrillsAtOnce(t *testing.T) {
	b, s, wrong := drillWorld(t)
	if err := s.putMark(t.Context(), "a1b2", fileVerified, fileFailed, s.now(), Verified{At: s.now()}); err != nil {
		t.Fatal(err)
	}
	s.knowsWrong(t, wrong)
	for range 2 * mostMarks {
		if err := s.markVerified(t.Context(), "a1b2", Verified{At: s.now()}); err != nil {
			t.Fatal(err)
		}
	}
	s.knowsWrong(t, wrong)
	for _, name := range slices.Sorted(maps.Keys(b.clone().objects)) {
		if strings.Contains(name, "/full/") && strings.Contains(name, strings.TrimPrefix(wrong, "a1b2/")) {
			b.Delete(t.Context(), name)
		}
	}
	for range mostMarks {
		if err := s.markVerified(t.Context(), "a1b2", Verified{At: s.now()}); err != nil {
			t.Fatal(err)
		}
	}
	s.knowsWrong(t)
}

// A full that is known to be damaged is nothing else until its data is found to differ, and one whose data differs is not just damaged, whatever is found
// later, and whoever makes the mark: an earlier version does not tell the two apart.
func TestMarks_WhichFullsAreJustDamaged(t *testing.T) {
	for _, row := range []struct {
		name          string
		first, second string // what two drills find: damaged, other data, as an earlier version says it, or nothing
		want          bool
	}{
		{"damaged", "damaged", "", true},
		{"damaged twice", "damaged", "damaged", true},
		{"other data", "other", "", false},
		{"damaged, then other data", "damaged", "other", false},
		{"other data, then damaged", "other", "damaged", false},
		{"damaged, then an earlier version", "damaged", "old", false},
		{"an earlier version, then damaged", "old", "damaged", false},
	} {
		for _, fail := range []bool{false, true} {
			signer, b := newSigner(t), newShelf()
			h := fullHead(1, signer)
			b.put(t, h)
			s, id := ours(b, signer), h.Place.ID()
			for _, what := range []string{row.first, row.second} {
				v := Verified{At: s.now()}
				if what != "" {
					v.Wrong = []string{id}
				}
				if what == "damaged" {
					v.Damaged = []string{id}
				}
				d, err := s.drills(t.Context(), "a1b2")
				switch {
				case err != nil:
				case what == "old":
					err = s.putMark(t.Context(), "a1b2", fileVerified, fileFailed, s.now(), v)
				case fail && what != "":
					err = s.putFailure(t.Context(), "a1b2", d, failure{Problem: "wrong", Wrong: v.Wrong, Damaged: v.Damaged})
				default:
					err = s.markVerified(t.Context(), "a1b2", v)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if d, err := s.drills(t.Context(), "a1b2"); err != nil || !slices.Equal(d.wrong, []string{id}) || slices.Contains(d.damaged, id) != row.want {
				t.Errorf("%s, drills that fail %t: wrong %q, damaged %q, %v", row.name, fail, d.wrong, d.damaged, err)
			}
		}
	}
}

// Marks that nobody signed who is trusted call nothing wrong and nothing right, and end no failure; nor does a mark that cannot be read.
func TestMarks_ThatCountForNothing(t *testing.T) {
	b, s, wrong := drillWorld(t)
	if err := s.markFailed(t.Context(), "a1b2", errors.New("wrong"), nil, nil); err != nil {
		t.Fatal(err)
	}
	anybody := &Store{Bucket: b, Cluster: "prod", Now: s.Now, Retry: s.Retry}
	good := Verified{At: s.now().AddDate(1, 0, 0), Full: wrong, HashChecked: true, Wrong: []string{fullHead(9, nil).Place.ID()}}
	if err := anybody.markVerified(t.Context(), "a1b2", good); err != nil {
		t.Fatal(err)
	}
	unread := s.fileName("a1b2", fileVerified, s.now().AddDate(2, 0, 0), []byte("{}"))
	if err := s.put(t.Context(), unread, []byte("{ }")); err != nil {
		t.Fatal(err)
	}
	s.knowsWrong(t, wrong)
	if failing, err := s.failing(t.Context(), "a1b2"); err != nil || !failing {
		t.Errorf("failing %t, %v", failing, err)
	}
	if err := s.markVerified(t.Context(), "a1b2", Verified{At: s.now(), Full: wrong, HashChecked: true}); err != nil {
		t.Fatal(err)
	}
	s.knowsWrong(t)
	if failing, err := s.failing(t.Context(), "a1b2"); err != nil || failing {
		t.Errorf("failing %t, %v", failing, err)
	}
}

// A drill of a state that was named, or that compared no hash, proves no full right.
func TestMarks_WhatProvesNothing(t *testing.T) {
	for name, v := range map[string]Verified{"named": {HashChecked: true, Named: true}, "without a hash": {}} {
		_, s, wrong := drillWorld(t)
		v.At, v.Full = s.now(), wrong
		if err := s.markVerified(t.Context(), "a1b2", v); err != nil {
			t.Fatal(name, err)
		}
		s.knowsWrong(t, wrong)
	}
}

// Somebody who may write, but has no key, can put any number of marks there: reading those that count takes bounded time.
func TestMarks_AreReadInBoundedTime(t *testing.T) {
	b, s, wrong := drillWorld(t)
	for n := range 5000 {
		data := fmt.Append(nil, n)
		b.Create(t.Context(), s.fileName("a1b2", fileVerified, s.now().Add(-time.Duration(n+1)*time.Hour), data), Content{Head: data})
	}
	b.opened = 0
	s.knowsWrong(t, wrong)
	if b.opened > 500 {
		t.Errorf("%d objects were opened", b.opened)
	}
}

// That a full was read back and is damaged is no failure of a drill, and ends none.
func TestMarks_OfAFullThatWasReadBack(t *testing.T) {
	for name, failed := range map[string]bool{"after a drill that succeeded": false, "after one that failed": true} {
		_, s, wrong := drillWorld(t)
		if failed {
			if err := s.markFailed(t.Context(), "a1b2", errors.New("wrong"), nil, nil); err != nil {
				t.Fatal(name, err)
			}
		}
		full := fullHead(9, nil).Place
		_, before, err := s.LastDrills(t.Context(), "a1b2")
		if err != nil {
			t.Fatal(name, err)
		}
		for range 2 * mostMarks { // one is recorded once
			if err := s.MarkDamaged(t.Context(), Entry{Place: full}, errors.New("damaged")); err != nil {
				t.Fatal(name, err)
			}
		}
		s.knowsWrong(t, wrong, full.ID())
		if failing, err := s.failing(t.Context(), "a1b2"); err != nil || failing != failed {
			t.Errorf("%s: failing %t, %v", name, failing, err)
		}
		if _, trouble, err := s.LastDrills(t.Context(), "a1b2"); err != nil || !failed && trouble.Error() != before.Error() || failed && trouble == nil {
			t.Errorf("%s: %v, %v", name, trouble, err)
		}
		if all, err := s.Bucket.List(t.Context(), "prod/a1b2/failed/"); err != nil || len(all) > 2 {
			t.Errorf("%s: %d records, %v", name, len(all), err)
		}
	}
}
