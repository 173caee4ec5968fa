package take_test

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// afterAGap is backups in which changes are missing after the full that a drill proved: etcd compacted them while no daemon ran. first is the full
// after them.
func afterAGap(t *testing.T, b *backuptest.Memory) (r *taketest.Rig, st *backup.Store, first backup.Header) {
	t.Helper()
	r = begin(t, b, nil)
	ctx := etcdtest.Context(t)
	r.Put("a", "1")
	r.Flush()
	st = r.Store()
	st.Whole = new(backup.Whole)
	if _, err := st.Drill(ctx, backup.At{}, nil); err != nil {
		t.Fatal(err)
	}
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r.Put("missing", "1")
	}
	if _, err := r.Server.Client.Compact(ctx, r.Put("missing", "2"), clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	r = taketest.Start(t, r.Server, taketest.Config(r.Server, b))
	return r, st, r.Await(take.FullStored).Header
}

// fullNow has a taker take a full.
func fullNow(t *testing.T, r *taketest.Rig) backup.Header {
	t.Helper()
	h, err := r.Taker.Full(etcdtest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// After the full that a drill proved, changes are missing: it does not lead to the deltas after them, which are kept because no drill has tried a
// later full. A full that leads to them is kept, too: else they would be of no use, and be reported as damaged.
func TestPrune_KeepsAFullForTheDeltasThatItKeepsAfterAGap(t *testing.T) {
	t.Parallel()
	b := backuptest.NewMemory()
	ctx := etcdtest.Context(t)
	r, st, first := afterAGap(t, b)
	r.Put("b", "1")
	r.Flush()
	newest := fullNow(t, r)
	r.Put("c", "1")
	r.Flush()
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		plan, err := st.Prune(ctx, cke.Retention{Last: 1}, false)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("kept %v, deleted %v", plan.Keep, plan.Delete)
	}
	report, err := st.Check(ctx, "")
	if err != nil || len(report.Findings) > 0 {
		t.Errorf("%+v, %v", report, err)
	}
	same(t, r, b)
	if err := b.Delete(ctx, newest.Place.Name()); err != nil { // as if a drill found it wrong
		t.Fatal(err)
	}
	if _, x := taketest.Extract(t, st, backup.At{}); x.Full != first.Place.ID() {
		t.Errorf("restored from %s, want %s", x.Full, first.Place.ID())
	}
}

// Two fulls of one revision lead to the deltas after the gap. The one that is kept is the one with the newest users and roles.
func TestPrune_KeepsTheNewestUsersForTheDeltasAfterAGap(t *testing.T) {
	t.Parallel()
	ctx := etcdtest.Context(t)
	r, st, first := afterAGap(t, backuptest.NewMemory())
	change := func(user string) {
		t.Helper()
		if _, err := r.Server.Client.UserAdd(ctx, user, "secret"); err != nil {
			t.Fatal(err)
		}
	}
	change("later")
	r.Flush()
	users := r.Await(take.FullStored).Header // since users have changed
	if users.Last != first.Last {
		t.Fatalf("the full for new users has revision %d, want %d", users.Last, first.Last)
	}
	revision := r.Put("b", "1")
	r.Flush()
	change("even later")
	r.Put("c", "1")
	r.Flush()
	fullNow(t, r)
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"before", "after"} {
		if _, x := taketest.Extract(t, st, backup.At{Revision: revision}); x.Full != users.Place.ID() {
			t.Errorf("%s the prune: restored from %s, want %s", what, x.Full, users.Place.ID())
		}
		if _, err := st.Prune(ctx, cke.Retention{Last: 1}, false); err != nil {
			t.Fatal(err)
		}
	}
}

// The full that a drill proved is damaged later. The deltas after it are kept because no drill has tried a later full, so what leads to them is kept,
// too: the full before it, with the deltas between the two.
func TestPrune_KeepsWhatLeadsToDeltasAfterAVerifiedFullThatIsDamaged(t *testing.T) {
	t.Parallel()
	b := backuptest.NewMemory()
	r := begin(t, b, nil)
	ctx := etcdtest.Context(t)
	st := r.Store()
	put := func() int64 {
		revision := r.Put("k", "1")
		r.Flush()
		return revision
	}
	put()
	put()
	verified := fullNow(t, r)
	if _, err := st.Drill(ctx, backup.At{}, nil); err != nil {
		t.Fatal(err)
	}
	revisions := []int64{put()}
	data := b.Get(verified.Place.Name())
	data[40] ^= 1
	b.Set(verified.Place.Name(), data)
	revisions = append(revisions, fullNow(t, r).Last, put(), put())
	fullNow(t, r)
	revisions = append(revisions, put())
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	st.Whole = new(backup.Whole)
	plan, err := st.Prune(ctx, cke.Retention{Last: 1}, false)
	if err != nil || len(plan.Delete) == 0 {
		t.Fatalf("deleted %v, %v", plan.Delete, err)
	}
	for _, revision := range revisions {
		taketest.Extract(t, st, backup.At{Revision: revision})
	}
	report, err := st.Check(ctx, "")
	if err != nil || len(report.Findings) != 1 || report.Findings[0].Object != verified.Place.Name() {
		t.Errorf("%+v, %v", report, err)
	}
}
