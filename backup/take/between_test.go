package take_test

import (
	"context"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// watching is the call by which a Taker is told of changes.
const watching = "/etcdserverpb.Watch/Watch"

// behind passes on everything but changes: etcd says that the watch has begun, and nothing of what it sees. So it is for a tenth
// of a second wherever changes were made before the watch began, and for longer on a busy host.
func behind(t *testing.T, s *etcdtest.Server) string {
	return etcdtest.SlowProxy(t, s, func(ctx context.Context, method string, answers int) {
		if method == watching && answers > 0 {
			<-ctx.Done()
		}
	})
}

// unwatched starts a cluster with one key, of which the first full is stored, and a Taker that is told of no change: it can take
// fulls, and no delta.
func unwatched(t *testing.T, b backup.Bucket) *taketest.Rig {
	t.Helper()
	s := etcdtest.Start(t, etcdtest.Options{})
	(&taketest.Rig{T: t, Server: s}).Put("first", "1")
	c := taketest.Config(s, b)
	c.Endpoints = []string{behind(t, s)}
	r := taketest.Start(t, s, c)
	r.Await(take.FullStored)
	return r
}

// full takes one and returns its revision.
func full(t *testing.T, r *taketest.Rig) int64 {
	t.Helper()
	h, err := r.Taker.Full(etcdtest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	return h.Last
}

// again starts a Taker in the place of one that was stopped. Nothing is refused to it.
func again(t *testing.T, r *taketest.Rig) *taketest.Rig {
	t.Helper()
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	return taketest.Start(t, r.Server, taketest.Config(r.Server, r.Bucket))
}

// covers checks that every revision of a stretch is restored to what the cluster held.
func covers(t *testing.T, r *taketest.Rig, from, to int64) {
	t.Helper()
	for revision := from; revision <= to; revision++ {
		got, _ := taketest.Extract(t, r.Store(), backup.At{Revision: revision})
		taketest.SameState(t, r.Server.State(t, revision), got.State(t, 0))
	}
}

// A second full was stored before the first delta was, say because users and roles were made: the changes between the two are in
// neither. The next Taker must not go on after the second.
func TestTaker_ChangesBetweenTwoFullsAreStoredAfterARestart(t *testing.T) {
	for name, fulls := range map[string]int{"two fulls": 1, "four fulls": 3} {
		t.Run(name, func(t *testing.T) {
			b := backuptest.NewMemory()
			r := unwatched(t, b)
			for range fulls {
				r.Put("a", "1")
				r.Put("a", "2")
				full(t, r)
			}
			r = again(t, r)
			r.Put("end", "1")
			r.Flush()
			same(t, r, b)
			covers(t, r, 2, r.Server.State(t, 0).Revision)
			if err := r.Stop(); err != nil {
				t.Fatal(err)
			}
			told(t, r, 0, 0)
		})
	}
}

// A Taker that is stopped and begun again between the two loses nothing either.
func TestTaker_ChangesBetweenFullsOfTwoTakersAreStored(t *testing.T) {
	t.Parallel()
	b := backuptest.NewMemory()
	s := etcdtest.Start(t, etcdtest.Options{})
	c := taketest.Config(s, b)
	c.Endpoints = []string{behind(t, s)}
	r := &taketest.Rig{T: t, Server: s}
	r.Put("first", "1")
	for range 3 {
		r = taketest.Start(t, s, c)
		r.Put("a", "1")
		full(t, r)
		r.Put("a", "2")
		if err := r.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	r = taketest.Start(t, s, taketest.Config(s, b))
	r.Put("end", "1")
	r.Flush()
	same(t, r, b)
	l, err := r.Store().Lineage(etcdtest.Context(t), "a1b2")
	if err != nil {
		t.Fatal(err)
	}
	covers(t, r, l.Fulls[0].Revision, r.Server.State(t, 0).Revision)
}

// If etcd has compacted them away meanwhile, that they are missing is told, once, and a full follows.
func TestTaker_ChangesBetweenTwoFullsThatEtcdHasNoMoreAreTold(t *testing.T) {
	b := backuptest.NewMemory()
	r := unwatched(t, b)
	for range 4 {
		r.Put("a", "1")
	}
	second := full(t, r)
	compact(t, r, second)
	r = again(t, r)
	told(t, r, 3, second)
	r.Put("end", "1")
	r.Flush()
	same(t, r, b)
	covers(t, r, second, r.Server.State(t, 0).Revision)
	compact(t, r, r.Server.State(t, 0).Revision)
	r = again(t, r)
	r.Put("end", "2")
	r.Flush()
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	told(t, r, 0, 0)
}

// The deltas end before the newest full, and etcd has compacted what is between: that full leads on, and yet the gap does not stay
// in the status until the next one is due.
func TestTaker_AGapBeforeTheNewestFullIsToldAndPasses(t *testing.T) {
	t.Parallel()
	b := backuptest.NewMemory()
	r := begin(t, b, nil)
	good := r.Put("a", "1")
	r.Flush()
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	r.Put("a", "2")
	r.Put("a", "3")
	h, err := take.Full(etcdtest.Context(t), taketest.Config(r.Server, b))
	if err != nil {
		t.Fatal(err)
	}
	compact(t, r, h.Last)
	r = again(t, r)
	told(t, r, good+1, h.Last)
	covers(t, r, h.Last, h.Last)
}

// What a retention deleted is not missing: deltas that lead to the newest full need not be taken again.
func TestTaker_DeltasThatWerePrunedAreNotMissing(t *testing.T) {
	t.Parallel()
	b := backuptest.NewMemory()
	r := begin(t, b, nil)
	for range 4 {
		r.Put("a", "1")
	}
	r.Flush()
	newest := full(t, r)
	compact(t, r, newest)
	objects, err := b.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if p, ok := backup.ParsePlace(o.Name); ok && p.Kind == backup.KindDelta {
			if err := b.Delete(t.Context(), o.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	r = again(t, r)
	r.Put("end", "1")
	r.Flush()
	same(t, r, b)
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	told(t, r, 0, 0)
}

// etcd gives no watch, say because it has lost its leader: fulls are taken nevertheless, and the Taker ends when it is told to.
func TestTaker_ThatGetsNoWatchTakesFullsAndEnds(t *testing.T) {
	t.Parallel()
	b := backuptest.NewMemory()
	s := etcdtest.Start(t, etcdtest.Options{})
	r := &taketest.Rig{T: t, Server: s}
	r.Put("first", "1")
	var refused atomic.Bool
	refused.Store(true)
	c := taketest.Config(s, b)
	c.Endpoints = []string{etcdtest.Proxy(t, s, func(method string) error {
		if method == watching && refused.Load() {
			return status.Error(codes.Unavailable, "not now")
		}
		return nil
	})}
	r = taketest.Start(t, s, c)
	r.Await(take.FullStored)
	r.Put("a", "1")
	full(t, r)
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	r = taketest.Start(t, s, c)
	r.Put("a", "2")
	full(t, r)
	refused.Store(false)
	r.Flush()
	same(t, r, b)
	covers(t, r, 2, s.State(t, 0).Revision)
}

// compact removes what is older than a revision from the cluster.
func compact(t *testing.T, r *taketest.Rig, revision int64) {
	t.Helper()
	if _, err := r.Server.Client.Compact(etcdtest.Context(t), revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
}

// told checks that a gap is told, that a full follows, and that all is well then. from 0: that none is, by a Taker that has ended.
func told(t *testing.T, r *taketest.Rig, from, to int64) {
	t.Helper()
	if from == 0 {
		for len(r.Events) > 0 {
			if e := <-r.Events; e.Type == take.Gap {
				t.Errorf("a gap from %d to %d is told: %v", e.From, e.To, e.Err)
			}
		}
		return
	}
	if gap := r.Await(take.Gap); gap.From != from || gap.To != to {
		t.Errorf("a gap from %d to %d is told, want %d to %d", gap.From, gap.To, from, to)
	}
	r.Await(take.Restorable)
	if s := r.Taker.Status(); s.Problem != "" || !s.Connected {
		t.Errorf("status %+v", s)
	}
}
