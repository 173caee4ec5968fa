package take_test

import (
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// A merge ends where a delta does. What the list of leases in that delta says of a busy cluster is of a later revision, so the merged full leaves
// it out, and the next delta repeats it.
func TestMerged_KeepsWhatListsOfLeasesSay(t *testing.T) {
	t.Parallel()
	for name, merged := range map[string]bool{"from the full of etcd": false, "from a merged full": true} {
		t.Run(name, func(t *testing.T) {
			s := etcdtest.Start(t, etcdtest.Options{})
			ctx := etcdtest.Context(t)
			var mu sync.Mutex
			var meanwhile func()
			proxy := etcdtest.Proxy(t, s, func(method string) error {
				mu.Lock()
				defer mu.Unlock()
				if method == "/etcdserverpb.Lease/LeaseLeases" && meanwhile != nil {
					meanwhile()
					meanwhile = nil
				}
				return nil
			})
			c := taketest.Config(s, backuptest.NewMemory())
			c.Endpoints = []string{proxy}
			first := &taketest.Rig{T: t, Server: s}
			first.Put("a", "1")
			grant := func(ttl int64) clientv3.LeaseID {
				l, err := s.Client.Grant(ctx, ttl)
				if err != nil {
					t.Error(err)
					return 0
				}
				return l.ID
			}
			revoked := grant(7200)
			first.Put("revoked", "x", clientv3.WithLease(revoked))
			r := taketest.Start(t, s, c)
			r.Await(take.FullStored)
			r.Put("b", "1")
			r.Flush() // the first list after a full tells all leases

			var early, idle clientv3.LeaseID
			mu.Lock()
			meanwhile = func() { // another client, between the delta's last change and the list of leases
				early, idle = grant(3600), grant(5000)
				if _, err := s.Client.Revoke(ctx, revoked); err != nil { // its key goes: a new revision
					t.Error(err)
				}
			}
			mu.Unlock()
			r.Put("c", "1")
			r.Flush()
			if merged {
				p, err := r.Store().Compact(ctx, backup.At{}, backup.CompactOptions{})
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("merged up to revision %d", p.Revision)
			}
			r.Put("leased", "x", clientv3.WithLease(early))
			r.Flush()
			r.Put("d", "1")
			r.Flush()

			want := s.State(t, 0)
			got, x := taketest.Extract(t, r.Store(), backup.At{})
			taketest.SameState(t, want, got.State(t, 0))
			t.Logf("from full %s, notes %q, hash compared %v", x.Full, x.Notes, x.Compared != nil)
			leases := got.State(t, 0).Leases
			if ttl := leases[int64(early)]; ttl != 3600 {
				t.Errorf("the lease of 3600 s of key \"leased\" came back with %d s", ttl)
			}
			if ttl := leases[int64(idle)]; ttl != 5000 {
				t.Errorf("a lease of 5000 s came back with %d s", ttl)
			}
			if _, there := leases[int64(revoked)]; there {
				t.Errorf("a lease that was revoked is there again")
			}
			if err := r.Stop(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A list of leases of a revision after the one that is restored gives the times of leases that changes name, also of changes in the next delta.
func TestExtract_LeasesHaveTheirTimesBeforeTheList(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{})
	ctx := etcdtest.Context(t)
	var mu sync.Mutex
	var meanwhile func()
	c := taketest.Config(s, backuptest.NewMemory())
	c.Endpoints = []string{etcdtest.Proxy(t, s, func(method string) error {
		mu.Lock()
		defer mu.Unlock()
		if method == "/etcdserverpb.Lease/LeaseLeases" && meanwhile != nil {
			meanwhile()
			meanwhile = nil
		}
		return nil
	})}
	first := &taketest.Rig{T: t, Server: s}
	first.Put("a", "1")
	r := taketest.Start(t, s, c)
	r.Await(take.FullStored)
	r.Put("b", "1")
	r.Flush()
	var id clientv3.LeaseID
	var leased int64
	mu.Lock()
	meanwhile = func() { // other clients, between the delta's last change and the list of leases
		l, err := s.Client.Grant(ctx, 3600)
		if err != nil {
			t.Error(err)
			return
		}
		id = l.ID
		leased = first.Put("leased", "x", clientv3.WithLease(id))
		first.Put("other", "x")
	}
	mu.Unlock()
	r.Put("c", "1")
	r.Flush()
	r.Put("d", "1")
	r.Flush()
	got, x := taketest.Extract(t, r.Store(), backup.At{Revision: leased})
	if ttl := got.State(t, 0).Leases[int64(id)]; ttl != 3600 {
		t.Errorf("revision %d, notes %q: the lease of 3600 s came back with %d s", x.Revision, x.Notes, ttl)
	}
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
}
