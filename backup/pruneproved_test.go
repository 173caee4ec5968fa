package backup_test

import (
	"slices"
	"testing"

	"cke"
	"cke/backup"
	"cke/backup/internal/etcdtest"
)

// drilledBefore leaves the mark of a drill, with a hash, of a time when only the first full and one delta were there.
func drilledBefore(t *testing.T, f *fixture) {
	t.Helper()
	ctx := etcdtest.Context(t)
	fulls, deltas := f.objects(t)
	then := f.bucket.Clone()
	for _, name := range append(slices.Clone(deltas[1:]), fulls[1]) {
		then.Delete(ctx, name)
	}
	if x, err := f.store(t, then).Drill(ctx, backup.At{}, nil); err != nil || x.Full != place(t, fulls[0]).ID() || x.Compared == nil {
		t.Fatal(x, err)
	}
	for _, name := range names(t, then) {
		if !slices.Contains(names(t, f.bucket), name) {
			f.bucket.Set(name, then.Get(name)) // its mark
		}
	}
}

// The full that a drill proved right leads to the newest state. A newer full that no drill has looked at yet is wrong. Pruning takes the deltas
// between the two.
func TestPrune_KeepsTheWayFromWhatWasProved(t *testing.T) {
	f := makeFixture(t, false)
	ctx := etcdtest.Context(t)
	s := f.store(t, f.bucket)
	drilledBefore(t, f)
	makeWrong(t, f)
	if x, err := f.compared(t, backup.At{}); err != nil || x.Revision != f.last {
		t.Fatal(x, err)
	}
	if _, err := s.Prune(ctx, cke.Retention{Last: 1}, false); err != nil {
		t.Fatal(err)
	}
	if x, err := f.compared(t, backup.At{}); err != nil || x.Revision != f.last {
		t.Errorf("the newest state could be restored before: %v", err)
	}
}

// A hash proved the first full. The drill since then had none to compare with, and restored from the second full, which is wrong.
func TestPrune_KeepsTheWayFromWhatAHashProved(t *testing.T) {
	f := makeFixture(t, false)
	ctx := etcdtest.Context(t)
	s := f.store(t, f.bucket)
	fulls, deltas := f.objects(t)
	drilledBefore(t, f)
	wrong := makeWrong(t, f)
	noHashes := func(h *backup.Header) { h.Hashes, h.After, h.Base = nil, nil, nil }
	for _, name := range append([]string{wrong}, deltas[1:]...) {
		rehead(t, f.bucket, name, noHashes)
	}
	for range 12 { // more than are read
		if x, err := s.Drill(ctx, backup.At{}, nil); err != nil || x.Compared != nil || x.Full != place(t, wrong).ID() {
			t.Fatal(x, err)
		}
	}
	if _, err := s.Prune(ctx, cke.Retention{Last: 1}, false); err != nil {
		t.Fatal(err)
	}
	rehead(t, f.bucket, deltas[5], func(h *backup.Header) { h.Hashes = []backup.Hash{f.hash} })
	if x, err := f.compared(t, backup.At{}); err != nil || x.Revision != f.last || x.Full != place(t, fulls[0]).ID() {
		t.Errorf("the newest state could be restored before: from %s, %v", x.Full, err)
	}
}
