package take_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// A quiet cluster that is compacted to its newest revision, as people do before they defragment: etcd then goes on giving the hash
// of that revision that it reckoned before the compaction, of which a snapshot holds less. The full is not damaged for that.
func TestFull_OfAClusterCompactedToItsNewestRevision(t *testing.T) {
	s := etcdtest.Start(t, etcdtest.Options{})
	r := &taketest.Rig{T: t, Server: s, Bucket: backuptest.NewMemory()}
	for range 5 {
		r.Put("a", "1")
	}
	last := r.Put("b", "1")
	compact(t, r, last)
	h, err := take.Full(etcdtest.Context(t), taketest.Config(s, r.Bucket))
	if err != nil {
		t.Fatal(err)
	}
	if h.Last != last || h.Compacted != last || len(h.Hashes) > 0 {
		t.Errorf("revision %d, compacted to %d, hashes %+v", h.Last, h.Compacted, h.Hashes)
	}
	got, _ := taketest.Extract(t, r.Store(), backup.At{})
	taketest.SameState(t, s.State(t, 0), got.State(t, 0))
}

func TestTaker_ExtractsExactlyWhatTheClusterHeld(t *testing.T) {
	s := etcdtest.Start(t, etcdtest.Options{})
	bucket := backuptest.NewMemory()
	before := &taketest.Rig{T: t, Server: s}
	for i := range 10 {
		before.Put(fmt.Sprint("old", i), "x")
	}
	r := taketest.Start(t, s, taketest.Config(s, bucket))
	full := r.Await(take.FullStored).Header
	if full.Last != 11 {
		t.Fatalf("full at %d", full.Last)
	}
	lease, err := s.Client.Grant(etcdtest.Context(t), 1000)
	if err != nil {
		t.Fatal(err)
	}
	r.Put("leased", "v", clientv3.WithLease(lease.ID))
	r.Put("old1", "y")
	if _, err := s.Client.Delete(etcdtest.Context(t), "old2", clientv3.WithRange("old5")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Client.Txn(etcdtest.Context(t)).Then(clientv3.OpPut("a", "1"), clientv3.OpPut("b", ""), clientv3.OpDelete("old9")).Commit(); err != nil {
		t.Fatal(err)
	}
	r.Flush()
	want := s.State(t, 0)
	got, x := taketest.Extract(t, r.Store(), backup.At{})
	if x.Revision != want.Revision {
		t.Fatalf("extracted %d, the cluster is at %d", x.Revision, want.Revision)
	}
	taketest.SameState(t, want, got.State(t, 0))
	if d := cmp.Diff(want.Leases, got.State(t, 0).Leases); d != "" {
		t.Errorf("leases: %s", d)
	}
	if w, g := s.Hash(t, want.Revision), got.Hash(t, want.Revision); w != g {
		t.Errorf("hash %+v, want %+v", g, w)
	}
	if !x.HashChecked {
		t.Error("no hash was recorded")
	}
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
}
