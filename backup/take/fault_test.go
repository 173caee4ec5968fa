package take_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// begin starts a cluster with one key and a Taker, and waits for the first full.
func begin(t *testing.T, b backup.Bucket, change func(*take.Config)) *taketest.Rig {
	t.Helper()
	s := etcdtest.Start(t, etcdtest.Options{})
	(&taketest.Rig{T: t, Server: s}).Put("first", "1")
	c := taketest.Config(s, b)
	if change != nil {
		change(&c)
	}
	r := taketest.Start(t, s, c)
	r.Await(take.FullStored)
	return r
}

// same checks that the newest state in the backups is the cluster's, and that nothing in them is wrong.
func same(t *testing.T, r *taketest.Rig, b backup.Bucket) {
	t.Helper()
	store := &backup.Store{Bucket: b, Cluster: "prod", Scratch: t.TempDir()}
	got, x := taketest.Extract(t, store, backup.At{})
	want := r.Server.State(t, 0)
	if x.Revision != want.Revision {
		t.Errorf("the backups hold revision %d, the cluster %d", x.Revision, want.Revision)
	}
	taketest.SameState(t, want, got.State(t, 0))
	if d := cmp.Diff(want.Leases, got.State(t, 0).Leases); d != "" {
		t.Errorf("leases: %s", d)
	}
	report, err := store.Check(etcdtest.Context(t), "")
	if err != nil || len(report.Findings) > 0 {
		t.Errorf("check: %+v, %v", report, err)
	}
}

// A peer cannot restore what etcd accepted in one request.
func TestTaker_ThousandsOfKeysInOneRevision(t *testing.T) {
	t.Parallel()
	b := backuptest.NewMemory()
	r := begin(t, b, nil)
	var ops []clientv3.Op
	for i := range 12_000 {
		ops = append(ops, clientv3.OpPut(fmt.Sprintf("many/%05d", i), strings.Repeat("v", i%100)))
	}
	res, err := r.Server.Client.Txn(etcdtest.Context(t)).Then(ops...).Commit()
	for errors.Is(err, rpctypes.ErrTimeout) { // of a busy host
		res, err = r.Server.Client.Txn(etcdtest.Context(t)).Then(ops...).Commit()
	}
	if err != nil {
		t.Fatal(err)
	}
	big := res.Header.Revision
	r.Put("large", strings.Repeat("x", 3<<19))
	if _, err := r.Server.Client.Delete(etcdtest.Context(t), "many/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	r.Flush()
	same(t, r, b)
	got, _ := taketest.Extract(t, r.Store(), backup.At{Revision: big})
	taketest.SameState(t, r.Server.State(t, big), got.State(t, 0))
}

// A peer drops what it has buffered when it is told to end.
func TestTaker_StoresWhatItHasWhenItEnds(t *testing.T) {
	t.Parallel()
	b := backuptest.NewMemory()
	r := begin(t, b, nil)
	w := r.Server.Client.Watch(etcdtest.Context(t), "k", clientv3.WithPrefix())
	for i := range 100 {
		r.Put(fmt.Sprint("k", i), "v")
	}
	for n := 0; n < 100; n += len((<-w).Events) {
	}
	last := r.Server.State(t, 0).Revision
	for r.Taker.Status().Seen < last {
		<-time.After(time.Millisecond)
	}
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	same(t, r, b)
}

// A peer takes no deltas while it takes a full.
func TestTaker_DeltasGoOnWhileAFullIsOnItsWay(t *testing.T) {
	t.Parallel()
	mem := backuptest.NewMemory()
	release, blocked := make(chan struct{}), make(chan struct{})
	var once sync.Once
	armed := make(chan struct{})
	b := &backuptest.Faulty{Bucket: mem, Before: func(ctx context.Context, op, name string) error {
		select {
		case <-armed:
			if op == "create" && strings.Contains(name, "/full/") {
				once.Do(func() { close(blocked) })
				<-release
			}
		default:
		}
		return nil
	}}
	r := begin(t, b, nil)
	r.Put("a", "1")
	r.Flush()
	close(armed)
	full := make(chan error, 1)
	go func() { _, err := r.Taker.Full(etcdtest.Context(t)); full <- err }()
	<-blocked
	var revs []int64
	for i := range 5 {
		revs = append(revs, r.Put("during", fmt.Sprint(i)))
		r.Flush()
	}
	same(t, r, mem)
	close(release)
	if err := <-full; err != nil {
		t.Fatal(err)
	}
	r.Put("after", "1")
	r.Flush()
	same(t, r, mem)
	for _, rev := range revs {
		got, _ := taketest.Extract(t, r.Store(), backup.At{Revision: rev})
		taketest.SameState(t, r.Server.State(t, rev), got.State(t, 0))
	}
}

// Replay through a running etcd lets leases expire, or drops them: keys vanish, or live for ever.
func TestTaker_LeasesThatExpireDuringAndAfter(t *testing.T) {
	t.Parallel()
	b := backuptest.NewMemory()
	r := begin(t, b, nil)
	ctx := etcdtest.Context(t)
	short, err := r.Server.Client.Grant(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	long, err := r.Server.Client.Grant(ctx, 7200)
	if err != nil {
		t.Fatal(err)
	}
	w := r.Server.Client.Watch(ctx, "short")
	alive := r.Put("short", "x", clientv3.WithLease(short.ID))
	r.Put("long", "x", clientv3.WithLease(long.ID))
	aliveState := r.Server.State(t, 0)
	<-w
	gone := (<-w).Events[0].Kv.ModRevision
	r.Put("afterwards", "1")
	r.Flush()
	same(t, r, b)
	got, _ := taketest.Extract(t, r.Store(), backup.At{Revision: alive + 1})
	st := got.State(t, 0)
	taketest.SameState(t, aliveState, st)
	if d := cmp.Diff(map[int64]int64{int64(short.ID): 1, int64(long.ID): 7200}, st.Leases); d != "" {
		t.Errorf("leases when both lived: %s", d)
	}
	got, _ = taketest.Extract(t, r.Store(), backup.At{Revision: gone})
	// That it had ended is known of a later revision only: until then it may be there, with its own time and no key.
	leases := got.State(t, 0).Leases
	if ttl, is := leases[int64(short.ID)]; is && ttl == 1 {
		delete(leases, int64(short.ID))
	}
	if d := cmp.Diff(map[int64]int64{int64(long.ID): 7200}, leases); d != "" {
		t.Errorf("leases when one had ended: %s", d)
	}
	for _, kv := range got.State(t, 0).KVs {
		if string(kv.Key) == "short" {
			t.Error("the key outlives its lease")
		}
	}
}

func TestTaker_GapAfterCompactionIsToldAndAFullFollows(t *testing.T) {
	t.Parallel()
	b := backuptest.NewMemory()
	r := begin(t, b, nil)
	good := r.Put("a", "1")
	r.Flush()
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		r.Put("a", fmt.Sprint(i))
	}
	now := r.Server.State(t, 0).Revision
	if _, err := r.Server.Client.Compact(etcdtest.Context(t), now, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	r2 := taketest.Start(t, r.Server, taketest.Config(r.Server, b))
	gap := r2.Await(take.Gap)
	if gap.From != good+1 || gap.To != now {
		t.Errorf("gap %d to %d, want %d to %d", gap.From, gap.To, good+1, now)
	}
	r2.Await(take.FullStored)
	r2.Put("b", "1")
	r2.Flush()
	same(t, r2, b)
	_, err := r2.Store().Extract(etcdtest.Context(t), backup.At{Revision: good + 1}, filepath.Join(t.TempDir(), "out"), backup.ExtractOptions{})
	if !errors.Is(err, backup.ErrNotCovered) {
		t.Errorf("inside the gap: %v", err)
	}
	taketest.Extract(t, r2.Store(), backup.At{Revision: good})
	// What was before the gap is of no concern to who goes on after it.
	if err := r2.Stop(); err != nil {
		t.Fatal(err)
	}
	r3 := taketest.Start(t, r.Server, taketest.Config(r.Server, b))
	r3.Put("c", "1")
	r3.Flush()
	same(t, r3, b)
}

func TestTaker_RestartGoesOnWithoutGapOrOverlap(t *testing.T) {
	t.Parallel()
	b := backuptest.NewMemory()
	r := begin(t, b, nil)
	for range 5 {
		r.Put("k", "x")
		r.Flush()
		if err := r.Stop(); err != nil {
			t.Fatal(err)
		}
		r.Put("between", "x")
		r = taketest.Start(t, r.Server, taketest.Config(r.Server, b))
	}
	r.Put("k", "last")
	r.Flush()
	same(t, r, b)
	l, err := r.Store().Lineage(etcdtest.Context(t), "a1b2")
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Streams) != 1 || len(l.Fulls) != 1 {
		t.Errorf("%d streams, %d fulls", len(l.Streams), len(l.Fulls))
	}
	next := l.Streams[0].Deltas[0].Revision
	for _, d := range l.Streams[0].Deltas {
		h, err := backup.ReadHeader(etcdtest.Context(t), b, d.Place)
		if err != nil || h.Place.Revision != next {
			t.Errorf("delta begins at %d, want %d: %v", h.Place.Revision, next, err)
		}
		next = h.Last + 1
	}
}

func TestTaker_ChangedUsersAndRolesLeadToAFull(t *testing.T) {
	t.Parallel()
	b := backuptest.NewMemory()
	r := begin(t, b, nil)
	r.Put("a", "1")
	r.Flush()
	if _, err := r.Server.Client.RoleAdd(etcdtest.Context(t), "reader"); err != nil {
		t.Fatal(err)
	}
	r.Put("a", "2")
	r.Flush()
	r.Await(take.AuthChanged)
	h := r.Await(take.FullStored).Header
	if h.AuthRevision < 2 {
		t.Errorf("auth revision %d", h.AuthRevision)
	}
	r.Put("a", "3")
	r.Flush()
	same(t, r, b)
}

// Nothing else changes, so that no delta is stored with which users and roles could be asked about.
func TestTaker_ChangedUsersAndRolesOfAQuietClusterLeadToAFull(t *testing.T) {
	t.Parallel()
	role := func(t *testing.T, r *taketest.Rig) uint64 {
		t.Helper()
		if _, err := r.Server.Client.RoleAdd(etcdtest.Context(t), "reader"); err != nil {
			t.Fatal(err)
		}
		s, err := r.Server.Client.AuthStatus(etcdtest.Context(t))
		if err != nil {
			t.Fatal(err)
		}
		return s.AuthRevision
	}
	t.Run("by itself", func(t *testing.T) {
		r := begin(t, backuptest.NewMemory(), func(c *take.Config) { c.Delta.Period = cke.Duration(20 * time.Millisecond) })
		want := role(t, r)
		r.Await(take.AuthChanged)
		if h := r.Await(take.FullStored).Header; h.AuthRevision != want {
			t.Errorf("auth revision %d, want %d", h.AuthRevision, want)
		}
	})
	t.Run("when asked", func(t *testing.T) {
		b := backuptest.NewMemory()
		r := begin(t, b, nil)
		want := role(t, r)
		for range 2 { // and no full more the second time
			r.Flush()
		}
		l, err := r.Store().Lineage(etcdtest.Context(t), "a1b2")
		if err != nil || len(l.Fulls) != 2 {
			t.Fatalf("%d fulls, %v", len(l.Fulls), err)
		}
		if h, err := backup.ReadHeader(etcdtest.Context(t), b, l.Fulls[1].Place); err != nil || h.AuthRevision != want {
			t.Errorf("auth revision %d, want %d: %v", h.AuthRevision, want, err)
		}
	})
}

func TestTaker_AnotherHistoryIsRefused(t *testing.T) {
	t.Parallel()
	b := backuptest.NewMemory()
	r := begin(t, b, nil)
	r.Put("a", "1")
	r.Put("a", "2")
	r.Flush()
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	other := etcdtest.Start(t, etcdtest.Options{})
	taker, err := take.New(taketest.Config(other, b))
	if err != nil {
		t.Fatal(err)
	}
	if err := taker.Run(etcdtest.Context(t)); !errors.Is(err, take.ErrDiverged) {
		t.Errorf("Run: %v", err)
	}
}

func TestTaker_GuardEndsRunAndNothingIsWritten(t *testing.T) {
	t.Parallel()
	b := backuptest.NewMemory()
	var deposed sync.Map
	r := begin(t, b, func(c *take.Config) {
		c.Guard = func() error {
			if _, ok := deposed.Load("yes"); ok {
				return cke.ErrDeposed
			}
			return nil
		}
	})
	before, _ := b.List(t.Context(), "")
	deposed.Store("yes", true)
	r.Put("a", "1")
	if err := r.Taker.Flush(etcdtest.Context(t)); err == nil {
		t.Error("a deposed Taker stored something")
	}
	if err := r.Stop(); !errors.Is(err, cke.ErrDeposed) {
		t.Errorf("Run: %v", err)
	}
	if after, _ := b.List(t.Context(), ""); len(after) != len(before) {
		t.Errorf("%v", after)
	}
}

// Clocks say when, never in which order.
func TestTaker_ClockJumpsOnlyMakeTimesAmbiguous(t *testing.T) {
	t.Parallel()
	b := backuptest.NewMemory()
	var mu sync.Mutex
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	jump := func(d time.Duration) {
		mu.Lock()
		now = now.Add(d)
		mu.Unlock()
	}
	r := begin(t, b, func(c *take.Config) {
		c.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	})
	at := func(when time.Time) (backup.Extracted, error) {
		return r.Store().Extract(etcdtest.Context(t), backup.At{Time: when}, filepath.Join(t.TempDir(), "out"), backup.ExtractOptions{})
	}
	noon := now
	steps := []time.Duration{time.Minute, time.Minute, -30 * 24 * time.Hour, time.Minute, 60 * 24 * time.Hour, -time.Hour}
	var revs []int64
	for i, d := range steps {
		jump(d)
		revs = append(revs, r.Put("k", fmt.Sprint(i)))
		r.Flush()
		if i == 1 {
			if x, err := at(noon.Add(90 * time.Second)); err != nil || x.Revision != revs[0] {
				t.Errorf("before the jump: %+v, %v", x, err)
			}
		}
	}
	same(t, r, b)
	if _, err := at(noon.Add(90 * time.Second)); !errors.Is(err, backup.ErrAmbiguousTime) {
		t.Errorf("across a jump: %v", err)
	}
	jump(-365 * 24 * time.Hour)
	if _, err := r.Taker.Full(etcdtest.Context(t)); err != nil {
		t.Fatal(err)
	}
	r.Put("k", "end")
	r.Flush()
	same(t, r, b)
}

func TestTaker_EtcdThatRestartsIsWatchedOn(t *testing.T) {
	t.Parallel()
	b := backuptest.NewMemory()
	r := begin(t, b, nil)
	r.Put("a", "1")
	r.Server.Stop()
	r.Server = etcdtest.Start(t, etcdtest.Options{Dir: r.Server.Dir, Address: r.Server.Address})
	r.Put("a", "2")
	r.Flush()
	same(t, r, b)
	l, err := r.Store().Lineage(etcdtest.Context(t), "a1b2")
	if err != nil || len(l.Streams) != 1 {
		t.Errorf("%d streams, %v", len(l.Streams), err)
	}
}
