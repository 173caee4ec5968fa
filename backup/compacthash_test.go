package backup_test

import (
	"errors"
	"path/filepath"
	"testing"

	"cke"
	"cke/backup"
	"cke/backup/internal/etcdtest"
)

// The newest full is wrong and vouched for by the member that gave it; deltas after it have the hash of another member, which shows it. A
// restore passes it over. Compact does not, and what is pruned then is the only full that was right.
func TestCompact_ComparesWithHashesOfDeltas(t *testing.T) {
	f := makeFixture(t, false)
	ctx := etcdtest.Context(t)
	wrong := makeWrong(t, f)
	s := f.store(t, f.bucket)
	file := filepath.Join(t.TempDir(), "wrong.db")
	if _, err := s.Extract(ctx, backup.At{Full: place(t, wrong).ID()}, file, backup.ExtractOptions{}); err != nil {
		t.Fatal(err)
	}
	own, err := backup.HashSnapshot(ctx, file, f.fulls[1], -1)
	if err != nil {
		t.Fatal(err)
	}
	rehead(t, f.bucket, wrong, func(h *backup.Header) { h.Hashes = []backup.Hash{own} })
	h, err := backup.ReadHeader(ctx, f.bucket, place(t, wrong))
	if err != nil {
		t.Fatal(err)
	}
	_, deltas := f.objects(t)
	for _, d := range deltas {
		rehead(t, f.bucket, d, func(x *backup.Header) {
			x.After = nil
			if x.Base != nil && x.Base.Object == wrong {
				x.Base = h.Link()
			}
			if x.Last <= h.Last {
				x.Hashes = nil
			}
		})
	}
	if before, err := f.compared(t, backup.At{}); err != nil || before.Full == place(t, wrong).ID() {
		t.Fatal("a restore does not pass it over", err)
	}
	p, err := s.Compact(ctx, backup.At{}, backup.CompactOptions{})
	t.Logf("merged %s: %v", p.ID(), err)
	if _, err := s.Prune(ctx, cke.Retention{Last: 1}, false); err != nil {
		t.Fatal(err)
	}
	x, err := f.compared(t, backup.At{Revision: f.last})
	if err != nil {
		t.Errorf("what could be restored before cannot be any more: %v", err)
		return
	}
	t.Logf("after: from %s, compared %v, notes %q", x.Full, x.Compared, x.Notes)
	f.extractOK(t, f.bucket, backup.At{Revision: f.last})
}

// A delta does not lead to the data of which a later delta has the hash. A restore refuses the newest state. Compact makes a full of it that has no
// hash any more, and from then on it is restored without a word.
func TestCompact_DoesNotLaunderAWrongDelta(t *testing.T) {
	f := makeFixture(t, false)
	ctx := etcdtest.Context(t)
	_, deltas := f.objects(t)
	rehead(t, f.bucket, deltas[4], func(h *backup.Header) {
		h.Hashes = []backup.Hash{{Revision: h.Last, Compacted: -1, Hash: 7}}
	})
	rehead(t, f.bucket, deltas[5], func(h *backup.Header) { h.Hashes, h.After = nil, nil })
	s := f.store(t, f.bucket)
	if _, err := f.compared(t, backup.At{}); !errors.Is(err, backup.ErrHash) {
		t.Fatalf("before: %v", err)
	}
	p, err := s.Compact(ctx, backup.At{}, backup.CompactOptions{})
	if err == nil {
		t.Errorf("it was merged: %s", p.ID())
	}
	if x, err := f.compared(t, backup.At{}); err == nil {
		t.Errorf("revision %d is restored from %s without a word: compared %v, notes %q", x.Revision, x.Full, x.Compared, x.Notes)
	}
}
