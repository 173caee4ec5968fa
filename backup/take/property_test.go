package take_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"pgregory.net/rapid"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// history drives a cluster at random and remembers what it held at every revision.
type history struct {
	*taketest.Rig
	rt        *rapid.T
	bucket    *backuptest.Memory
	config    take.Config
	states    map[int64]etcdtest.State
	compacted int64
	covered   int64 // first revision that backups cover
	leases    []clientv3.LeaseID
	roles     int
}

func (h *history) key() string {
	return fmt.Sprintf("k%02d", rapid.IntRange(0, 30).Draw(h.rt, "key"))
}

func (h *history) value() string {
	switch rapid.IntRange(0, 60).Draw(h.rt, "size") {
	case 0:
		return ""
	case 1:
		return random(1 << 20)
	default:
		return random(rapid.IntRange(1, 2000).Draw(h.rt, "bytes"))
	}
}

// random bytes do not compress.
func random(n int) string {
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "%016x", rand.Uint64())
	}
	return b.String()[:n]
}

// note remembers the present state.
func (h *history) note() {
	st := h.Server.State(h.T, 0)
	h.states[st.Revision] = st
}

func (h *history) do() {
	ctx := etcdtest.Context(h.T)
	cli := h.Server.Client
	var err error
	switch rapid.IntRange(0, 15).Draw(h.rt, "op") {
	case 0, 1, 2, 3, 4:
		_, err = cli.Put(ctx, h.key(), h.value())
	case 5, 6:
		_, err = cli.Delete(ctx, h.key())
	case 7:
		_, err = cli.Delete(ctx, h.key(), clientv3.WithRange(h.key()))
	case 8, 9:
		var ops []clientv3.Op
		used := map[string]bool{}
		for range rapid.IntRange(1, 20).Draw(h.rt, "ops") {
			k := h.key()
			if used[k] {
				continue
			}
			used[k] = true
			if rapid.Bool().Draw(h.rt, "delete") {
				ops = append(ops, clientv3.OpDelete(k))
			} else {
				ops = append(ops, clientv3.OpPut(k, h.value()))
			}
		}
		_, err = cli.Txn(ctx).Then(ops...).Commit()
	case 10:
		var l *clientv3.LeaseGrantResponse
		if l, err = cli.Grant(ctx, int64(rapid.IntRange(500, 5000).Draw(h.rt, "ttl"))); err == nil {
			h.leases = append(h.leases, l.ID)
			_, err = cli.Put(ctx, h.key(), h.value(), clientv3.WithLease(l.ID))
		}
	case 11:
		if len(h.leases) > 0 {
			i := rapid.IntRange(0, len(h.leases)-1).Draw(h.rt, "lease")
			_, err = cli.Revoke(ctx, h.leases[i])
			h.leases = append(h.leases[:i], h.leases[i+1:]...)
		}
	case 12:
		h.compact()
	case 13:
		h.Flush()
	case 14:
		if rapid.Bool().Draw(h.rt, "full") {
			_, err = h.Taker.Full(ctx)
		} else {
			h.roles++
			_, err = cli.RoleAdd(ctx, fmt.Sprint("role", h.roles))
		}
	case 15:
		if err = h.Stop(); err == nil {
			h.begin()
		}
	}
	if err != nil {
		h.T.Fatal(err)
	}
	h.note()
}

// compact compacts to what was backed up already, as a cluster does of which the backups keep up.
func (h *history) compact() {
	h.Flush()
	now := h.Server.State(h.T, 0).Revision
	if h.compacted+1 >= now {
		return
	}
	rev := rapid.Int64Range(h.compacted+1, now-1).Draw(h.rt, "compact")
	if _, err := h.Server.Client.Compact(etcdtest.Context(h.T), rev, clientv3.WithCompactPhysical()); err != nil {
		h.T.Fatal(err)
	}
	h.compacted = rev
}

func (h *history) begin() {
	h.Rig = taketest.Start(h.T, h.Server, h.config)
}

// check extracts a revision and compares it with what was remembered.
func (h *history) check(revision int64) {
	got, x := taketest.Extract(h.T, h.Store(), backup.At{Revision: revision})
	if x.Revision != revision {
		h.T.Fatalf("extracted %d instead of %d", x.Revision, revision)
	}
	if want, ok := h.states[revision]; ok {
		taketest.SameState(h.T, want, got.State(h.T, 0))
		for _, kv := range want.KVs {
			if kv.Lease != 0 && got.LeaseOf(kv.Key) != kv.Lease {
				h.T.Errorf("revision %d: key %s has lost its lease", revision, kv.Key)
			}
		}
	}
	if revision <= h.compacted {
		return
	}
	want := h.Server.Hash(h.T, revision)
	if have := got.Hash(h.T, revision); have.CompactRevision < want.CompactRevision {
		got.Compact(h.T, want.CompactRevision)
	}
	if have := got.Hash(h.T, revision); have != want {
		h.T.Errorf("revision %d: hash %+v, in the cluster %+v", revision, have, want)
	}
}

func TestProperty_AnyHistoryIsRestoredExactlyAtAnyRevision(t *testing.T) {
	checks := "25"
	if testing.Short() {
		checks = "10" // rapid divides by five
	}
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := flag.Set("rapid.checks", checks); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		t.Run("history", func(t *testing.T) {
			s := etcdtest.Start(t, etcdtest.Options{})
			h := &history{rt: rt, bucket: backuptest.NewMemory(), states: map[int64]etcdtest.State{}}
			h.config = taketest.Config(s, h.bucket)
			h.Rig = &taketest.Rig{T: t, Server: s}
			h.Put("k00", "first")
			h.note()
			h.begin()
			full := h.Await(take.FullStored).Header
			h.covered = full.Last
			for range 40 {
				h.do()
			}
			h.Flush()
			last := s.State(t, 0)
			h.check(last.Revision)
			for range 6 {
				h.check(rapid.Int64Range(h.covered, last.Revision).Draw(rt, "revision"))
			}
			got, _ := taketest.Extract(t, h.Store(), backup.At{})
			if d := cmp.Diff(last.Leases, got.State(t, 0).Leases); d != "" {
				t.Errorf("leases differ: %s", d)
			}
			if err := h.Stop(); err != nil {
				t.Fatal(err)
			}
			if t.Failed() {
				rt.Fatalf("see above")
			}
		})
	})
}
