package take_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cke"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// A learner refuses to say which leases there are, and what its data's hash is. Backups must not be the poorer for it.
func TestTaker_ALearnerIsAskedForSnapshotsOnly(t *testing.T) {
	for _, first := range []string{"voter", "learner"} {
		t.Run(first+" first", func(t *testing.T) {
			cluster := etcdtest.StartCluster(t, 1)
			voter := cluster[0]
			learner := etcdtest.AddLearner(t, cluster)
			b := backuptest.NewMemory()
			c := taketest.Config(voter, b)
			c.Endpoints = []string{voter.Endpoint, learner.Endpoint}
			if first == "learner" {
				c.Endpoints = []string{learner.Endpoint, voter.Endpoint}
			}
			(&taketest.Rig{T: t, Server: voter}).Put("before", "1")
			r := taketest.Start(t, voter, c)
			if h := r.Await(take.FullStored).Header; len(h.Hashes) != 1 {
				t.Errorf("the full has no hash: %+v", h)
			}
			ctx := etcdtest.Context(t)
			for i := range 5 {
				named, err := voter.Client.Grant(ctx, 7200)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := voter.Client.Grant(ctx, 3600); err != nil { // no key names it
					t.Fatal(err)
				}
				r.Put(fmt.Sprint("leased", i), "x", clientv3.WithLease(named.ID))
				r.Flush()
				if h := r.Await(take.DeltaStored).Header; len(h.Hashes) != 1 {
					t.Errorf("a delta has no hash: %+v", h)
				}
				same(t, r, b)
			}
			// A full can come from the learner; what is asked of voters fits it.
			h, err := r.Taker.Full(ctx)
			if err != nil || len(h.Hashes) != 1 {
				t.Errorf("full %+v, %v", h, err)
			}
			same(t, r, b)
			for len(r.Events) > 0 {
				if e := <-r.Events; e.Err != nil {
					t.Errorf("trouble: %s: %v", e.Type, e.Err)
				}
			}
		})
	}
}

// Which leases there are may be unknown for a while. Nothing is made up: the delta has none, and a full brings them.
func TestTaker_LeasesThatCannotBeHadAreNotMadeUp(t *testing.T) {
	s := etcdtest.Start(t, etcdtest.Options{})
	var silent atomic.Bool
	proxy := etcdtest.Proxy(t, s, func(method string) error {
		if silent.Load() && (method == "/etcdserverpb.Lease/LeaseLeases" || method == "/etcdserverpb.Maintenance/HashKV") {
			return status.Error(codes.Internal, "no answer")
		}
		return nil
	})
	b := backuptest.NewMemory()
	c := taketest.Config(s, b)
	c.Endpoints = []string{proxy}
	r := taketest.Start(t, s, c)
	r.Await(take.FullStored)
	silent.Store(true)
	ctx := etcdtest.Context(t)
	named, err := s.Client.Grant(ctx, 7200)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Client.Grant(ctx, 3600); err != nil {
		t.Fatal(err)
	}
	r.Put("leased", "x", clientv3.WithLease(named.ID))
	r.Flush() // it waits for the full
	same(t, r, b)
	if h := r.Await(take.DeltaStored).Header; len(h.Hashes) != 0 {
		t.Errorf("hashes that nobody told: %+v", h.Hashes)
	}
	if h := r.Await(take.FullStored).Header; h.Leases != 2 || len(h.Hashes) != 0 {
		t.Errorf("full %+v", h)
	}
	// The next list has it all.
	silent.Store(false)
	r.Put("after", "1")
	r.Flush()
	if h := r.Await(take.DeltaStored).Header; len(h.Hashes) != 1 {
		t.Errorf("hashes %+v", h.Hashes)
	}
	same(t, r, b)
}

// A full holds every lease there is, also one that no list of leases has told of. If such a lease ends, the next list has to tell.
func TestTaker_LeaseThatOnlyAFullKnewEnds(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{})
	b := backuptest.NewMemory()
	r := taketest.Start(t, s, taketest.Config(s, b))
	ctx := etcdtest.Context(t)
	r.Put("k", "1")
	r.Flush()
	var leases []clientv3.LeaseID
	for range 2 {
		lease, err := s.Client.Grant(ctx, 500)
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, lease.ID)
	}
	if _, err := r.Taker.Full(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Client.Revoke(ctx, leases[0]); err != nil {
		t.Fatal(err)
	}
	r.Put("k", "2")
	r.Flush()
	same(t, r, b)
}

// A member that others do not reach any more, and that the daemon does, is less than 1,000 entries behind. Users and roles that changed since are in none
// of its snapshots: each full from it would ask for the next.
func TestTaker_ASnapshotOfAStaleMemberIsNotTaken(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.StartCluster(t, 1)
	voter := cluster[0]
	learner := etcdtest.AddLearner(t, cluster)
	c := taketest.Config(voter, backuptest.NewMemory())
	c.Endpoints = []string{learner.Endpoint, voter.Endpoint}
	c.Delta = cke.BackupDelta{Period: cke.Duration(200 * time.Millisecond), Size: 1 << 20}
	r := taketest.Start(t, voter, c)
	r.Await(take.FullStored)
	voter.Etcd.Server.CutPeer(learner.Etcd.Server.MemberID())
	defer voter.Etcd.Server.MendPeer(learner.Etcd.Server.MemberID())
	if _, err := voter.Client.RoleAdd(etcdtest.Context(t), "reader"); err != nil {
		t.Fatal(err)
	}
	r.Flush()
	time.Sleep(2 * time.Second)
	fulls := 0
	for len(r.Events) > 0 {
		e := <-r.Events
		if e.Type == take.FullStored {
			fulls++
		}
		if e.Err != nil {
			t.Log(e.Type, e.Err)
		}
	}
	if fulls > 1 {
		t.Errorf("%d fulls for one change", fulls)
	}
}
