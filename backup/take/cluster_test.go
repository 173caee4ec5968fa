package take_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// Members come and go, the deltas go on.
func TestTaker_MembersThatFailAreDoneWithout(t *testing.T) {
	t.Parallel()
	members := etcdtest.StartCluster(t, 3)
	b := backuptest.NewMemory()
	c := taketest.Config(members[0], b)
	for _, m := range members[1:] {
		c.Endpoints = append(c.Endpoints, m.Endpoint)
	}
	leader, follower := 0, 1
	for i, m := range members {
		if m.Etcd.Server.Leader() == m.Etcd.Server.MemberID() {
			leader, follower = i, (i+1)%3
		}
	}
	survivor := members[3-leader-follower]
	r := taketest.Start(t, survivor, c)
	r.Await(take.FullStored)
	for i, victim := range []int{-1, leader} {
		if victim >= 0 {
			members[victim].Stop()
		}
		for j := range 20 {
			for {
				_, err := survivor.Client.Put(etcdtest.Context(t), fmt.Sprint("k", j), fmt.Sprint(i))
				if err == nil {
					break
				}
				t.Logf("put: %v", err) // an election is under way
			}
		}
		for r.Taker.Flush(etcdtest.Context(t)) != nil {
		}
		same(t, r, b)
	}
	if _, err := r.Taker.Full(etcdtest.Context(t)); err != nil {
		t.Errorf("full without one member: %v", err)
	}
}

// addRoot adds the user root, which has every right once authentication is on.
func addRoot(t *testing.T, s *etcdtest.Server) {
	t.Helper()
	ctx := etcdtest.Context(t)
	if _, err := s.Client.UserAdd(ctx, "root", "secret"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Client.UserGrantRole(ctx, "root", "root"); err != nil {
		t.Fatal(err)
	}
}

// authenticate turns authentication on, and returns the server's client from then on, which is root.
func authenticate(t *testing.T, s *etcdtest.Server) *clientv3.Client {
	t.Helper()
	if _, err := s.Client.AuthEnable(etcdtest.Context(t)); err != nil {
		t.Fatal(err)
	}
	root, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint}, Username: "root", Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	s.Client.Close()
	s.Client = root
	return root
}

// With authentication on, the user root sees everything; and users come back with the full.
func TestTaker_WithAuthentication(t *testing.T) {
	s := etcdtest.Start(t, etcdtest.Options{})
	ctx := etcdtest.Context(t)
	addRoot(t, s)
	root := authenticate(t, s)
	b := backuptest.NewMemory()
	c := taketest.Config(s, b)
	c.Username, c.Password = "root", "secret"
	r := taketest.Start(t, s, c)
	full := r.Await(take.FullStored).Header
	if full.AuthRevision == 0 || len(full.Hashes) != 1 {
		t.Errorf("header %+v", full)
	}
	lease, err := root.Grant(ctx, 500)
	if err != nil {
		t.Fatal(err)
	}
	r.Put("k", "v", clientv3.WithLease(lease.ID))
	r.Flush()
	same(t, r, b)
	if _, err := root.UserAdd(ctx, "reader", "x"); err != nil {
		t.Fatal(err)
	}
	r.Put("k", "w")
	r.Flush()
	if again := r.Await(take.FullStored).Header; again.AuthRevision != full.AuthRevision+1 {
		t.Errorf("auth revision %d after %d", again.AuthRevision, full.AuthRevision)
	}
}

// etcd does not count turning authentication on as a change of users and roles.
func TestTaker_AuthenticationThatIsTurnedOnLeadsToAFull(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{})
	ctx := etcdtest.Context(t)
	if _, err := s.Client.UserAdd(ctx, "root", "secret"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Client.UserGrantRole(ctx, "root", "root"); err != nil {
		t.Fatal(err)
	}
	b := backuptest.NewMemory()
	c := taketest.Config(s, b)
	c.Username, c.Password, c.Delta.Period = "root", "secret", cke.Duration(20*time.Millisecond)
	r := taketest.Start(t, s, c)
	if h := r.Await(take.FullStored).Header; h.AuthEnabled {
		t.Fatal("authentication is off")
	}
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Client.AuthEnable(ctx); err != nil {
		t.Fatal(err)
	}
	r = taketest.Start(t, s, c)
	r.Await(take.AuthChanged)
	if h := r.Await(take.FullStored).Header; !h.AuthEnabled {
		t.Fatal("the new full has authentication off")
	}
	out := filepath.Join(t.TempDir(), "snapshot.db")
	if _, err := r.Store().Extract(ctx, backup.At{}, out, backup.ExtractOptions{CheckHash: true}); err != nil {
		t.Fatal(err)
	}
	again := etcdtest.Start(t, etcdtest.Options{Dir: etcdtest.Restore(t, out)})
	if _, err := again.Client.Get(ctx, "k"); err == nil {
		t.Error("the restored cluster answers clients that show no user")
	}
}
