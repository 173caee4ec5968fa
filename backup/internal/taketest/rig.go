// Package taketest provides what tests of taking and of restoring share: an etcd, a bucket and a running Taker.
package taketest

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"cke"
	"cke/backup"
	"cke/backup/internal/etcdtest"
	"cke/backup/take"
)

// Rig is an etcd, a bucket, and a Taker that runs until the test ends.
type Rig struct {
	T      testing.TB
	Server *etcdtest.Server
	Bucket backup.Bucket
	Events chan take.Event
	Taker  *take.Taker
	Stop   func() error
	// Ended waits until the Taker returns by itself.
	Ended func() error
}

// Config returns the configuration of a Taker that stores only on request.
func Config(s *etcdtest.Server, b backup.Bucket) take.Config {
	return take.Config{
		Bucket: b, Cluster: "prod", Lineage: "a1b2", Endpoints: []string{s.Endpoint},
		Delta: cke.BackupDelta{Period: cke.Duration(time.Hour), Size: 1 << 30},
		Retry: backup.Retry{First: time.Millisecond, Longest: 10 * time.Millisecond, For: 30 * time.Second},
	}
}

// Start runs a Taker until the test ends or Stop is called.
func Start(t testing.TB, s *etcdtest.Server, c take.Config) *Rig {
	t.Helper()
	r := &Rig{T: t, Server: s, Bucket: c.Bucket, Events: make(chan take.Event, 1000)}
	c.Notify = func(e take.Event) { r.Events <- e }
	c.Scratch = t.TempDir()
	var err error
	if r.Taker, err = take.New(c); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Taker.Run(ctx) }()
	stopped := false
	r.Stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(time.Minute):
			t.Fatal("the Taker does not stop")
			return nil
		}
	}
	r.Ended = func() error {
		stopped = true
		select {
		case err := <-done:
			return err
		case <-time.After(time.Minute):
			t.Fatal("the Taker does not return")
			return nil
		}
	}
	t.Cleanup(func() { r.Stop() })
	return r
}

// Abandon stops the Taker and ignores its result, as if it was killed.
func (r *Rig) Abandon() { _ = r.Stop() }

// Await returns the next event of a type.
func (r *Rig) Await(want take.EventType) take.Event {
	r.T.Helper()
	limit := time.After(time.Minute)
	for {
		select {
		case e := <-r.Events:
			if e.Type == want {
				return e
			}
			r.T.Logf("event %s %v", e.Type, e.Err)
		case <-limit:
			r.T.Fatalf("no event %q", want)
		}
	}
}

// Flush stores all changes made so far.
func (r *Rig) Flush() {
	r.T.Helper()
	if err := r.Taker.Flush(etcdtest.Context(r.T)); err != nil {
		r.T.Fatalf("flush: %v", err)
	}
}

// Store reads the bucket.
func (r *Rig) Store() *backup.Store {
	return &backup.Store{Bucket: r.Bucket, Cluster: "prod", Scratch: r.T.TempDir()}
}

// Put writes a key and returns the revision.
func (r *Rig) Put(key, value string, opts ...clientv3.OpOption) int64 {
	r.T.Helper()
	res, err := r.Server.Client.Put(etcdtest.Context(r.T), key, value, opts...)
	if err != nil {
		r.T.Fatal(err)
	}
	return res.Header.Revision
}

// Extract restores a state and opens it with etcd's storage engine.
func Extract(t testing.TB, s *backup.Store, at backup.At) (*etcdtest.Store, backup.Extracted) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "snapshot.db")
	x, err := s.Extract(etcdtest.Context(t), at, out, backup.ExtractOptions{CheckHash: true})
	if err != nil {
		t.Fatalf("extract %+v: %v", at, err)
	}
	return etcdtest.Open(t, out), x
}

// SameState compares keys with everything that etcd knows about them; large values are not printed.
func SameState(t testing.TB, want, got etcdtest.State) {
	t.Helper()
	if len(want.KVs) != len(got.KVs) {
		t.Errorf("revision %d: %d keys instead of %d", want.Revision, len(got.KVs), len(want.KVs))
		return
	}
	for i, w := range want.KVs {
		if g := got.KVs[i]; !proto.Equal(w, g) {
			t.Errorf("revision %d: key %q (version %d of revision %d, lease %x, %d bytes) instead of %q (%d, %d, %x, %d)", want.Revision,
				g.Key, g.Version, g.ModRevision, g.Lease, len(g.Value), w.Key, w.Version, w.ModRevision, w.Lease, len(w.Value))
		}
	}
}
