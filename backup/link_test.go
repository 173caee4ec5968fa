package backup_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
)

// rehead gives an object another header, as another writer might have.
func rehead(t testing.TB, b *backuptest.Memory, name string, change func(h *backup.Header)) {
	t.Helper()
	p := place(t, name)
	h, err := backup.ReadHeader(t.Context(), b, p)
	if err != nil {
		t.Fatal(err)
	}
	whole := b.Get(name)
	change(&h)
	c, err := backup.BodyContent(nil, whole[int64(len(whole))-h.BodySize:]).WithHeader(h)
	if err != nil {
		t.Fatal(err)
	}
	b.Set(name, nil)
	b.Delete(t.Context(), name)
	if err := b.Create(t.Context(), name, c); err != nil {
		t.Fatal(err)
	}
}

func TestLinks_EveryObjectNamesThoseBeforeIt(t *testing.T) {
	f := makeFixture(t, true)
	fulls, deltas := f.objects(t)
	links := map[string]*backup.Link{}
	head := func(name string) backup.Header {
		h, err := backup.ReadHeader(t.Context(), f.bucket, place(t, name))
		if err != nil {
			t.Fatal(err)
		}
		links[name] = h.Link()
		return h
	}
	first, second := head(fulls[0]), head(fulls[1])
	for i, name := range deltas {
		h := head(name)
		base := first.Link()
		if h.Place.Revision > second.Last {
			base = second.Link()
		}
		if h.Base == nil || *h.Base != *base || h.Mark == "" || h.Watched.IsZero() {
			t.Errorf("%s: base %v, want %v; mark %q, watched %s", name, h.Base, base, h.Mark, h.Watched)
		}
		if i == 0 && h.After != nil || i > 0 && (h.After == nil || *h.After != *links[deltas[i-1]]) {
			t.Errorf("%s follows %v", name, h.After)
		}
	}
	if first.After != nil || second.After == nil || second.After.Object != deltas[2] {
		t.Errorf("fulls follow %v and %v", first.After, second.After)
	}
}

func TestLinks_AReplacedObjectIsDamage(t *testing.T) {
	f := makeFixture(t, false)
	fulls, deltas := f.objects(t)
	for _, name := range []string{fulls[1], deltas[1], deltas[4]} {
		b := f.bucket.Clone()
		rehead(t, b, name, func(h *backup.Header) { h.Writer = "somebody else" })
		r, err := f.store(t, b).Check(etcdtest.Context(t), "")
		if err != nil || len(r.Findings) != 1 || r.Findings[0].Object != name {
			t.Errorf("verify, %s replaced: %+v, %v", name, r, err)
		}
		at := backup.At{Full: place(t, fulls[0]).ID()}
		if _, err := f.store(t, b).Extract(etcdtest.Context(t), at, filepath.Join(t.TempDir(), "x"), backup.ExtractOptions{}); err != nil {
			t.Errorf("the first full: %v", err)
		}
	}
	// The delta after it gives it away, and the older full leads to the same revision only by way of it.
	b := f.bucket.Clone()
	rehead(t, b, deltas[4], func(h *backup.Header) { h.Writer = "somebody else" })
	if d := f.extractBad(t, b, backup.At{}); d.Object != deltas[4] {
		t.Errorf("damage of %s", d.Object)
	}
	// A full that deltas contradict is passed over.
	b = f.bucket.Clone()
	rehead(t, b, fulls[1], func(h *backup.Header) { h.Writer = "somebody else" })
	if x := f.extractOK(t, b, backup.At{}); x.Full != place(t, fulls[0]).ID() || len(x.Notes) != 1 {
		t.Errorf("restored from %s, notes %q", x.Full, x.Notes)
	}
}

// Objects of earlier releases have no links.
func TestLinks_OlderObjectsAreReadWithANote(t *testing.T) {
	f := makeFixture(t, false)
	fulls, deltas := f.objects(t)
	for _, name := range append(slices.Clone(fulls), deltas...) {
		rehead(t, f.bucket, name, func(h *backup.Header) {
			h.After, h.Base, h.Mark, h.Watched = nil, nil, "", time.Time{}
		})
	}
	r, err := f.store(t, f.bucket).Check(etcdtest.Context(t), "")
	if err != nil || len(r.Findings) != 0 || r.Unlinked != len(deltas)-1 {
		t.Errorf("verify: %+v, %v", r, err)
	}
	f.extractOK(t, f.bucket, backup.At{})
	// Deltas that are newer than every full need one all the same.
	for _, name := range fulls {
		f.bucket.Delete(t.Context(), name)
	}
	rest := f.bucket.Clone()
	if _, err := f.store(t, rest).Find(etcdtest.Context(t), backup.At{}); !errors.Is(err, backup.ErrEmpty) {
		t.Errorf("without a full: %v", err)
	}
}

func TestMarkOf_TellsChangesApart(t *testing.T) {
	put := backup.Change{Key: []byte("k"), Value: []byte("v"), CreateRevision: 7, ModRevision: 7, Version: 1}
	changed := map[string]func(c *backup.Change){
		"value": func(c *backup.Change) { c.Value = []byte("w") },
		"key":   func(c *backup.Change) { c.Key = []byte("l") },
		"lease": func(c *backup.Change) { c.Lease = 5 },
		"age":   func(c *backup.Change) { c.CreateRevision, c.Version = 3, 2 },
		"kind":  func(c *backup.Change) { c.Delete = true },
	}
	for name, change := range changed {
		other := put
		if change(&other); backup.MarkOf([]backup.Change{put}) == backup.MarkOf([]backup.Change{other}) {
			t.Errorf("another %s has the same mark", name)
		}
	}
	w, err := backup.NewDeltaWriter(7, nil)
	if err != nil {
		t.Fatal(err)
	}
	next := put
	next.ModRevision, next.Version = 8, 2
	if err := w.Add([]backup.Change{put, next}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if w.Mark() != backup.MarkOf([]backup.Change{next}) {
		t.Error("a delta's mark is not that of its last revision")
	}
}
