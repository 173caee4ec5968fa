package backup_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"cke/backup"
)

// extend stores a delta behind all others, of changes received at these times.
func (f *fixture) extend(t *testing.T, watched time.Time, times ...time.Time) (last int64) {
	t.Helper()
	_, deltas := f.objects(t)
	p := place(t, deltas[len(deltas)-1])
	h, err := backup.ReadHeader(t.Context(), f.bucket, p)
	if err != nil {
		t.Fatal(err)
	}
	w, err := backup.NewDeltaWriter(h.Last+1, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, at := range times {
		rev := h.Last + 1 + int64(i)
		if err := w.Add([]backup.Change{{Key: []byte("order"), Value: []byte("x"), CreateRevision: h.Last + 1, ModRevision: rev, Version: int64(i) + 1}}, at); err != nil {
			t.Fatal(err)
		}
	}
	c, h, err := w.Seal(backup.Header{Place: backup.DeltaPlace("prod", "a1b2", p.Stream, p.Sequence+1, h.Last+1), After: h.Link(), Watched: watched})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.bucket.Create(t.Context(), h.Place.Name(), c); err != nil {
		t.Fatal(err)
	}
	return h.Last
}

func TestFind_ATimeAcrossAnOutage(t *testing.T) {
	back := time.Now().Add(2 * time.Hour)
	for name, watched := range map[string]time.Time{"watched since": back.Add(-time.Second), "unknown": {}, "watched all the time": time.Now().Add(-time.Minute)} {
		f := makeFixture(t, false)
		f.extend(t, watched, back, back)
		s := f.store(t, f.bucket)
		s.Now = func() time.Time { return back.Add(time.Hour) }
		found, err := s.Find(t.Context(), backup.At{Time: back.Add(-time.Hour)})
		if err != nil || found.Revision != f.last || (len(found.Notes) == 1) != (name != "watched all the time") {
			t.Errorf("%s: revision %d, notes %q, %v", name, found.Revision, found.Notes, err)
		}
	}
}

// The watch was cut while a delta was filled: within that delta nothing else tells.
func TestFind_ATimeAcrossAnOutageWithinADelta(t *testing.T) {
	base := time.Now().Truncate(time.Second).Add(time.Hour)
	for name, watched := range map[string]time.Time{"cut": base.Add(time.Hour), "watched all the time": base.Add(-time.Minute)} {
		f := makeFixture(t, false)
		last := f.extend(t, watched, base, base.Add(time.Hour))
		s := f.store(t, f.bucket)
		s.Now = func() time.Time { return base.Add(2 * time.Hour) }
		found, err := s.Find(t.Context(), backup.At{Time: base.Add(30 * time.Minute)})
		if err != nil || found.Revision != last-1 || (len(found.Notes) == 1) != (name == "cut") {
			t.Errorf("%s: revision %d, notes %q, %v", name, found.Revision, found.Notes, err)
		}
	}
}

func TestFind_AClockPutBackWithinADelta(t *testing.T) {
	f := makeFixture(t, false)
	base := time.Now().Truncate(time.Second).Add(time.Hour)
	last := f.extend(t, time.Time{}, base, base.Add(2*time.Second), base.Add(-30*time.Minute), base.Add(-30*time.Minute+3*time.Second))
	s := f.store(t, f.bucket)
	s.Now = func() time.Time { return base.Add(2 * time.Hour) }
	for after, want := range map[time.Duration]int64{-20 * time.Minute: 0, time.Second: 0, 5 * time.Second: last, -45 * time.Minute: f.last} {
		found, err := s.Find(t.Context(), backup.At{Time: base.Add(after)})
		if want == 0 && !errors.Is(err, backup.ErrAmbiguousTime) || want != 0 && (err != nil || found.Revision != want) {
			t.Errorf("%s: revision %d, %v; want %d", after, found.Revision, err, want)
		}
	}
}

// The watch was cut before or within a delta in which the clock was put back, too: the note does not depend on the clock.
func TestFind_ATimeAcrossAnOutageWithAClockPutBack(t *testing.T) {
	base := time.Now().Truncate(time.Second).Add(2 * time.Hour)
	for name, row := range map[string]struct {
		watched, at time.Duration
		after       int64 // revisions of the delta that the time stands for
		notes       int
	}{
		"cut before":                  {-2 * time.Second, -time.Hour, 0, 1},
		"watched before":              {-90 * time.Minute, -time.Hour, 0, 0},
		"cut within":                  {time.Hour, 30 * time.Minute, 2, 1},
		"watched within all the time": {-90 * time.Minute, 30 * time.Minute, 2, 0},
	} {
		f := makeFixture(t, false)
		f.extend(t, base.Add(row.watched), base, base.Add(-time.Second), base.Add(time.Hour))
		s := f.store(t, f.bucket)
		s.Now = func() time.Time { return base.Add(2 * time.Hour) }
		found, err := s.Find(t.Context(), backup.At{Time: base.Add(row.at)})
		if err != nil || found.Revision != f.last+row.after || len(found.Notes) != row.notes {
			t.Errorf("%s: revision %d, notes %q, %v", name, found.Revision, found.Notes, err)
		}
	}
}

// Lives name what they came from; clocks decide only where nothing else does.
func TestFind_ThePresentLifeOfTheCluster(t *testing.T) {
	f := makeFixture(t, false)
	fulls, _ := f.objects(t)
	h, err := backup.ReadHeader(t.Context(), f.bucket, place(t, fulls[0]))
	if err != nil {
		t.Fatal(err)
	}
	whole := f.bucket.Get(fulls[0])
	next := func(b backup.Bucket, lineage string, o *backup.Origin) {
		h := h
		h.Place = backup.FullPlace("prod", lineage, h.Last, h.Place.Time.Add(-time.Hour)) // its clock was behind
		h.Origin = o
		c, err := backup.BodyContent(nil, whole[int64(len(whole))-h.BodySize:]).WithHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Create(t.Context(), h.Place.Name(), c); err != nil {
			t.Fatal(err)
		}
	}
	b := f.bucket.Clone()
	next(b, "ffff", &backup.Origin{Lineage: "a1b2", Revision: 5, Replaces: "a1b2"})
	if found, err := f.store(t, b).Find(t.Context(), backup.At{}); err != nil || found.Lineage != "ffff" || len(found.Notes) != 0 {
		t.Errorf("by origin: %+v, %v", found, err)
	}
	other := f.bucket.Clone()
	next(other, "ffff", &backup.Origin{Lineage: "0000", Revision: 5, Replaces: "9999", Replaced: []string{"a1b2", "9999"}})
	if found, err := f.store(t, other).Find(t.Context(), backup.At{}); err != nil || found.Lineage != "ffff" || len(found.Notes) != 0 {
		t.Errorf("by origin, where the one before has no backups: %+v, %v", found, err)
	}
	if _, err := f.store(t, b).Find(t.Context(), backup.At{Revision: f.last}); !errors.Is(err, backup.ErrNotCovered) || !strings.Contains(err.Error(), "(choose it with `--lineage`): a1b2") {
		t.Errorf("what only the life before has: %v", err)
	}
	b = f.bucket.Clone()
	next(b, "ffff", nil)
	if found, err := f.store(t, b).Find(t.Context(), backup.At{}); err != nil || found.Lineage != "a1b2" || len(found.Notes) != 1 {
		t.Errorf("by clock: %+v, %v", found, err)
	}
	s := f.store(t, b)
	s.Lives = []string{"eeee", "ffff", "a1b2"}
	if found, err := s.Find(t.Context(), backup.At{}); err != nil || found.Lineage != "ffff" || len(found.Notes) != 1 || !strings.Contains(found.Notes[0], "incarnation, eeee, has no backups") {
		t.Errorf("on record: %+v, %v", found, err)
	}
	s.Lives = []string{"ffff", "a1b2"}
	if found, err := s.Find(t.Context(), backup.At{}); err != nil || found.Lineage != "ffff" || len(found.Notes) != 0 {
		t.Errorf("the present one: %+v, %v", found, err)
	}
	s.Lives = []string{"eeee"}
	for _, bucket := range []backup.Bucket{b, f.bucket} { // several others, and one
		s.Bucket = bucket
		if found, err := s.Find(t.Context(), backup.At{}); err != nil || found.Lineage != "a1b2" || !strings.Contains(strings.Join(found.Notes, " "), "incarnation, eeee, has no backups") {
			t.Errorf("none on record: %+v, %v", found, err)
		}
	}
	s.Bucket, s.Stored = b, map[string]int64{"eeee": 0}
	if found, err := s.Find(t.Context(), backup.At{}); !errors.Is(err, backup.ErrLost) || !strings.Contains(err.Error(), "--lineage a1b2") {
		t.Errorf("backups of the present one were stored: %+v, %v", found, err)
	}
	s.Stored, s.Unread = nil, errors.New("timed out")
	for _, s.Lives = range [][]string{{"eeee"}, nil} {
		_, err := s.Find(t.Context(), backup.At{})
		if !errors.Is(err, backup.ErrUnread) || !strings.Contains(err.Error(), "timed out") || !strings.Contains(err.Error(), "--lineage a1b2") {
			t.Errorf("it is not known of %v: %v", s.Lives, err)
		}
		if found, err := s.Find(t.Context(), backup.At{Lineage: "ffff"}); err != nil || len(found.Notes) != 0 {
			t.Errorf("named: %+v, %v", found, err)
		}
	}
	s.Lives = []string{"ffff", "a1b2"}
	if found, err := s.Find(t.Context(), backup.At{}); err != nil || found.Lineage != "ffff" {
		t.Errorf("the present one is there: %+v, %v", found, err)
	}
}

// A full that is merged within a delta is dated when its newest change was received, not when the delta ended; until that it is not complete.
func TestCompact_WithinADeltaIsDatedByItsNewestChange(t *testing.T) {
	f := makeFixture(t, false)
	base := time.Now().Truncate(time.Second).Add(time.Hour).UTC()
	last := f.extend(t, time.Time{}, base, base.Add(time.Hour), base.Add(2*time.Hour))
	s := f.store(t, f.bucket)
	for revision, want := range map[int64]time.Time{last - 2: base, last - 1: base.Add(time.Hour), last: base.Add(2 * time.Hour)} {
		p, err := s.Compact(t.Context(), backup.At{Revision: revision}, backup.CompactOptions{})
		if err != nil {
			t.Fatal(err)
		}
		h, err := backup.ReadHeader(t.Context(), f.bucket, p)
		if err != nil || !p.Time.Equal(want) || !h.Begin.Equal(want) || !h.End.Equal(base.Add(2*time.Hour)) {
			t.Errorf("revision %d: dated %s, from %s to %s, want %s: %v", revision, p.Time, h.Begin, h.End, want, err)
		}
	}
}
