package backup_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
)

// stubborn does not delete some objects, and fails with an error for each of these.
func stubborn(b backup.Bucket, errs map[string]error) *backuptest.Faulty {
	return &backuptest.Faulty{Bucket: b, Before: func(_ context.Context, op, name string) error {
		if op == "delete" {
			return errs[name]
		}
		return nil
	}}
}

// One object that cannot be deleted keeps nothing else from being deleted but what it is restored from.
func TestPrune_PassesOverWhatCannotBeDeleted(t *testing.T) {
	f := makeFixture(t, false)
	fulls, deltas := f.objects(t)
	refused := errors.New("403 Forbidden")
	for name, tc := range map[string]struct {
		object string
		err    error
		left   []string // of what the plan deletes
		fails  bool
	}{
		"ProtectedFull":    {fulls[0], backup.ErrProtected, fulls[:1], false},
		"ProtectedDelta":   {deltas[1], backup.ErrProtected, []string{deltas[0], deltas[1], fulls[0]}, false},
		"ProtectedLast":    {deltas[2], backup.ErrProtected, []string{deltas[0], deltas[1], deltas[2], fulls[0]}, false},
		"FirstDelta":       {deltas[0], backup.ErrProtected, []string{deltas[0], fulls[0]}, false},
		"RefusedDelta":     {deltas[0], refused, []string{deltas[0], fulls[0]}, true},
		"RefusedFull":      {fulls[0], refused, fulls[:1], true},
		"NothingProtected": {"", nil, nil, false},
	} {
		b := f.bucket.Clone()
		s := f.store(t, stubborn(b, map[string]error{tc.object: tc.err}))
		for range 2 { // the second time there is nothing else left to do
			plan, err := s.Prune(etcdtest.Context(t), cke.Retention{Last: 1}, false)
			if (err != nil) != tc.fails || tc.fails && (!errors.Is(err, refused) || !strings.Contains(err.Error(), tc.object)) {
				t.Errorf("%s: %v", name, err)
			}
			var left []string
			for _, r := range slices.Concat(plan.Held, plan.Failed) {
				left = append(left, r.Name)
				if r.Name != tc.object && !strings.Contains(r.Reason, tc.object+", which stays, needs it") {
					t.Errorf("%s: %+v", name, r)
				}
			}
			slices.Sort(left)
			if !slices.Equal(left, tc.left) || len(plan.Failed) > 0 != tc.fails {
				t.Errorf("%s: left %q, want %q; %+v", name, left, tc.left, plan)
			}
			want := slices.Concat(tc.left, deltas[3:], fulls[1:])
			slices.Sort(want)
			if got := withoutPruning(names(t, b)); !slices.Equal(got, want) {
				t.Errorf("%s: in the bucket %q, want %q", name, got, want)
			}
		}
		if len(tc.left) > 1 { // what stays can be restored
			h, err := backup.ReadHeader(etcdtest.Context(t), b, place(t, tc.object))
			if err != nil {
				t.Fatal(err)
			}
			f.extractOK(t, b, backup.At{Revision: h.Last})
		}
		f.extractOK(t, b, backup.At{})
	}
}

func TestPrune_AnAttemptThatFailedAndYetDidItIsDone(t *testing.T) {
	f := makeFixture(t, false)
	b := f.bucket.Clone()
	faulty := &backuptest.Faulty{Bucket: b, After: func(op, name string) error {
		if op == "delete" && strings.Contains(name, "/full/") {
			return errors.New("no answer")
		}
		return nil
	}}
	plan, err := f.store(t, faulty).Prune(etcdtest.Context(t), cke.Retention{Last: 1}, false)
	if err != nil || len(plan.Delete) != 4 || len(plan.Failed)+len(plan.Held) != 0 {
		t.Errorf("%+v, %v", plan, err)
	}
}

func TestDelete_PassesOverDeltasThatCannotBeDeleted(t *testing.T) {
	f := makeFixture(t, false)
	fulls, deltas := f.objects(t)
	b := f.bucket.Clone()
	gone, err := f.store(t, stubborn(b, map[string]error{deltas[0]: backup.ErrProtected})).Delete(etcdtest.Context(t), place(t, fulls[0]).ID(), false)
	if !errors.Is(err, backup.ErrProtected) || len(gone) != 3 {
		t.Errorf("%+v, %v", gone, err)
	}
	b = f.bucket.Clone()
	gone, err = f.store(t, stubborn(b, map[string]error{fulls[0]: backup.ErrProtected})).Delete(etcdtest.Context(t), place(t, fulls[0]).ID(), false)
	if !errors.Is(err, backup.ErrProtected) || len(gone) != 0 || len(names(t, b)) != 8 {
		t.Errorf("%+v, %v", gone, err)
	}
}

// As `chattr +i` makes it; that needs a file system that knows it, and root.
func TestDir_ToldApartWhatIsImmutable(t *testing.T) {
	dir := t.TempDir()
	b := backup.Dir(dir)
	for _, name := range []string{"c/l/a", "c/l/b"} {
		if err := b.Create(t.Context(), name, backup.Content{Head: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	backuptest.Chattr(t, filepath.Join(dir, "c/l/a"), unix.STATX_ATTR_IMMUTABLE)
	if err := b.Delete(t.Context(), "c/l/a"); !errors.Is(err, backup.ErrProtected) {
		t.Errorf("immutable: %v", err)
	}
	if err := b.Delete(t.Context(), "c/l/b"); err != nil {
		t.Errorf("its neighbour: %v", err)
	}
}

// A full lies within a delta where it was taken between two of them. Nobody knows what is in a delta that cannot be read.
func TestPrune_KeepsANewestDeltaThatCannotBeRead(t *testing.T) {
	ctx := etcdtest.Context(t)
	f := makeFixture(t, false)
	_, deltas := f.objects(t)
	s := f.store(t, f.bucket)
	if _, err := s.Compact(ctx, backup.At{Revision: 35}, backup.CompactOptions{}); err != nil {
		t.Fatal(err)
	}
	data := f.bucket.Get(deltas[5])
	data[40] ^= 1
	f.bucket.Set(deltas[5], data)
	if _, err := s.Prune(ctx, cke.Retention{Last: 1}, false); err != nil {
		t.Fatal(err)
	}
	x, err := s.Extract(ctx, backup.At{}, filepath.Join(t.TempDir(), "out"), backup.ExtractOptions{})
	if !backup.IsDamage(err) {
		t.Errorf("revision %d of %d was restored with notes %q, %v", x.Revision, f.last, x.Notes, err)
	}
}

// A daemon that was deposed soon has a stream that begins later than the one that goes furthest.
func TestCopy_TakesTheStreamThatGoesFurthest(t *testing.T) {
	ctx := etcdtest.Context(t)
	f := makeFixture(t, false)
	fulls, _ := f.objects(t)
	w, err := backup.NewDeltaWriter(16, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add([]backup.Change{{Key: []byte("x"), Value: []byte("y"), ModRevision: 16, CreateRevision: 16, Version: 1}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	c, h, err := w.Seal(backup.Header{Place: backup.DeltaPlace("prod", "a1b2", 16, 0, 16)})
	if err == nil {
		err = f.bucket.Create(ctx, h.Place.Name(), c)
	}
	if err != nil {
		t.Fatal(err)
	}
	dst := backuptest.NewMemory()
	if _, err := f.store(t, f.bucket).Copy(ctx, dst, backup.CopyFilter{Since: place(t, fulls[1]).Time}); err != nil {
		t.Fatal(err)
	}
	x, err := f.store(t, dst).Extract(ctx, backup.At{}, filepath.Join(t.TempDir(), "out"), backup.ExtractOptions{})
	if err != nil || x.Revision != f.last {
		t.Errorf("the copy leads to revision %d of %d: %v", x.Revision, f.last, err)
	}
}

// Whoever is interrupted deletes nothing any more, also in a directory.
func TestPrune_StopsWhenItIsInterrupted(t *testing.T) {
	f := makeFixture(t, false)
	ctx, cancel := context.WithCancel(etcdtest.Context(t))
	defer cancel()
	d := backup.Dir(t.TempDir())
	if _, err := f.store(t, f.bucket).Copy(ctx, d, backup.CopyFilter{}); err != nil {
		t.Fatal(err)
	}
	deleted := 0
	s := f.store(t, &backuptest.Faulty{Bucket: d, Before: func(_ context.Context, op, name string) error {
		if op == "delete" && strings.HasPrefix(name, "prod/") {
			deleted++
			cancel()
		}
		return nil
	}})
	if _, err := s.Prune(ctx, cke.Retention{Last: 1}, false); !errors.Is(err, context.Canceled) || deleted != 1 {
		t.Errorf("%d were deleted: %v", deleted, err)
	}
}
