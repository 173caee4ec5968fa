package backup_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// fixture is the backups of a real cluster and what it held: full, three deltas, full, three deltas, encrypted or not.
type fixture struct {
	bucket   *backuptest.Memory
	identity *age.X25519Identity
	states   map[int64]etcdtest.State
	fulls    [2]int64
	last     int64
	hash     backup.Hash // etcd's own at last, which the newest delta has
	now      func() time.Time
	signer   *backup.Signer
	slow     time.Duration // that etcd takes for each hash
}

// makeFixture runs a cluster for a moment. It is fast enough for every test to have its own.
func makeFixture(t testing.TB, encrypted bool) *fixture {
	t.Helper()
	f := &fixture{}
	f.make(t, encrypted)
	return f
}

func (f *fixture) make(t testing.TB, encrypted bool) {
	t.Helper()
	s := etcdtest.Start(t, etcdtest.Options{})
	f.bucket, f.states = backuptest.NewMemory(), map[int64]etcdtest.State{}
	c := taketest.Config(s, f.bucket)
	if f.slow > 0 {
		c.Endpoints = []string{etcdtest.SlowProxy(t, s, func(_ context.Context, method string, _ int) {
			if strings.HasSuffix(method, "/HashKV") {
				<-time.After(f.slow)
			}
		})}
	}
	c.Signer = f.signer
	if encrypted {
		id, err := age.GenerateX25519Identity()
		if err != nil {
			t.Fatal(err)
		}
		f.identity, c.Recipients = id, []age.Recipient{id.Recipient()}
	}
	first := &taketest.Rig{T: t, Server: s}
	first.Put("a", "1")
	r := taketest.Start(t, s, c)
	f.fulls[0] = r.Await(take.FullStored).Header.Last
	note := func() {
		st := s.State(t, 0)
		f.states[st.Revision], f.last = st, st.Revision
	}
	note()
	for i := range 6 {
		lease, err := s.Client.Grant(etcdtest.Context(t), 3600)
		if err != nil {
			t.Fatal(err)
		}
		for j := range 4 {
			r.Put(fmt.Sprint("k", (3*i+j)%7), strings.Repeat(fmt.Sprint(i), 50*j))
			note()
		}
		r.Put(fmt.Sprint("leased", i), "x", clientv3.WithLease(lease.ID))
		note()
		if _, err := s.Client.Delete(etcdtest.Context(t), fmt.Sprint("k", i)); err != nil {
			t.Fatal(err)
		}
		note()
		r.Flush()
		if i == 2 {
			h, err := r.Taker.Full(etcdtest.Context(t))
			if err != nil {
				t.Fatal(err)
			}
			f.fulls[1] = h.Last
		}
	}
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	h, err := s.Client.HashKV(etcdtest.Context(t), s.Endpoint, f.last)
	if err != nil {
		t.Fatal(err)
	}
	f.hash = backup.Hash{Revision: f.last, Compacted: h.CompactRevision, Hash: h.Hash}
	f.hashNewest(t)
}

// hashNewest gives the newest delta its hash. On a busy machine a Taker stores deltas without: one hash that takes long is enough, and the next is
// asked for seconds later.
func (f *fixture) hashNewest(t testing.TB) {
	t.Helper()
	_, deltas := f.objects(t)
	name := deltas[len(deltas)-1]
	h, err := backup.ReadHeader(t.Context(), f.bucket, place(t, name))
	if err != nil || h.Last != f.last {
		t.Fatalf("the newest delta ends at revision %d, want %d: %v", h.Last, f.last, err)
	}
	if !slices.Contains(h.Hashes, f.hash) {
		rehead(t, f.bucket, name, func(h *backup.Header) { h.Hashes, h.Signer = []backup.Hash{f.hash}, f.signer })
	}
}

func (f *fixture) store(t testing.TB, b backup.Bucket) *backup.Store {
	s := &backup.Store{Bucket: b, Cluster: "prod", Scratch: t.TempDir(), Now: f.now, Retry: backup.Retry{
		First: time.Millisecond, Longest: time.Millisecond, For: time.Nanosecond,
	}}
	if f.identity != nil {
		s.Identities = []age.Identity{f.identity}
	}
	return s
}

// names returns the objects of a bucket, sorted.
func names(t testing.TB, b backup.Bucket) []string {
	t.Helper()
	objects, err := b.List(etcdtest.Context(t), "")
	if err != nil {
		t.Fatal(err)
	}
	list := make([]string, len(objects))
	for i, o := range objects {
		list[i] = o.Name
	}
	return list
}

// extractOK checks that a revision comes out exactly.
func (f *fixture) extractOK(t testing.TB, b backup.Bucket, at backup.At) backup.Extracted {
	t.Helper()
	got, x := taketest.Extract(t, f.store(t, b), at)
	taketest.SameState(t, f.states[x.Revision], got.State(t, 0))
	return x
}

// compared extracts a state and compares it with the hashes that etcd gave.
func (f *fixture) compared(t testing.TB, at backup.At) (backup.Extracted, error) {
	t.Helper()
	return f.store(t, f.bucket).Extract(etcdtest.Context(t), at, filepath.Join(t.TempDir(), "out"), backup.ExtractOptions{CheckHash: true})
}

// extractBad checks that nothing is written, and returns the damage told.
func (f *fixture) extractBad(t testing.TB, b backup.Bucket, at backup.At) *backup.DamagedError {
	t.Helper()
	dir := t.TempDir()
	_, err := f.store(t, b).Extract(etcdtest.Context(t), at, filepath.Join(dir, "out"), backup.ExtractOptions{})
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Fatalf("%s was left behind (%v)", left[0].Name(), err)
	}
	var d *backup.DamagedError
	if !errors.As(err, &d) {
		t.Fatalf("error %v, want a DamagedError", err)
	}
	return d
}

// expire removes the locks of what was killed, as the time does.
func expire(t testing.TB, b backup.Bucket) {
	t.Helper()
	for _, name := range names(t, b) {
		if strings.HasPrefix(name, ".locks/") {
			if err := b.Delete(etcdtest.Context(t), name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func newRecipient(t testing.TB) age.Recipient {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id.Recipient()
}

func recipients(rs ...age.Recipient) []age.Recipient { return rs }

// alterHead changes the header of an object, with a digest that is right again.
func alterHead(t testing.TB, whole []byte, from, to string) []byte {
	t.Helper()
	n := int(binary.BigEndian.Uint32(whole[8:]))
	doc := strings.TrimRight(string(whole[12:12+n]), " ")
	changed := strings.Replace(doc, from, to, 1)
	head := append([]byte(nil), whole[:8]...)
	head = binary.BigEndian.AppendUint32(head, uint32(len(changed)))
	head = append(head, changed...)
	sum := sha256.Sum256(head)
	return append(append(head, sum[:]...), whole[12+n+len(sum):]...)
}
