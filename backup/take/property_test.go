package take_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
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
	other     *backup.Signer // of somebody who can write to the target
	states    map[int64]etcdtest.State
	compacted int64
	covered   int64 // first revision that backups cover
	leases    []clientv3.LeaseID
	granted   map[int64]int64 // every lease there was
	ended     map[int64]bool  // those that may have ended: revoked or short ones
	auths     int
}

// shortLease ends while a history goes on, or soon after it; all others outlast it.
const shortLease = 1

func (h *history) key() string {
	return fmt.Sprintf("k%02d", rapid.IntRange(0, 30).Draw(h.rt, "key"))
}

func (h *history) value() string {
	switch rapid.IntRange(0, 60).Draw(h.rt, "size") {
	case 0:
		return ""
	case 1:
		return random(rapid.IntRange(1<<19, 3<<19).Draw(h.rt, "large"))
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
	switch rapid.IntRange(0, 20).Draw(h.rt, "op") {
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
	case 10, 17:
		ttl := int64(shortLease)
		if rapid.Bool().Draw(h.rt, "long") {
			ttl = int64(rapid.IntRange(500, 5000).Draw(h.rt, "ttl"))
		}
		var l *clientv3.LeaseGrantResponse
		if l, err = cli.Grant(ctx, ttl); err == nil {
			h.granted[int64(l.ID)], h.ended[int64(l.ID)] = ttl, ttl == shortLease
			for range rapid.IntRange(0, 3).Draw(h.rt, "leased keys") {
				_, err = cli.Put(ctx, h.key(), h.value(), clientv3.WithLease(l.ID))
				if errors.Is(err, rpctypes.ErrLeaseNotFound) { // it has ended meanwhile
					err = nil
				}
			}
			if ttl != shortLease {
				h.leases = append(h.leases, l.ID)
			}
		}
	case 11:
		if len(h.leases) > 0 {
			i := rapid.IntRange(0, len(h.leases)-1).Draw(h.rt, "lease")
			h.ended[int64(h.leases[i])] = true
			_, err = cli.Revoke(ctx, h.leases[i])
			h.leases = append(h.leases[:i], h.leases[i+1:]...)
		}
	case 12:
		h.compact()
	case 13:
		h.Flush()
	case 14:
		_, err = h.Taker.Full(ctx)
	case 15:
		if err = h.Stop(); err == nil {
			h.begin()
		}
	case 16:
		err = h.auth(ctx)
	case 18:
		h.expire()
	case 19, 20:
		h.forge()
	}
	if err != nil {
		h.T.Fatal(err)
	}
	h.note()
}

// forge puts something into the target as somebody does who has no key.
func (h *history) forge() {
	l, err := h.Store().Lineage(etcdtest.Context(h.T), "a1b2")
	if err != nil {
		h.T.Fatal(err)
	}
	var by *backup.Signer
	if rapid.Bool().Draw(h.rt, "another key") {
		by = h.other
	}
	first := l.Fulls[0].Revision + 1 + rapid.Int64Range(0, 5).Draw(h.rt, "after the first full")
	stream, sequence := first, int64(0)
	if n := len(l.Streams); n > 0 && rapid.IntRange(0, 3).Draw(h.rt, "beside a stream") > 0 {
		st := l.Streams[rapid.IntRange(0, n-1).Draw(h.rt, "stream")]
		tail := st.Deltas[len(st.Deltas)-1]
		stream, sequence, first = tail.Stream, tail.Sequence+1, st.Last+1 // the name of the next delta
	}
	var changes []backup.Change
	for rev := range rapid.Int64Range(1, 30).Draw(h.rt, "forged changes") {
		changes = append(changes, backup.Change{Key: []byte("k00"), Value: []byte("forged"), CreateRevision: first + rev, ModRevision: first + rev, Version: 1})
	}
	c, d := sealed(h.T, backup.Header{Place: backup.DeltaPlace("prod", "a1b2", stream, sequence, first), Signer: by}, changes...)
	name := d.Place.Name()
	if rapid.IntRange(0, 2).Draw(h.rt, "a full") == 0 {
		d.Place = backup.FullPlace("prod", "a1b2", d.Last, time.Now())
		if c, err = backup.BodyContent(nil, []byte("forged")).WithHeader(d); err != nil {
			h.T.Fatal(err)
		}
		name = d.Place.Name()
	}
	if err := h.bucket.Create(etcdtest.Context(h.T), name, c); err != nil && !errors.Is(err, backup.ErrExists) {
		h.T.Fatal(err)
	}
}

// Store trusts what the daemon signs.
func (h *history) Store() *backup.Store {
	s := h.Rig.Store()
	s.Trusted = []backup.PublicKey{h.config.Signer.Public()}
	return s
}

// auth changes users and roles.
func (h *history) auth(ctx context.Context) (err error) {
	h.auths++
	cli, role, user := h.Server.Client, fmt.Sprint("role", h.auths), fmt.Sprint("user", h.auths)
	if _, err = cli.RoleAdd(ctx, role); err != nil || rapid.Bool().Draw(h.rt, "role only") {
		return err
	}
	if _, err = cli.UserAdd(ctx, user, "secret"); err == nil {
		_, err = cli.UserGrantRole(ctx, user, role)
	}
	if err == nil && rapid.Bool().Draw(h.rt, "role goes") {
		_, err = cli.RoleDelete(ctx, role)
	}
	return err
}

// expire waits until all short leases have ended.
func (h *history) expire() {
	for {
		st := h.Server.State(h.T, 0)
		h.states[st.Revision] = st
		left := 0
		for _, ttl := range st.Leases {
			if ttl == shortLease {
				left++
			}
		}
		if left == 0 {
			return
		}
		<-time.After(20 * time.Millisecond)
	}
}

// many puts more keys in one revision than etcd takes in one request unless it is told to, and deletes them in another.
func (h *history) many() {
	ctx := etcdtest.Context(h.T)
	var ops []clientv3.Op
	for i := range 12_000 {
		ops = append(ops, clientv3.OpPut(fmt.Sprintf("many/%05d", i), random(i%50)))
	}
	if _, err := h.Server.Client.Txn(ctx).Then(ops...).Commit(); err != nil {
		h.T.Fatal(err)
	}
	h.note()
	if _, err := h.Server.Client.Delete(ctx, "many/", clientv3.WithPrefix()); err != nil {
		h.T.Fatal(err)
	}
	h.note()
}

// compact compacts to what was backed up already, as a cluster does of which the backups keep up.
func (h *history) compact() {
	// Of leases that end after this, etcd may not have told the Taker yet: to compact those changes away would be a gap.
	stored := h.Server.State(h.T, 0).Revision
	h.Flush()
	if h.compacted >= stored {
		return
	}
	rev := rapid.Int64Range(h.compacted+1, stored).Draw(h.rt, "compact")
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
		state := got.State(h.T, 0)
		taketest.SameState(h.T, want, state)
		for id, ttl := range state.Leases {
			// One that ended before it could be asked about is given a minute.
			if ttl != h.granted[id] && (!h.ended[id] || ttl != int64(backup.SafeTTL/time.Second)) {
				h.T.Errorf("revision %d: lease %x of %d s came back with %d s", revision, id, h.granted[id], ttl)
			}
		}
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
	histories := 0
	rapid.Check(t, func(rt *rapid.T) {
		histories++
		t.Run("history", func(t *testing.T) {
			s := etcdtest.Start(t, etcdtest.Options{})
			h := &history{rt: rt, bucket: backuptest.NewMemory(), states: map[int64]etcdtest.State{}, granted: map[int64]int64{}, ended: map[int64]bool{}}
			h.config = taketest.Config(s, h.bucket)
			h.config.Signer, h.other = backup.NewSigner(identity(t)), backup.NewSigner(identity(t))
			h.Rig = &taketest.Rig{T: t, Server: s}
			h.Put("k00", "first")
			h.note()
			h.begin()
			full := h.Await(take.FullStored).Header
			h.covered = full.Last
			for i := range 40 {
				h.do()
				if histories == 1 && i == 20 && !testing.Short() { // TestTaker_ThousandsOfKeysInOneRevision is short
					h.many()
				}
			}
			if rapid.Bool().Draw(rt, "leases end before") {
				h.expire()
			}
			last, stored := h.finish()
			if last.Revision > stored {
				// A short lease has ended since. A list of leases that came after that is of a later revision than is stored: it cannot
				// tell which of the others had ended by then.
				h.expire()
				last, stored = h.finish()
			}
			h.check(stored)
			for range 6 {
				h.check(rapid.Int64Range(h.covered, stored).Draw(rt, "revision"))
			}
			got, _ := taketest.Extract(t, h.Store(), backup.At{})
			if d := cmp.Diff(lasting(last.Leases), lasting(got.State(t, 0).Leases)); d != "" {
				t.Errorf("leases differ: %s", d)
			}
			h.usersAndRoles()
			if err := h.Stop(); err != nil {
				t.Fatal(err)
			}
			if t.Failed() {
				rt.Fatalf("see above")
			}
		})
	})
}

// finish stores everything, and returns what the cluster holds then and the newest revision stored.
func (h *history) finish() (last etcdtest.State, stored int64) {
	h.Put("end", "1") // leases go with changes: one that was granted after the last change waits for the next
	h.note()
	h.Flush()
	return h.Server.State(h.T, 0), h.Taker.Status().Revision
}

// lasting are leases without the short ones, that may end at any time.
func lasting(leases map[int64]int64) map[int64]int64 {
	maps.DeleteFunc(leases, func(_ int64, ttl int64) bool { return ttl == shortLease || ttl == int64(backup.SafeTTL/time.Second) })
	return leases
}

// usersAndRoles checks that the newest full has them.
func (h *history) usersAndRoles() {
	s, err := h.Server.Client.AuthStatus(etcdtest.Context(h.T))
	if err != nil {
		h.T.Fatal(err)
	}
	l, err := h.Store().Lineage(etcdtest.Context(h.T), "a1b2")
	if err != nil {
		h.T.Fatal(err)
	}
	head, err := backup.ReadHeader(etcdtest.Context(h.T), h.bucket, l.Fulls[len(l.Fulls)-1].Place)
	if err != nil || head.AuthRevision != s.AuthRevision {
		h.T.Errorf("the newest full has users and roles of revision %d, the cluster of %d: %v", head.AuthRevision, s.AuthRevision, err)
	}
}
