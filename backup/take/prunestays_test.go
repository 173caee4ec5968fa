package take_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// A drill proved a full. Users and roles change while no key does, and the full for that has the same revision and a later date.
func TestPrune_KeepsTheUsersBesideAVerifiedFullOfTheSameRevision(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{})
	ctx := etcdtest.Context(t)
	bucket := backuptest.NewMemory()
	revision := (&taketest.Rig{T: t, Server: s}).Put("a", "1")
	r := taketest.Start(t, s, taketest.Config(s, bucket))
	verified := r.Await(take.FullStored).Header
	st := r.Store()
	st.Whole = new(backup.Whole)
	if _, err := st.Drill(ctx, backup.At{}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Client.UserAdd(ctx, "later", "secret"); err != nil {
		t.Fatal(err)
	}
	r.Flush()
	users := r.Await(take.FullStored).Header
	if users.Last != verified.Last {
		t.Fatal(users, verified)
	}
	next := r.Put("b", "1")
	r.Flush()
	r.Put("c", "1")
	r.Flush()
	fullNow(t, r)
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"before", "after"} {
		for _, at := range []int64{revision, next} {
			if _, x := taketest.Extract(t, st, backup.At{Revision: at}); x.Full != users.Place.ID() {
				t.Errorf("%s the prune: revision %d restored from %s, want %s; notes %q", what, at, x.Full, users.Place.ID(), x.Notes)
			}
		}
		if _, err := st.Prune(ctx, cke.Retention{Last: 1}, false); err != nil {
			t.Fatal(err)
		}
	}
}

// Of two fulls of one revision the one with the older users is dated in the future, so it stays.
func TestPrune_KeepsTheUsersBesideAFullOfTheSameRevisionThatIsDatedInTheFuture(t *testing.T) {
	t.Parallel()
	ctx := etcdtest.Context(t)
	r, c := fullsOnly(t)
	revision := r.Put("a", "1")
	ahead := c
	ahead.Now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	if _, err := take.Full(ctx, ahead); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Server.Client.UserAdd(ctx, "later", "secret"); err != nil {
		t.Fatal(err)
	}
	users, err := take.Full(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	r.Put("b", "1")
	if _, err := take.Full(ctx, c); err != nil {
		t.Fatal(err)
	}
	st := r.Store()
	st.Whole = new(backup.Whole)
	for _, what := range []string{"before", "after"} {
		if _, x := taketest.Extract(t, st, backup.At{Revision: revision}); x.Full != users.Place.ID() {
			t.Errorf("%s the prune: restored from %s, want %s; notes %q", what, x.Full, users.Place.ID(), x.Notes)
		}
		if _, err := st.Prune(ctx, cke.Retention{Last: 1}, false); err != nil {
			t.Fatal(err)
		}
	}
}

// repeats is a target whose listings still have an object that was deleted a moment ago.
type repeats struct {
	*backuptest.Memory
	gone backup.Object
}

func (b repeats) List(ctx context.Context, prefix string) ([]backup.Object, error) {
	objects, err := b.Memory.List(ctx, prefix)
	if strings.HasPrefix(b.gone.Name, prefix) {
		objects = append(objects, b.gone)
		slices.SortFunc(objects, func(a, b backup.Object) int { return strings.Compare(a.Name, b.Name) })
	}
	return objects, err
}

// Two fulls lead to the deltas after a gap. A listing still names one of them that is gone: the other one stays.
func TestPrune_AFullThatIsGoneAndStillListedLeadsToNothing(t *testing.T) {
	t.Parallel()
	ctx := etcdtest.Context(t)
	b := backuptest.NewMemory()
	r, st, first := afterAGap(t, b)
	r.Put("b", "1")
	c := taketest.Config(r.Server, b)
	c.Scratch = t.TempDir()
	gone, err := take.Full(ctx, c) // within a delta
	if err != nil || gone.Last != first.Last+1 {
		t.Fatal(gone, first, err)
	}
	r.Put("b", "2")
	r.Flush()
	revision := r.Put("b", "3")
	r.Flush()
	fullNow(t, r)
	r.Put("c", "1")
	r.Flush()
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	objects, err := b.List(ctx, gone.Place.Name())
	if err != nil || len(objects) != 1 {
		t.Fatal(objects, err)
	}
	if err := b.Delete(ctx, gone.Place.Name()); err != nil {
		t.Fatal(err)
	}
	restored := func(what string) {
		if _, err := st.Extract(ctx, backup.At{Revision: revision - 1}, filepath.Join(t.TempDir(), "out"), backup.ExtractOptions{CheckHash: true}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	restored("before the prune")
	lag := &backup.Store{Bucket: repeats{b, objects[0]}, Cluster: "prod", Scratch: t.TempDir(), Whole: new(backup.Whole)}
	plan, err := lag.Prune(ctx, cke.Retention{Last: 1}, false)
	t.Logf("kept %v, deleted %v, %v", plan.Keep, plan.Delete, err)
	restored("after the prune")
}

// Deltas are held because one of them is protected. What they are restored from is a sound full, though a damaged one is nearer.
func TestPrune_AProtectedDeltaKeepsAFullThatIsSound(t *testing.T) {
	t.Parallel()
	ctx := etcdtest.Context(t)
	b := backuptest.NewMemory()
	r := begin(t, b, nil)
	st := r.Store()
	st.Whole = new(backup.Whole)
	put := func() int64 {
		revision := r.Put("k", "1")
		r.Flush()
		return revision
	}
	put()
	put()
	damaged := fullNow(t, r)
	revision := put()
	put()
	fullNow(t, r)
	put()
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	data := b.Get(damaged.Place.Name())
	data[40] ^= 1
	b.Set(damaged.Place.Name(), data)
	restored := func(what string) {
		if _, err := st.Extract(ctx, backup.At{Revision: revision}, filepath.Join(t.TempDir(), "out"), backup.ExtractOptions{CheckHash: true}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	restored("before the prune")
	st.Bucket = protecting{b, fmt.Sprintf("-%020d.cke", revision)}
	plan, err := st.Prune(ctx, cke.Retention{Last: 1}, false)
	t.Logf("held %v, deleted %v, %v", plan.Held, plan.Delete, err)
	if len(plan.Held) == 0 {
		t.Fatal("nothing was held")
	}
	restored("after the prune")
}

// protecting is a target that refuses to delete what has a name that ends so.
type protecting struct {
	*backuptest.Memory
	ending string
}

func (b protecting) Delete(ctx context.Context, name string) error {
	if strings.HasSuffix(name, b.ending) {
		return backup.ErrProtected
	}
	return b.Memory.Delete(ctx, name)
}
