package etcdtest

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.uber.org/zap"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/pkg/v3/traceutil"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

// Store is a snapshot file opened by etcd's own storage engine.
type Store struct {
	KV     mvcc.WatchableKV
	Lessor lease.Lessor
	alarms interface {
		GetAllAlarms() ([]*pb.AlarmMember, error)
	}
}

// Open copies a snapshot file and opens the copy as etcd does when it starts on it.
func Open(t testing.TB, snapshot string) *Store {
	t.Helper()
	file := filepath.Join(t.TempDir(), "db")
	copyFile(t, snapshot, file)
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size()%512 != 32 {
		t.Fatalf("the snapshot has %d bytes: no digest at its end", info.Size())
	}
	if err := os.Truncate(file, info.Size()-32); err != nil {
		t.Fatal(err)
	}
	lg := zap.NewNop()
	be := backend.NewDefaultBackend(lg, file)
	lessor := lease.NewLessor(lg, be, nil, lease.LessorConfig{MinLeaseTTL: 1})
	kv := mvcc.New(lg, be, lessor, mvcc.StoreConfig{})
	t.Cleanup(func() {
		kv.Close()
		lessor.Stop()
		be.Close()
	})
	return &Store{KV: kv, Lessor: lessor, alarms: schema.NewAlarmBackend(lg, be)}
}

// State is what a store holds at one revision.
type State struct {
	Revision int64
	KVs      []*mvccpb.KeyValue
	// Leases maps ids to seconds granted.
	Leases map[int64]int64
}

// State reads everything at a revision; 0 means the newest.
func (s *Store) State(t testing.TB, revision int64) State {
	t.Helper()
	r, err := s.KV.Range(context.Background(), []byte{0}, []byte{}, mvcc.RangeOptions{Rev: revision})
	if err != nil {
		t.Fatalf("range at %d: %v", revision, err)
	}
	st := State{Revision: s.KV.Rev(), KVs: r.KVs, Leases: map[int64]int64{}}
	for _, l := range s.Lessor.Leases() {
		st.Leases[int64(l.ID)] = l.TTL()
	}
	return st
}

// Hash returns etcd's own HashKV.
func (s *Store) Hash(t testing.TB, revision int64) mvcc.KeyValueHash {
	t.Helper()
	h, _, err := s.KV.HashStorage().HashByRev(revision)
	if err != nil {
		t.Fatalf("hash at %d: %v", revision, err)
	}
	return h
}

// Alarms returns those that etcd would start with.
func (s *Store) Alarms(t testing.TB) []*pb.AlarmMember {
	t.Helper()
	all, err := s.alarms.GetAllAlarms()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Compact compacts and waits until that is done.
func (s *Store) Compact(t testing.TB, revision int64) {
	t.Helper()
	done, err := s.KV.Compact(traceutil.TODO(), revision)
	if err != nil {
		t.Fatalf("compact to %d: %v", revision, err)
	}
	<-done
}

// State reads everything from a running server at a revision; 0 means the newest.
func (s *Server) State(t testing.TB, revision int64) State {
	t.Helper()
	ctx := Context(t)
	st := State{Leases: map[int64]int64{}}
	ls, err := s.Client.Leases(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range ls.Leases {
		switch r, err := s.Client.TimeToLive(ctx, l.ID); {
		case err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound):
			t.Fatalf("ask for a lease: %v", err)
		case err == nil && r.TTL >= 0: // 0: in its last second; -1: it has ended
			st.Leases[int64(l.ID)] = r.GrantedTTL
		}
	}
	r, err := s.Client.Get(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithRev(revision))
	if err != nil {
		t.Fatalf("range at %d: %v", revision, err)
	}
	st.KVs, st.Revision = r.Kvs, r.Header.Revision
	slices.SortFunc(st.KVs, func(a, b *mvccpb.KeyValue) int { return cmp.Compare(string(a.Key), string(b.Key)) })
	return st
}

// Hash returns the server's HashKV at a revision.
func (s *Server) Hash(t testing.TB, revision int64) mvcc.KeyValueHash {
	t.Helper()
	r, err := s.Client.HashKV(Context(t), s.Endpoint, revision)
	if err != nil {
		t.Fatalf("hash at %d: %v", revision, err)
	}
	return mvcc.KeyValueHash{Hash: r.Hash, CompactRevision: r.CompactRevision, Revision: revision}
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	src, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	dst, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer dst.Close()
	if _, err := io.Copy(dst, src); err != nil {
		t.Fatal(err)
	}
}

// LeaseOf returns the lease of a key; 0 means none.
func (s *Store) LeaseOf(key []byte) int64 {
	return int64(s.Lessor.GetLease(lease.LeaseItem{Key: string(key)}))
}
