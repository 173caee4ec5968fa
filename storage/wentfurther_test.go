package storage

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// An external etcd that serves others as well is brought back from a copy under a connected daemon, and is further than before when the
// daemon reaches it: by --bump-revision, or since others have written meanwhile.
func TestStore_ThatGoesBackToAHigherRevisionIsReadAnew(t *testing.T) {
	t.Parallel()
	addr := freeAddr(t)
	root := t.TempDir()
	live, copied := filepath.Join(root, "etcd"), filepath.Join(root, "copy")
	e := plainEtcd(t, live, addr)
	t.Cleanup(func() { e.Close() }) // after the store, whose farewell it answers
	s := openStore(t, Config{Endpoints: []string{"http://" + addr}, Prefix: "/cke/", SecretKeyFile: filepath.Join(root, "secret.key"), SessionTTL: 20 * time.Second, Patience: 2 * time.Second})
	s.period = 500 * time.Millisecond
	setCluster(t, s, "prod")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	first, err := s.Campaign(ctx, "prod", "h1")
	if err != nil {
		t.Fatal(err)
	}
	e = copyEtcd(t, e, copied, addr)
	states := s.WatchCluster(ctx, "prod")
	task := cke.NewTask(cke.TaskCompare, "", "", "eve@here", time.Now()) // asked for after the copy
	if err := s.AddTask(ctx, "prod", task); err != nil {
		t.Fatal(err)
	}
	for there := false; !there; {
		state, open := <-states
		if !open {
			t.Fatal("the watch ended")
		}
		there = len(state.Asked().Tasks) > 0
	}
	further(t, copied)
	e.Close()
	e = plainEtcd(t, copied, addr)

	if tasks, err := s.RequestsOf(ctx, "prod"); err != nil || len(tasks.Tasks) != 0 {
		t.Fatalf("the copy has the task: %v %v", tasks.Tasks, err)
	}
	late := time.After(18 * time.Second) // the store is asked every half second
	for gone := false; !gone; {
		select {
		case state := <-states:
			gone = len(state.Asked().Tasks) == 0
		case <-late:
			t.Error("the watch still has a task that the store does not have")
			gone = true
		}
	}
	if first.Check() == nil {
		t.Error("the term of before continues")
	}
}

// The same with two management hosts: A led when the copy was made, B leads since A gave its term up. The copy has A's key of that time,
// which A's session keeps alive and A does not know of; B's key is gone. Nobody leads any more.
func TestStore_ThatGoesBackToAHigherRevisionHasALeader(t *testing.T) {
	t.Parallel()
	addr := freeAddr(t)
	root := t.TempDir()
	live, copied := filepath.Join(root, "etcd"), filepath.Join(root, "copy")
	e := plainEtcd(t, live, addr)
	t.Cleanup(func() { e.Close() }) // after the stores, whose farewells it answers
	c := Config{Endpoints: []string{"http://" + addr}, Prefix: "/cke/", SecretKeyFile: filepath.Join(root, "secret.key"), SessionTTL: 5 * time.Second, Patience: 2 * time.Second}
	a, b := openStore(t, c), openStore(t, c)
	a.period, b.period = 500*time.Millisecond, 500*time.Millisecond
	setCluster(t, a, "prod")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	ofA, err := a.Campaign(ctx, "prod", "A")
	if err != nil {
		t.Fatal(err)
	}
	e = copyEtcd(t, e, copied, addr)
	elected := make(chan *Term, 10)
	var campaigns sync.WaitGroup
	defer campaigns.Wait()
	defer cancel()
	campaign := func(s *Store, host string) {
		campaigns.Go(func() {
			if t, err := s.Campaign(ctx, "prod", host); err == nil {
				elected <- t
			}
		})
	}
	campaign(b, "B")
	queued(t, a, 2)
	if err := ofA.Resign(ctx); err != nil {
		t.Fatal(err)
	}
	ofB := <-elected
	campaign(a, "A") // as the daemon does
	queued(t, a, 2)
	further(t, copied)
	e.Close()
	e = plainEtcd(t, copied, addr)
	back := time.Now()
	for ofB.Check() == nil && time.Since(back) < 20*time.Second { // its writes find out that its key is gone
		_ = ofB.PutStatus(ctx, cke.Status{Cluster: "prod"})
		time.Sleep(50 * time.Millisecond)
	}
	campaign(b, "B")
	select {
	case <-elected:
	case <-time.After(45 * time.Second):
		all, err := b.Candidates(ctx)
		t.Errorf("nobody leads %s after the store is back; the queue: %+v %v", time.Since(back).Round(time.Second), all, err)
	}
}

// queued waits for so many candidates.
func queued(t *testing.T, s *Store, want int) {
	t.Helper()
	for late := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		all, err := s.Candidates(t.Context())
		if err == nil && len(all) == want {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("%+v %v, want %d candidates", all, err, want)
		}
	}
}

// further writes keys of somebody else into the data of an etcd.
func further(t *testing.T, dir string) {
	t.Helper()
	addr := freeAddr(t)
	e := plainEtcd(t, dir, addr)
	defer e.Close()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + addr}, DialTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range 50 {
		if _, err := c.Put(t.Context(), fmt.Sprint("/other/", i), "x"); err != nil {
			t.Fatal(err)
		}
	}
}
