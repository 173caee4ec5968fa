package take_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
)

// The whole way round: a cluster, its backups, etcdutl, and a cluster that serves what was restored.
func TestRestore_EtcdutlTakesItAndEtcdServesIt(t *testing.T) {
	b := backuptest.NewMemory()
	r := begin(t, b, nil)
	ctx := etcdtest.Context(t)
	lease, err := r.Server.Client.Grant(ctx, 3600)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		r.Put(fmt.Sprint("k", i%50), random(i*10), clientv3.WithLease(lease.ID*clientv3.LeaseID(i%2)))
	}
	r.Flush()
	mid := r.Server.State(t, 0).Revision - 20
	if _, err := r.Server.Client.Compact(ctx, mid, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Server.Client.Delete(ctx, "k1", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	r.Put("last", "1")
	r.Flush()
	want := r.Server.State(t, 0)
	hash := r.Server.Hash(t, want.Revision)
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	store := r.Store()
	for _, step := range []string{"from a full and deltas", "from a compacted chain"} {
		out := filepath.Join(t.TempDir(), "snapshot.db")
		x, err := store.Extract(ctx, backup.At{}, out, backup.ExtractOptions{CheckHash: true})
		if err != nil {
			t.Fatal(err)
		}
		s := etcdtest.Start(t, etcdtest.Options{Dir: etcdtest.Restore(t, out)})
		got := s.State(t, 0)
		if got.Revision != want.Revision || x.Revision != want.Revision {
			t.Errorf("%s: revision %d, want %d", step, got.Revision, want.Revision)
		}
		taketest.SameState(t, want, got)
		if d := cmp.Diff(want.Leases, got.Leases); d != "" {
			t.Errorf("%s: leases %s", step, d)
		}
		if h := s.Hash(t, want.Revision); h != hash {
			t.Errorf("%s: hash %+v, want %+v", step, h, hash)
		}
		s.Stop()
		if _, err := store.Compact(ctx, backup.At{}, backup.CompactOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
