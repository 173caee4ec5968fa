package take_test

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// A follower whose data is silently wrong does not vouch for its own snapshot.
func TestTaker_TheHashIsOfAnotherMember(t *testing.T) {
	servers := etcdtest.StartCluster(t, 3)
	r := &taketest.Rig{T: t, Server: servers[0]}
	rev := r.Put("victim", "right")
	r.Put("end", "1")
	for _, s := range servers {
		if s.Etcd.Server.Leader() == s.Etcd.Server.MemberID() {
			continue
		}
		for s.Etcd.Server.KV().Rev() < rev+1 {
			<-time.After(10 * time.Millisecond)
		}
		corrupt(s, rev, "right", "WRONG") // both followers, of which one gives the snapshot
	}
	mem := backuptest.NewMemory()
	c := taketest.Config(servers[0], mem)
	c.Scratch, c.Endpoints = t.TempDir(), nil
	for _, s := range servers {
		c.Endpoints = append(c.Endpoints, s.Endpoint)
	}
	if h, err := take.Full(etcdtest.Context(t), c); err != nil || len(h.Hashes) != 1 {
		t.Fatal(h, err)
	}
	s := &backup.Store{Bucket: mem, Cluster: "prod", Scratch: t.TempDir()}
	if x, err := s.Drill(etcdtest.Context(t), backup.At{}, nil); !backup.IsDamage(err) {
		t.Errorf("drill: %+v, %v", x, err)
	}
	if _, err := s.Extract(etcdtest.Context(t), backup.At{}, filepath.Join(t.TempDir(), "x"), backup.ExtractOptions{CheckHash: true}); !backup.IsDamage(err) {
		t.Errorf("extract: %v", err)
	}
}

// corrupt changes a value in a member's database, as a bad disk might.
func corrupt(s *etcdtest.Server, revision int64, from, to string) {
	be := s.Etcd.Server.Backend()
	key := mvcc.RevToBytes(mvcc.Revision{Main: revision}, mvcc.NewRevBytes())
	rtx := be.ReadTx()
	rtx.RLock()
	_, vs := rtx.UnsafeRange(schema.Key, key, nil, 0)
	v := bytes.Replace(bytes.Clone(vs[0]), []byte(from), []byte(to), 1)
	rtx.RUnlock()
	tx := be.BatchTx()
	tx.Lock()
	tx.UnsafePut(schema.Key, key, v)
	tx.Unlock()
	be.ForceCommit()
}

// HashKV reads all of a large database, which takes minutes. What clients wrote does not wait for it: the hash is part of a later delta.
func TestTaker_ADeltaDoesNotWaitForItsHash(t *testing.T) {
	s := etcdtest.Start(t, etcdtest.Options{})
	var slow atomic.Bool
	answer := make(chan struct{})
	c := taketest.Config(s, backuptest.NewMemory())
	c.Endpoints = []string{etcdtest.SlowProxy(t, s, func(ctx context.Context, method string, _ int) {
		if strings.HasSuffix(method, "/HashKV") && slow.Load() {
			select {
			case <-answer:
			case <-ctx.Done():
			}
		}
	})}
	r := taketest.Start(t, s, c)
	r.Await(take.FullStored)
	slow.Store(true)
	begun := time.Now()
	first := r.Put("a", "v")
	r.Flush()
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("a change was stored after %s", took)
	}
	if h := r.Await(take.DeltaStored).Header; len(h.Hashes) > 0 {
		t.Errorf("hashes that nobody told: %+v", h.Hashes)
	}
	close(answer)
	var hashes []backup.Hash
	for range 100 {
		r.Put("b", "v")
		r.Flush()
		if hashes = r.Await(take.DeltaStored).Header.Hashes; len(hashes) > 0 {
			break
		}
	}
	if len(hashes) != 1 || hashes[0].Revision != first {
		t.Fatalf("hashes %+v, want that of revision %d", hashes, first)
	}
	x, err := r.Store().Drill(t.Context(), backup.At{}, nil)
	if err != nil || x.Compared == nil || x.Compared.Revision != first {
		t.Errorf("compared %+v, %v", x.Compared, err)
	}
}
