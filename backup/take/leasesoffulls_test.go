package take_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// leaseRig is a cluster whose backups have a full and a delta, and a bucket that can hold a full and refuse deltas.
type leaseRig struct {
	*taketest.Rig
	config   take.Config
	hold     atomic.Bool   // hold the next full
	held     chan struct{} // it is held
	release  chan struct{}
	noDeltas atomic.Bool
}

func startLeases(t *testing.T) *leaseRig {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{})
	l := &leaseRig{Rig: &taketest.Rig{T: t, Server: s}, held: make(chan struct{}), release: make(chan struct{})}
	l.Put("a", "1")
	l.config = taketest.Config(s, &backuptest.Faulty{Bucket: backuptest.NewMemory(), Before: func(_ context.Context, op, name string) error {
		switch {
		case op != "create":
		case strings.Contains(name, "/full/") && l.hold.CompareAndSwap(true, false):
			close(l.held)
			<-l.release
		case strings.Contains(name, "/delta/") && l.noDeltas.Load():
			return errors.New("the target takes no deltas")
		}
		return nil
	}})
	l.config.Shutdown = 200 * time.Millisecond
	l.begin()
	l.Await(take.FullStored)
	l.store("b")
	return l
}

func (l *leaseRig) begin() { l.Rig = taketest.Start(l.T, l.Server, l.config) }

func (l *leaseRig) grant(ttl int64) clientv3.LeaseID {
	l.T.Helper()
	g, err := l.Server.Client.Grant(etcdtest.Context(l.T), ttl)
	if err != nil {
		l.T.Fatal(err)
	}
	return g.ID
}

func (l *leaseRig) revoke(id clientv3.LeaseID) {
	l.T.Helper()
	if _, err := l.Server.Client.Revoke(etcdtest.Context(l.T), id); err != nil {
		l.T.Fatal(err)
	}
}

func (l *leaseRig) full() {
	l.T.Helper()
	if _, err := l.Taker.Full(etcdtest.Context(l.T)); err != nil {
		l.T.Fatal(err)
	}
}

// store puts a key and stores all.
func (l *leaseRig) store(key string, opts ...clientv3.OpOption) {
	l.T.Helper()
	l.Put(key, "1", opts...)
	l.Flush()
}

// same compares what the newest backup restores with the cluster.
func (l *leaseRig) same() {
	l.T.Helper()
	got, x := taketest.Extract(l.T, l.Store(), backup.At{})
	l.T.Logf("from full %s and %d deltas", x.Full, x.Deltas)
	want, have := l.Server.State(l.T, 0), got.State(l.T, 0)
	taketest.SameState(l.T, want, have)
	for id, ttl := range want.Leases {
		if have.Leases[id] != ttl {
			l.T.Errorf("lease %x of %d s came back with %d s", id, ttl, have.Leases[id])
		}
	}
	for id, ttl := range have.Leases {
		if want.Leases[id] == 0 {
			l.T.Errorf("lease %x of %d s had ended", id, ttl)
		}
	}
}

// Leases without keys come and go without a revision. The delta that ends where a full does is not read with that full: its list of leases does not
// count, and the next has to be whole again.
func TestLeases_ChangeAfterAFullThatEndsWhereADeltaDoes(t *testing.T) {
	l := startLeases(t)
	l.Put("c", "1")
	ends := l.grant(551)
	l.full()
	l.revoke(ends)
	later := l.grant(3600)
	l.Flush() // a delta that ends where the full does
	l.store("leased", clientv3.WithLease(later))
	l.same()
}

// While a full is on its way, nobody knows which leases it has.
func TestLeases_ChangeWhileAFullIsTaken(t *testing.T) {
	l := startLeases(t)
	ends := l.grant(551)
	l.hold.Store(true)
	full := make(chan error, 1)
	go func() { _, err := l.Taker.Full(etcdtest.Context(t)); full <- err }()
	<-l.held
	l.revoke(ends)
	l.store("end")
	close(l.release)
	if err := <-full; err != nil {
		t.Fatal(err)
	}
	l.same()
	l.store("more")
	l.same()
}

// A daemon that was killed between a full and the delta up to it is followed by one that stores this delta.
func TestLeases_ChangeAfterAFullWhoseDeltaIsStoredByTheNextDaemon(t *testing.T) {
	l := startLeases(t)
	ends := l.grant(551)
	l.Put("c", "1")
	l.noDeltas.Store(true)
	l.full()
	l.Abandon()
	l.noDeltas.Store(false)
	l.begin()
	l.revoke(ends)
	l.Flush()
	l.store("end")
	l.same()
}

// A client may choose the id of its lease, and grant it again with another time.
func TestLeases_GrantedAgainWithAnotherTime(t *testing.T) {
	l := startLeases(t)
	again := l.grant(600)
	l.store("c", clientv3.WithLease(again))
	l.revoke(again)
	g, err := clientv3.RetryLeaseClient(l.Server.Client).LeaseGrant(etcdtest.Context(t), &pb.LeaseGrantRequest{ID: int64(again), TTL: 86400})
	if err != nil || g.ID != int64(again) {
		t.Fatalf("lease %x: %v", g.GetID(), err)
	}
	l.store("d", clientv3.WithLease(again))
	l.same()
}

// A member whose disk was set back has another history: what is acknowledged there has the number of a revision that was stored, and is not stored.
func TestFlush_OfAnotherHistoryIsRefused(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{})
	r := &taketest.Rig{T: t, Server: s}
	r.Put("a", "1")
	s.Stop()
	old := t.TempDir()
	if err := os.CopyFS(old, os.DirFS(s.Dir)); err != nil {
		t.Fatal(err)
	}
	s = etcdtest.Start(t, etcdtest.Options{Dir: s.Dir, Address: s.Address})
	c := taketest.Config(s, backuptest.NewMemory())
	var cut atomic.Bool
	asked := make(chan struct{})
	c.Endpoints = []string{etcdtest.SlowProxy(t, s, func(ctx context.Context, method string, _ int) {
		if cut.Load() && method == watching { // the watch is taken up again after the flush was answered
			select {
			case <-asked:
			case <-ctx.Done():
			}
		}
	})}
	r = taketest.Start(t, s, c)
	r.Await(take.FullStored)
	for range 20 {
		r.Put("b", "1")
	}
	r.Flush()
	cut.Store(true)
	s.Stop()
	r.Server = etcdtest.Start(t, etcdtest.Options{Dir: old, Address: s.Address})
	late := r.Put("late", "acknowledged")
	err := r.Taker.Flush(etcdtest.Context(t))
	close(asked)
	if err == nil {
		t.Errorf("revision %d of another history counts as stored", late)
	}
	r.Abandon()
}

// A daemon that led before may store a full late. The one that leads now does not know of it, and its lists of leases lead on from there all the same.
func TestLeases_ChangeAfterAFullOfAnotherDaemon(t *testing.T) {
	l := startLeases(t)
	l.Put("c", "1")
	other := l.config
	other.Scratch = t.TempDir()
	if _, err := take.Full(etcdtest.Context(t), other); err != nil {
		t.Fatal(err)
	}
	later := l.grant(3600)
	l.Flush() // a delta that ends where that full does
	l.store("leased", clientv3.WithLease(later))
	l.same()
}
