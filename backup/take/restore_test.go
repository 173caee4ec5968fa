package take_test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// The whole way round: a cluster, its backups, etcdutl, and a cluster that serves what was restored.
func TestRestore_EtcdutlTakesItAndEtcdServesIt(t *testing.T) {
	t.Parallel()
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

// A cluster that was out of space when it was backed up takes writes again once it is restored.
func TestRestore_AlarmsStayBehind(t *testing.T) {
	b := backuptest.NewMemory()
	s := etcdtest.Start(t, etcdtest.Options{})
	before := &taketest.Rig{T: t, Server: s}
	before.Put("a", "1")
	before.Put("b", "1")
	s.Alarm(t, pb.AlarmType_NOSPACE)
	r := taketest.Start(t, s, taketest.Config(s, b))
	full := r.Await(take.FullStored).Header
	if _, err := s.Client.Delete(etcdtest.Context(t), "a"); err != nil { // that is allowed
		t.Fatal(err)
	}
	r.Flush()
	want := s.State(t, 0)
	hash := s.Hash(t, want.Revision)
	for name, at := range map[string]backup.At{"a full": {Revision: full.Last}, "a full and a delta": {}} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "snapshot.db")
			x, err := r.Store().Extract(etcdtest.Context(t), at, out, backup.ExtractOptions{CheckHash: true})
			if err != nil || !x.HashChecked {
				t.Fatalf("%+v, %v", x, err)
			}
			if list := etcdtest.Open(t, out).Alarms(t); len(list) > 0 {
				t.Errorf("alarms %v", list)
			}
			restored := etcdtest.Start(t, etcdtest.Options{Dir: etcdtest.Restore(t, out)})
			if x.Revision == want.Revision {
				taketest.SameState(t, want, restored.State(t, 0))
				if h := restored.Hash(t, want.Revision); h != hash {
					t.Errorf("hash %+v, want %+v", h, hash)
				}
			}
			if _, err := restored.Client.Put(etcdtest.Context(t), "afterwards", "1"); err != nil {
				t.Errorf("put after the restore: %v", err)
			}
		})
	}
}

// With writes stopped for a restore, which etcd calls corrupt, all that was acknowledged is still stored, leases and a full included.
func TestFlush_StoresAllWhileWritesAreStopped(t *testing.T) {
	t.Parallel()
	ctx := etcdtest.Context(t)
	b := backuptest.NewMemory()
	s := etcdtest.Start(t, etcdtest.Options{})
	r := taketest.Start(t, s, taketest.Config(s, b))
	r.Await(take.FullStored)
	lease, err := s.Client.Grant(ctx, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Client.Put(ctx, "leased", "1", clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	stop := cke.WriteStop("restored", 1)
	id, err := strconv.ParseUint(stop.MemberID, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pb.NewMaintenanceClient(s.Client.ActiveConnection()).Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_CORRUPT, MemberID: id}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Client.Delete(ctx, "leased"); err == nil {
		t.Fatal("a deletion is acknowledged")
	}
	want := s.State(t, 0)
	r.Flush()
	if _, err := r.Taker.Full(ctx); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "snapshot.db")
	x, err := r.Store().Extract(ctx, backup.At{}, out, backup.ExtractOptions{CheckHash: true})
	if err != nil || x.Revision != want.Revision {
		t.Fatalf("%+v instead of revision %d, %v", x, want.Revision, err)
	}
	restored := etcdtest.Start(t, etcdtest.Options{Dir: etcdtest.Restore(t, out)})
	taketest.SameState(t, want, restored.State(t, 0))
	if _, err := restored.Client.Put(ctx, "afterwards", "1"); err != nil {
		t.Errorf("put after the restore: %v", err)
	}
}
