package backup_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"cke"
	"cke/backup"
	"cke/backup/internal/etcdtest"
)

// makeWrong replaces the newest full by one whose content is not what the cluster held, as of a member that had silently gone wrong:
// all its digests are right, and the hash in its header is that of another member.
func makeWrong(t *testing.T, f *fixture) (name string) {
	t.Helper()
	fulls, _ := f.objects(t)
	if h, err := backup.ReadHeader(t.Context(), f.bucket, place(t, fulls[1])); err != nil || len(h.Hashes) == 0 {
		t.Fatal(h, err)
	}
	return wrongContent(t, f, fulls[1])
}

// wrongContent does the same with any full.
func wrongContent(t *testing.T, f *fixture, victim string) (name string) {
	t.Helper()
	ctx := etcdtest.Context(t)
	_, deltas := f.objects(t)
	p := place(t, victim)
	h, err := backup.ReadHeader(ctx, f.bucket, p)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "wrong.db")
	if _, err := f.store(t, f.bucket).Extract(ctx, backup.At{Full: p.ID()}, file, backup.ExtractOptions{}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, info.Size()-info.Size()%512); err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(file, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		k, v := tx.Bucket([]byte("key")).Cursor().First()
		v = bytes.Clone(v)
		v[len(v)-1] ^= 1
		return tx.Bucket([]byte("key")).Put(bytes.Clone(k), v)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	f.bucket.Delete(ctx, victim)
	c, h, err := backup.SealFull(ctx, file, filepath.Join(t.TempDir(), "body"), f.bucket, h, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.bucket.Create(ctx, h.Place.Name(), c); err != nil {
		t.Fatal(err)
	}
	for _, d := range deltas { // they were taken after it, and name it
		rehead(t, f.bucket, d, func(x *backup.Header) {
			x.After = nil
			if x.Base != nil && x.Base.Object == h.Place.Name() {
				x.Base = h.Link()
			}
		})
	}
	return h.Place.Name()
}

func TestExtract_AWrongFullIsPassedOver(t *testing.T) {
	f := makeFixture(t, false)
	wrong := place(t, makeWrong(t, f)).ID()
	for _, at := range []backup.At{{}, {Revision: f.fulls[1]}, {Revision: f.last}} {
		if x := f.extractOK(t, f.bucket, at); x.Full == wrong || len(x.Notes) != 1 {
			t.Errorf("%+v: from %s, notes %q", at, x.Full, x.Notes)
		}
	}
}

func TestDrill_AWrongFullCountsForNothing(t *testing.T) {
	f := makeFixture(t, false)
	ctx := etcdtest.Context(t)
	wrong := place(t, makeWrong(t, f)).ID()
	s := f.store(t, f.bucket)
	x, err := s.Drill(ctx, backup.At{}, nil)
	if err != nil || !x.HashChecked || x.Full == wrong {
		t.Fatalf("%+v, %v", x, err)
	}
	v, err := s.LastVerified(ctx, "a1b2")
	if err != nil || !slices.Equal(v.Wrong, []string{wrong}) {
		t.Fatalf("%+v, %v", v, err)
	}
	if _, err := s.Prune(ctx, cke.Retention{Last: 1}, false); err != nil {
		t.Fatal(err)
	}
	f.extractOK(t, f.bucket, backup.At{Revision: f.last})
}

// Nothing is deleted while no drill succeeds.
func TestPrune_WaitsForADrillToSucceed(t *testing.T) {
	f := makeFixture(t, false)
	ctx := etcdtest.Context(t)
	fulls, deltas := f.objects(t)
	broken := f.bucket.Clone()
	broken.Set(deltas[4], nil)
	s := f.store(t, broken)
	if _, err := s.Drill(ctx, backup.At{}, nil); !backup.IsDamage(err) {
		t.Fatal(err)
	}
	if plan, err := s.Prune(ctx, cke.Retention{Last: 1}, false); err != nil || len(plan.Delete) != 0 {
		t.Errorf("%d objects were deleted: %v", len(plan.Delete), err)
	}
	broken.Set(deltas[4], f.bucket.Get(deltas[4]))
	if _, err := s.Drill(ctx, backup.At{}, nil); err != nil {
		t.Fatal(err)
	}
	if plan, err := s.Prune(ctx, cke.Retention{Last: 1}, false); err != nil || len(plan.Delete) == 0 {
		t.Errorf("%d objects were deleted: %v", len(plan.Delete), err)
	}
	if _, err := backup.ReadHeader(ctx, broken, place(t, fulls[1])); err != nil {
		t.Error(err)
	}
}

// So it is where the data is what etcd had by its hash, and an etcd does not serve it: the hash counts keys alone.
func TestPrune_WaitsForADrillInWhichEtcdServes(t *testing.T) {
	f := makeFixture(t, false)
	ctx := etcdtest.Context(t)
	s := f.store(t, f.bucket)
	notServed := func(context.Context, string, backup.Extracted) (string, error) { return "", backup.ErrNotServed }
	deleted := func() int {
		t.Helper()
		plan, err := s.Prune(ctx, cke.Retention{Last: 1}, true)
		if err != nil {
			t.Fatal(err)
		}
		return len(plan.Delete)
	}
	if _, err := s.Drill(ctx, backup.At{Revision: f.last}, notServed); !errors.Is(err, backup.ErrNotServed) {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(ctx)
	brokenOff := func(ctx context.Context, file string, x backup.Extracted) (string, error) {
		end()
		return notServed(ctx, file, x)
	}
	if _, err := s.Drill(ended, backup.At{}, brokenOff); !errors.Is(err, backup.ErrNotServed) {
		t.Fatal(err)
	}
	if deleted() == 0 {
		t.Error("a drill of a named state, or one that was broken off, keeps everything")
	}
	if _, err := s.Drill(ctx, backup.At{}, notServed); !errors.Is(err, backup.ErrNotServed) {
		t.Fatal(err)
	}
	if n := deleted(); n != 0 {
		t.Errorf("%d objects would be deleted", n)
	}
	if _, err := s.Drill(ctx, backup.At{}, nil); err != nil {
		t.Fatal(err)
	}
	if deleted() == 0 {
		t.Error("a drill that succeeds does not end it")
	}
}

// A full of which only the name is left, or a part, is none that a retention could count.
func TestPrune_ABrokenFullCountsForNothing(t *testing.T) {
	f := makeFixture(t, false)
	fulls, _ := f.objects(t)
	whole := f.bucket.Get(fulls[1])
	for name, content := range map[string][]byte{"empty": nil, "cut short": whole[:len(whole)-100]} {
		b := f.bucket.Clone()
		b.Set(fulls[1], content)
		if _, err := f.store(t, b).Prune(etcdtest.Context(t), cke.Retention{Last: 1}, false); err != nil {
			t.Fatal(name, err)
		}
		f.extractOK(t, b, backup.At{Revision: f.last})
		if !slices.Contains(names(t, b), fulls[1]) {
			t.Errorf("%s: it was deleted, and nobody could look into it", name)
		}
	}
}

func TestCompact_DoesNotBuildOnAWrongFull(t *testing.T) {
	f := makeFixture(t, false)
	ctx := etcdtest.Context(t)
	makeWrong(t, f)
	s := f.store(t, f.bucket)
	p, err := s.Compact(ctx, backup.At{}, backup.CompactOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.extractOK(t, f.bucket, backup.At{Full: p.ID()})
}

// What a drill found wrong stays so while it is there, whatever is drilled later: the right one is neither pruned nor deleted.
func TestDrill_ForgetsNoWrongFull(t *testing.T) {
	f := makeFixture(t, false)
	ctx := etcdtest.Context(t)
	wrong, right := makeWrong(t, f), ""
	fulls, _ := f.objects(t)
	right = place(t, fulls[0]).ID()
	s := f.store(t, f.bucket)
	known := func(what string) {
		t.Helper()
		if v, err := s.LastVerified(ctx, "a1b2"); err != nil || !slices.Equal(v.Wrong, []string{place(t, wrong).ID()}) {
			t.Errorf("%s: %+v, %v", what, v, err)
		}
		if _, err := s.Delete(ctx, right, false); !errors.Is(err, backup.ErrOnlyFull) {
			t.Fatalf("%s: the only right full was deleted: %v", what, err)
		}
		if _, err := s.Prune(ctx, cke.Retention{Last: 1}, false); err != nil {
			t.Fatal(err)
		}
		f.extractOK(t, f.bucket, backup.At{Revision: f.last})
	}
	drill := func(at backup.At) {
		t.Helper()
		if _, err := s.Drill(ctx, at, nil); err != nil {
			t.Fatal(err)
		}
	}
	drill(backup.At{})
	known("after the drill")
	drill(backup.At{Revision: f.fulls[0] + 1})
	known("after a drill of an older state")
	merged, err := s.Compact(ctx, backup.At{}, backup.CompactOptions{})
	if err != nil {
		t.Fatal(err)
	}
	drill(backup.At{})
	if _, err := s.Delete(ctx, right, false); err != nil {
		t.Fatal(err)
	}
	right = merged.ID()
	known("after a drill of a newer full")
}

// A full that can be read again is right again once a drill of the newest state proves it.
func TestDrill_AFullThatIsRightAfterAllCounts(t *testing.T) {
	f := makeFixture(t, false)
	ctx := etcdtest.Context(t)
	fulls, _ := f.objects(t)
	whole := f.bucket.Get(fulls[1])
	s := f.store(t, f.bucket)
	for _, damaged := range []bool{true, false} {
		if f.bucket.Set(fulls[1], whole); damaged {
			f.bucket.Set(fulls[1], flip(whole, len(whole)-5))
		}
		if _, err := s.Drill(ctx, backup.At{}, nil); err != nil {
			t.Fatal(err)
		}
		if v, err := s.LastVerified(ctx, "a1b2"); err != nil || (len(v.Wrong) > 0) != damaged {
			t.Errorf("damaged %t: %+v, %v", damaged, v, err)
		}
	}
}

// Only a drill of the newest state proves that it can be restored.
func TestPrune_WaitsForADrillOfTheNewestState(t *testing.T) {
	f := makeFixture(t, false)
	ctx := etcdtest.Context(t)
	_, deltas := f.objects(t)
	f.bucket.Set(deltas[4], nil)
	s := f.store(t, f.bucket)
	if _, err := s.Drill(ctx, backup.At{}, nil); !backup.IsDamage(err) {
		t.Fatal(err)
	}
	if _, err := s.Drill(ctx, backup.At{Revision: f.fulls[1]}, nil); err != nil {
		t.Fatal(err)
	}
	if plan, err := s.Prune(ctx, cke.Retention{Last: 1}, false); err != nil || len(plan.Delete) != 0 {
		t.Errorf("%d objects were deleted: %v", len(plan.Delete), err)
	}
}

// Also where nothing can be restored it is known afterwards which fulls are damaged.
func TestDrill_ThatFailsRemembersWrongFulls(t *testing.T) {
	f := makeFixture(t, false)
	ctx := etcdtest.Context(t)
	fulls, _ := f.objects(t)
	whole := f.bucket.Get(fulls[1])
	for _, name := range fulls {
		data := f.bucket.Get(name)
		f.bucket.Set(name, flip(data, len(data)-5))
	}
	s := f.store(t, f.bucket)
	if _, err := s.Drill(ctx, backup.At{}, nil); !backup.IsDamage(err) {
		t.Fatal(err)
	}
	f.bucket.Set(fulls[1], whole)
	if _, err := s.Drill(ctx, backup.At{}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delete(ctx, place(t, fulls[1]).ID(), false); !errors.Is(err, backup.ErrOnlyFull) {
		t.Errorf("the only right full was deleted: %v", err)
	}
}

// What makes all fulls lead to something else than the cluster held may be a delta: no full is called wrong for it.
func TestDrill_ThatFailsBlamesNoFullForADelta(t *testing.T) {
	f := makeFixture(t, false)
	ctx := etcdtest.Context(t)
	_, deltas := f.objects(t)
	rehead(t, f.bucket, deltas[5], func(h *backup.Header) { h.Hashes = []backup.Hash{{Revision: h.Last, Compacted: -1, Hash: 7}} })
	s := f.store(t, f.bucket)
	if _, err := s.Drill(ctx, backup.At{}, nil); !backup.IsDamage(err) {
		t.Fatal(err)
	}
	if _, err := s.Drill(ctx, backup.At{Revision: f.fulls[1]}, nil); err != nil {
		t.Fatal(err)
	}
	if v, err := s.LastVerified(ctx, "a1b2"); err != nil || len(v.Wrong) > 0 {
		t.Errorf("%+v, %v", v, err)
	}
}

// Nothing is deleted between the moment at which a drill has found a full wrong and the mark that says so.
func TestDrill_HoldsItsLockUntilItsMarkIsThere(t *testing.T) {
	f := makeFixture(t, false)
	held := func() bool {
		return slices.ContainsFunc(names(t, f.bucket), func(n string) bool { return strings.HasPrefix(n, ".locks/prod/reading-") })
	}
	_, err := f.store(t, f.bucket).Drill(etcdtest.Context(t), backup.At{}, func(context.Context, string, backup.Extracted) (string, error) {
		if !held() {
			t.Error("no lock while etcd is started on it")
		}
		return "3.7.0", nil
	})
	if err != nil || held() {
		t.Errorf("%v, held %t", err, held())
	}
}
