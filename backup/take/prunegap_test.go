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

// After the full that a drill proved, changes are missing: it does not lead to the deltas after them, which are kept because no drill has tried a later full.
// The first full that leads to them is kept, too: else they would be of no use, and be reported as damaged.
func TestPrune_KeepsAFullForTheDeltasThatItKeepsAfterAGap(t *testing.T) {
	t.Parallel()
	b := backuptest.NewMemory()
	r := begin(t, b, nil)
	ctx := etcdtest.Context(t)
	r.Put("a", "1")
	r.Flush()
	st := r.Store()
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
	first := r.Await(take.FullStored).Header
	r.Put("b", "1")
	r.Flush()
	newest, err := r.Taker.Full(ctx)
	if err != nil {
		t.Fatal(err)
	}
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
