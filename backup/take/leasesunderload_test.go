package take_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
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

// useLeases grants, uses and revokes leases until ctx ends.
func useLeases(ctx context.Context, cli *clientv3.Client, name string) {
	var ids []clientv3.LeaseID
	put := func(opts ...clientv3.OpOption) {
		cli.Put(ctx, fmt.Sprint(name, rand.IntN(10)), "v", opts...)
	}
	for ctx.Err() == nil {
		i := rand.IntN(len(ids) + 1)
		switch what := rand.IntN(6); {
		case what < 2 || i == len(ids):
			if g, err := cli.Grant(ctx, 3600); err == nil {
				ids = append(ids, g.ID)
				put(clientv3.WithLease(g.ID))
			}
		case what < 4:
			put(clientv3.WithLease(ids[i]))
		case what == 4:
			put()
		default:
			cli.Revoke(ctx, ids[i])
			ids = slices.Delete(ids, i, i+1)
		}
		time.Sleep(rand.N(20 * time.Millisecond))
	}
}

// Clients use leases through members that answer late, daemons take turns, and each full is of another time than the lists of leases: whatever revision is
// restored from whichever full, each key has its lease, or it would never expire.
func TestLeases_EachKeyHasItsLease(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	members := etcdtest.StartCluster(t, 3)
	b := backuptest.NewMemory()
	c := taketest.Config(members[0], b)
	c.Endpoints = nil
	for _, m := range members {
		c.Endpoints = append(c.Endpoints, etcdtest.SlowProxy(t, m, func(context.Context, string, int) {
			if rand.IntN(3) == 0 {
				time.Sleep(rand.N(15 * time.Millisecond))
			}
		}))
	}
	c.Delta = cke.BackupDelta{Period: cke.Duration(60 * time.Millisecond), Size: 400}
	(&taketest.Rig{T: t, Server: members[0]}).Put("a", "1")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var clients sync.WaitGroup
	for n := range 4 {
		clients.Go(func() { useLeases(ctx, members[n%3].Client, fmt.Sprint("k", n, "-")) })
	}
	for ctx.Err() == nil {
		r := taketest.Start(t, members[0], c)
		_ = backup.Pause(ctx, 500*time.Millisecond+rand.N(1500*time.Millisecond))
		if rand.IntN(2) == 0 {
			other := c
			other.Scratch = t.TempDir()
			if _, err := take.Full(t.Context(), other); err != nil {
				t.Log(err)
			}
		}
		r.Abandon()
	}
	clients.Wait()
	l, err := (&backup.Store{Bucket: b, Cluster: "prod"}).Lineage(t.Context(), "a1b2")
	if err != nil || len(l.Fulls) == 0 {
		t.Fatalf("%d fulls, %v", len(l.Fulls), err)
	}
	restored := 0
	for _, full := range l.Fulls {
		alone := b.Clone()
		for _, f := range l.Fulls {
			if f.Name() != full.Name() {
				if err := alone.Delete(t.Context(), f.Name()); err != nil {
					t.Fatal(err)
				}
			}
		}
		store := &backup.Store{Bucket: alone, Cluster: "prod", Scratch: t.TempDir()}
		for range 20 {
			at, out := full.Revision+rand.Int64N(60), filepath.Join(t.TempDir(), "db")
			_, err := store.Extract(t.Context(), backup.At{Revision: at}, out, backup.ExtractOptions{CheckHash: true})
			if backup.IsDamage(err) || errors.Is(err, backup.ErrNotCovered) { // it is beyond the last delta
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			restored++
			got := etcdtest.Open(t, out).State(t, 0)
			for _, kv := range got.KVs {
				if kv.Lease != 0 && got.Leases[kv.Lease] == 0 {
					t.Errorf("from %s, at revision %d: key %s of revision %d has lost lease %x", full.ID(), at, kv.Key, kv.ModRevision, kv.Lease)
				}
			}
		}
	}
	t.Logf("%d states of %d fulls", restored, len(l.Fulls))
	if restored == 0 {
		t.Error("nothing was restored")
	}
}
