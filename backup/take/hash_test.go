package take_test

import (
	"bytes"
	"path/filepath"
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
