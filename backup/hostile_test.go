package backup_test

import (
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

var _ = cke.Retention{}

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
