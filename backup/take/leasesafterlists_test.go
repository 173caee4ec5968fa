package take_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// A member has listed its leases. Then a lease is granted and a key put with it, and the watch brings that before the delta with the list is complete. The
// next delta, which has the change, repeats the list: a restore of the change has to have the lease, or its key would never expire.
func TestLeases_GrantedAfterAListThatIsRepeated(t *testing.T) {
	t.Parallel()
	for name, all := range map[string]bool{"changes": false, "all leases": true} {
		t.Run(name, func(t *testing.T) {
			s := etcdtest.Start(t, etcdtest.Options{})
			ctx := etcdtest.Context(t)
			first := &taketest.Rig{T: t, Server: s}
			var armed, listed atomic.Bool
			asked := make(chan struct{}, 100)
			var lease, leased atomic.Int64
			c := taketest.Config(s, backuptest.NewMemory())
			c.Endpoints = []string{etcdtest.SlowProxy(t, s, func(_ context.Context, method string, _ int) {
				switch {
				case method == "/etcdserverpb.Lease/LeaseLeases":
					listed.Store(armed.Swap(false))
				case method == "/etcdserverpb.Lease/LeaseTimeToLive":
					asked <- struct{}{}
				case method == "/etcdserverpb.Maintenance/Status" && listed.Swap(false):
					l, err := s.Client.Grant(ctx, 3600)
					if err != nil {
						t.Error(err)
						return
					}
					lease.Store(int64(l.ID))
					leased.Store(first.Put("leased", "1", clientv3.WithLease(l.ID)))
					<-asked
					time.Sleep(200 * time.Millisecond) // until the answer has arrived
				}
			})}
			first.Put("a", "1")
			r := taketest.Start(t, s, c)
			r.Await(take.FullStored)
			if !all {
				r.Put("b", "1")
				r.Flush() // the first list after a full tells all leases
			}
			armed.Store(true)
			r.Put("c", "1")
			r.Flush()
			r.Put("d", "1")
			r.Flush()
			if leased.Load() == 0 {
				t.Fatal("nothing was put after a list")
			}
			got, x := taketest.Extract(t, r.Store(), backup.At{Revision: leased.Load()})
			if ttl := got.State(t, 0).Leases[lease.Load()]; ttl != 3600 {
				t.Errorf("revision %d, from %s and %d deltas: a lease of 3600 s came back with %d s", x.Revision, x.Full, x.Deltas, ttl)
			}
			if err := r.Stop(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A daemon that led before has stored a full late, at the revision of a list of leases, with a lease that was granted after the list. The delta after that
// full names the lease and repeats the list.
func TestLeases_OfAFullOfAnotherDaemonAfterAListThatIsRepeated(t *testing.T) {
	l := startLeases(t)
	other := l.config
	other.Scratch = t.TempDir()
	id := l.grant(3600)
	if _, err := take.Full(etcdtest.Context(t), other); err != nil {
		t.Fatal(err)
	}
	leased := l.Put("leased", "1", clientv3.WithLease(id))
	l.store("end")
	got, x := taketest.Extract(t, l.Store(), backup.At{Revision: leased})
	if ttl := got.State(t, 0).Leases[int64(id)]; ttl != 3600 {
		t.Errorf("revision %d, from %s and %d deltas: a lease of 3600 s came back with %d s", x.Revision, x.Full, x.Deltas, ttl)
	}
}
