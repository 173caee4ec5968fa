package backup_test

import (
	"errors"
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
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

// A hash of a full between is of before a compaction that deltas after it have.
func TestExtract_AHashOfBeforeACompactionIsComparedRight(t *testing.T) {
	for _, plain := range []bool{false, true} {
		s := etcdtest.Start(t, etcdtest.Options{})
		ctx := etcdtest.Context(t)
		b := backuptest.NewMemory()
		(&taketest.Rig{T: t, Server: s}).Put("a", "1")
		r := taketest.Start(t, s, taketest.Config(s, b))
		r.Await(take.FullStored)
		put := func() (last int64) {
			for _, k := range []string{"a", "b", "c", "a"} {
				last = r.Put(k, "x")
			}
			if _, err := s.Client.Delete(ctx, "b"); err != nil {
				t.Fatal(err)
			}
			return last + 1
		}
		mid := put()
		r.Flush()
		if _, err := s.Client.Compact(ctx, mid-2, clientv3.WithCompactPhysical()); err != nil {
			t.Fatal(err)
		}
		put()
		h, err := r.Taker.Full(ctx)
		if err != nil || len(h.Hashes) == 0 {
			t.Fatal(h, err)
		}
		last := put()
		r.Flush()
		if _, err := s.Client.Compact(ctx, last-1, clientv3.WithCompactPhysical()); err != nil {
			t.Fatal(err)
		}
		last = put()
		r.Flush()
		if err := r.Stop(); err != nil {
			t.Fatal(err)
		}
		data := b.Get(h.Place.Name())
		data[len(data)-10] ^= 1
		b.Set(h.Place.Name(), data)
		st := r.Store()
		st.Plain = plain
		for revision := h.Last; revision <= last; revision++ {
			x, err := st.Extract(ctx, backup.At{Revision: revision}, filepath.Join(t.TempDir(), "out"), backup.ExtractOptions{CheckHash: true})
			if err != nil || x.Compared == nil {
				t.Errorf("plain %t revision %d: %v %v", plain, revision, x.Compared, err)
			}
		}
		if _, err := st.Compact(ctx, backup.At{}, backup.CompactOptions{}); err != nil {
			t.Error(err)
		}
	}
}
