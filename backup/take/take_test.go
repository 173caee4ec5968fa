package take_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/testing/protocmp"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/take"
)

// rig is an etcd, a bucket, and a Taker that runs until the test ends.
type rig struct {
	t      testing.TB
	server *etcdtest.Server
	bucket backup.Bucket
	events chan take.Event
	taker  *take.Taker
	stop   func() error
}

func config(s *etcdtest.Server, b backup.Bucket) take.Config {
	return take.Config{
		Bucket: b, Cluster: "prod", Lineage: "a1b2", Endpoints: []string{s.Endpoint},
		Delta: cke.BackupDelta{Period: cke.Duration(time.Hour), Size: 1 << 30},
		Retry: backup.Retry{First: time.Millisecond, Longest: 10 * time.Millisecond, For: 5 * time.Second},
	}
}

func start(t testing.TB, s *etcdtest.Server, c take.Config) *rig {
	t.Helper()
	r := &rig{t: t, server: s, bucket: c.Bucket, events: make(chan take.Event, 1000)}
	c.Notify = func(e take.Event) { r.events <- e }
	c.Scratch = t.TempDir()
	var err error
	if r.taker, err = take.New(c); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.taker.Run(ctx) }()
	stopped := false
	r.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(30 * time.Second):
			t.Fatal("the Taker does not stop")
			return nil
		}
	}
	t.Cleanup(func() { r.stop() })
	return r
}

// await returns the next event of a type.
func (r *rig) await(want take.EventType) take.Event {
	r.t.Helper()
	limit := time.After(30 * time.Second)
	for {
		select {
		case e := <-r.events:
			if e.Type == want {
				return e
			}
			r.t.Logf("event %s %v", e.Type, e.Err)
		case <-limit:
			r.t.Fatalf("no event %q", want)
		}
	}
}

func (r *rig) flush() {
	r.t.Helper()
	if err := r.taker.Flush(etcdtest.Context(r.t)); err != nil {
		r.t.Fatalf("flush: %v", err)
	}
}

func (r *rig) store() *backup.Store {
	return &backup.Store{Bucket: r.bucket, Cluster: "prod", Scratch: r.t.TempDir()}
}

func (r *rig) put(key, value string, opts ...clientv3.OpOption) int64 {
	r.t.Helper()
	res, err := r.server.Client.Put(etcdtest.Context(r.t), key, value, opts...)
	if err != nil {
		r.t.Fatal(err)
	}
	return res.Header.Revision
}

// extract restores a state and opens it with etcd's storage engine.
func extract(t testing.TB, s *backup.Store, at backup.At) (*etcdtest.Store, backup.Extracted) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "snapshot.db")
	x, err := s.Extract(etcdtest.Context(t), at, out, backup.ExtractOptions{CheckHash: true})
	if err != nil {
		t.Fatalf("extract %+v: %v", at, err)
	}
	return etcdtest.Open(t, out), x
}

func sameState(t testing.TB, want, got etcdtest.State) {
	t.Helper()
	if d := cmp.Diff(want.KVs, got.KVs, protocmp.Transform()); d != "" {
		t.Errorf("keys differ (-source +restored):\n%s", d)
	}
}

func TestTaker_ExtractsExactlyWhatTheClusterHeld(t *testing.T) {
	s := etcdtest.Start(t, etcdtest.Options{})
	bucket := backuptest.NewMemory()
	before := &rig{t: t, server: s}
	for i := range 10 {
		before.put(fmt.Sprint("old", i), "x")
	}
	r := start(t, s, config(s, bucket))
	full := r.await(take.FullStored).Header
	if full.Last != 11 {
		t.Fatalf("full at %d", full.Last)
	}
	lease, err := s.Client.Grant(etcdtest.Context(t), 1000)
	if err != nil {
		t.Fatal(err)
	}
	r.put("leased", "v", clientv3.WithLease(lease.ID))
	r.put("old1", "y")
	if _, err := s.Client.Delete(etcdtest.Context(t), "old2", clientv3.WithRange("old5")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Client.Txn(etcdtest.Context(t)).Then(clientv3.OpPut("a", "1"), clientv3.OpPut("b", ""), clientv3.OpDelete("old9")).Commit(); err != nil {
		t.Fatal(err)
	}
	r.flush()
	want := s.State(t, 0)
	got, x := extract(t, r.store(), backup.At{})
	if x.Revision != want.Revision {
		t.Fatalf("extracted %d, the cluster is at %d", x.Revision, want.Revision)
	}
	sameState(t, want, got.State(t, 0))
	if d := cmp.Diff(want.Leases, got.State(t, 0).Leases); d != "" {
		t.Errorf("leases: %s", d)
	}
	if w, g := s.Hash(t, want.Revision), got.Hash(t, want.Revision); w != g {
		t.Errorf("hash %+v, want %+v", g, w)
	}
	if !x.HashChecked {
		t.Error("no hash was recorded")
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
}
