package take_test

import (
	"sync"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// A member makes its list of leases, and says of which revision it is after that. In between a lease is granted, a key put with it, and a full taken.
// Until the next list counts, a restore from that full has to have the lease: without it the key would never expire.
func TestLeases_GrantedBetweenAListAndItsRevision(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{})
	ctx := etcdtest.Context(t)
	rig := &taketest.Rig{T: t, Server: s}
	c := taketest.Config(s, backuptest.NewMemory())
	other := c
	other.Scratch = t.TempDir()
	var mu sync.Mutex
	var meanwhile []func()
	c.Endpoints = []string{etcdtest.AlteringProxy(t, s, func(method string, answer []byte) []byte {
		mu.Lock()
		defer mu.Unlock()
		var list pb.LeaseLeasesResponse
		if method != "/etcdserverpb.Lease/LeaseLeases" || len(meanwhile) == 0 || proto.Unmarshal(answer, &list) != nil {
			return nil
		}
		meanwhile[0]()
		meanwhile = meanwhile[1:]
		list.Header.Revision = s.State(t, 0).Revision
		altered, err := proto.Marshal(&list)
		if err != nil {
			t.Error(err)
		}
		return altered
	})}
	rig.Put("a", "1")
	r := taketest.Start(t, s, c)
	r.Await(take.FullStored)
	lease := &clientv3.LeaseGrantResponse{}
	mu.Lock()
	meanwhile = []func(){
		func() {
			var err error
			if lease, err = s.Client.Grant(ctx, 3600); err != nil {
				t.Error(err)
			}
			r.Put("leased", "1", clientv3.WithLease(lease.ID))
			if _, err := take.Full(ctx, other); err != nil {
				t.Error(err)
			}
			r.Put("b", "1")
		},
		func() { r.Put("c", "1") },
	}
	mu.Unlock()
	r.Put("d", "1")
	r.Flush()
	r.Put("e", "1")
	r.Flush()
	got, x := taketest.Extract(t, r.Store(), backup.At{})
	if ttl := got.State(t, 0).Leases[int64(lease.ID)]; ttl != 3600 || x.Deltas != 1 {
		t.Errorf("a lease of 3600 s came back with %d s at revision %d, from %s and %d deltas", ttl, x.Revision, x.Full, x.Deltas)
	}
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
}
