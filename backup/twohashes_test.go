package backup_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cke/backup"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
)

// twoHashes makes the newest full wrong, with a hash that is equal to its data. The delta that ends with it has another hash of that revision, which is
// right. No change follows.
func twoHashes(t *testing.T, f *fixture, compacted int64) (wrong string) {
	t.Helper()
	fulls, deltas := f.objects(t)
	h, err := backup.ReadHeader(t.Context(), f.bucket, place(t, fulls[1]))
	if err != nil || len(h.Hashes) != 1 || h.Hashes[0].Revision != f.fulls[1] || h.Hashes[0].Compacted > 0 {
		t.Fatal(h, err)
	}
	right := h.Hashes
	right[0].Compacted = compacted
	wrong = wrongAlike(t, f)
	rehead(t, f.bucket, deltas[2], func(h *backup.Header) { h.Hashes = right })
	for _, d := range deltas[3:] {
		if err := f.bucket.Delete(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	return wrong
}

// One of two hashes of a revision is wrong. A restore prefers the data of which the hash was given by another object than the full that it is made from, and
// says what differs.
func TestExtract_TwoHashesOfOneRevisionThatDiffer(t *testing.T) {
	for _, compacted := range []int64{-1, 0} { // both mean never
		f := makeFixture(t, false)
		wrong := twoHashes(t, f, compacted)
		_, deltas := f.objects(t)
		for _, at := range []backup.At{{}, {Revision: f.fulls[1]}} {
			got, x := taketest.Extract(t, f.store(t, f.bucket), at)
			if notes := strings.Join(x.Notes, "; "); x.Full == wrong || !strings.Contains(notes, wrong[5:]) || !strings.Contains(notes, deltas[2]) {
				t.Errorf("%+v: from %s, notes %q", at, x.Full, x.Notes)
			}
			taketest.SameState(t, f.states[f.fulls[1]], got.State(t, 0))
		}
		s := f.store(t, f.bucket)
		p, err := s.Compact(etcdtest.Context(t), backup.At{}, backup.CompactOptions{})
		if err != nil {
			t.Fatal(err)
		}
		f.extractOK(t, f.bucket, backup.At{Full: p.ID()})
		x, err := s.Drill(etcdtest.Context(t), backup.At{}, nil)
		if err != nil || x.Full == wrong || !x.HashChecked {
			t.Errorf("drill from %s, %v", x.Full, err)
		}
	}
}

// Nothing else leads to the revision. The full is restored, with a note, whatever else is accepted. No drill proves it, and it is not merged.
func TestExtract_TwoHashesOfTheOnlyFullThatLeadsThere(t *testing.T) {
	for _, damage := range []bool{false, true} { // else the other full leads to other data than that of both hashes
		f := makeFixture(t, false)
		wrong := twoHashes(t, f, -1)
		fulls, deltas := f.objects(t)
		if damage {
			data := f.bucket.Get(fulls[0])
			f.bucket.Set(fulls[0], flip(data, len(data)-10))
		} else {
			wrongContent(t, f, fulls[0])
		}
		s := f.store(t, f.bucket)
		for _, at := range []backup.At{{}, {Revision: f.fulls[1]}, {Full: wrong}} {
			for _, ignore := range []bool{false, true} {
				o := backup.ExtractOptions{CheckHash: true, IgnoreHash: ignore}
				x, err := s.Extract(etcdtest.Context(t), at, filepath.Join(t.TempDir(), "out"), o)
				n := 2
				if at.Full != "" {
					n = 1
				}
				if err != nil || x.Full != wrong || x.Compared == nil || len(x.Notes) != n || !strings.Contains(x.Notes[n-1], "different hashes of revision") ||
					!strings.Contains(x.Notes[n-1], deltas[2]) {
					t.Errorf("damage %t, %+v, ignoring %t: from %s, notes %q, %v", damage, at, ignore, x.Full, x.Notes, err)
				}
			}
		}
		if x, err := s.Drill(etcdtest.Context(t), backup.At{}, nil); !errors.Is(err, backup.ErrHash) {
			t.Errorf("a drill from %s: %v", x.Full, err)
		}
		if p, err := s.Compact(etcdtest.Context(t), backup.At{}, backup.CompactOptions{}); !backup.IsDamage(err) {
			t.Errorf("merged %s, %v", p.ID(), err)
		}
	}
}

// dated stores a full once more, with a date that is later by so much, and returns its name.
func dated(t *testing.T, f *fixture, full string, later time.Duration) (name string) {
	t.Helper()
	before := f.bucket.Get(full)
	h, err := backup.ReadHeader(t.Context(), f.bucket, place(t, full))
	if err != nil {
		t.Fatal(err)
	}
	h.Place.Time = h.Place.Time.Add(later)
	c, err := backup.BodyContent(nil, before[int64(len(before))-h.BodySize:]).WithHeader(h)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.bucket.Create(t.Context(), h.Place.Name(), c); err != nil {
		t.Fatal(err)
	}
	return h.Place.Name()
}

// Of two fulls of one revision only the earlier one has a hash. It counts for the later one, too, and for what an older full leads to.
func TestExtract_ComparesAFullWithTheHashOfAnotherOneOfItsRevision(t *testing.T) {
	f := makeFixture(t, false)
	hash := onlyHashIn(t, f, false)
	fulls, _ := f.objects(t)
	later := dated(t, f, fulls[1], time.Second)
	rehead(t, f.bucket, fulls[1], func(h *backup.Header) { h.Hashes = []backup.Hash{hash} })
	at := backup.At{Revision: f.fulls[1]}
	if x, err := f.compared(t, at); err != nil || x.Full != place(t, later).ID() || x.Compared == nil || *x.Compared != hash || len(x.Notes) > 0 {
		t.Errorf("from %s, compared with %v, notes %q, %v", x.Full, x.Compared, x.Notes, err)
	}
	wrong := place(t, wrongContent(t, f, later)).ID()
	if x, err := f.compared(t, at); err != nil || x.Full != place(t, fulls[1]).ID() || len(x.Notes) != 1 {
		t.Errorf("from %s, notes %q, %v", x.Full, x.Notes, err)
	}
	if x, err := f.compared(t, backup.At{Full: wrong}); !errors.Is(err, backup.ErrHash) {
		t.Errorf("by its name: from %s, %v", x.Full, err)
	}
}

// Of two fulls of one revision one is wrong, with a hash that is equal to its data, and no delta has one. Data that an older full leads to has the
// hash of the other one, which so is right.
func TestExtract_TwoFullsOfOneRevisionWithDifferentHashes(t *testing.T) {
	f := makeFixture(t, false)
	fulls, deltas := f.objects(t)
	sound := dated(t, f, fulls[1], time.Second)
	wrongAlike(t, f)
	for _, d := range deltas[3:] {
		f.bucket.Delete(t.Context(), d)
	}
	older := func(err error, x backup.Extracted) {
		t.Helper()
		if err != nil || x.Full != place(t, fulls[0]).ID() || x.Compared == nil || len(x.Notes) != 3 {
			t.Errorf("from %s, compared with %v, notes %q, %v", x.Full, x.Compared, x.Notes, err)
		}
	}
	x, err := f.compared(t, backup.At{})
	older(err, x)
	wrong := dated(t, f, fulls[1], 2*time.Second) // the other way around
	f.bucket.Delete(t.Context(), fulls[1])
	x, err = f.compared(t, backup.At{})
	older(err, x)
	f.bucket.Delete(t.Context(), fulls[0])
	x, err = f.compared(t, backup.At{})
	if err != nil || x.Full != place(t, wrong).ID() || len(x.Notes) != 2 || !strings.Contains(x.Notes[1], sound) {
		t.Errorf("from %s, notes %q, %v", x.Full, x.Notes, err)
	}
	if x, err := f.store(t, f.bucket).Drill(etcdtest.Context(t), backup.At{}, nil); !errors.Is(err, backup.ErrHash) {
		t.Errorf("a drill from %s: %v", x.Full, err)
	}
}
