package backup_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
)

// stoppedFixture is one whose clock stands still: a bubble has its own time.
func stoppedFixture(t *testing.T) *fixture {
	t.Helper()
	f := makeFixture(t, false)
	now := time.Now()
	f.now = func() time.Time { return now }
	return f
}

// once calls do at the first operation of a kind on a name.
func once(b backup.Bucket, kind, part string, do func()) *backuptest.Faulty {
	var first sync.Once
	return &backuptest.Faulty{Bucket: b, Before: func(_ context.Context, op, name string) error {
		if op == kind && strings.Contains(name, part) {
			first.Do(do)
		}
		return nil
	}}
}

func TestDelete_BesideADeletionLeavesAFull(t *testing.T) {
	f := stoppedFixture(t)
	synctest.Test(t, func(t *testing.T) {
		fulls, _ := f.objects(t)
		one, two := place(t, fulls[0]).ID(), place(t, fulls[1]).ID()
		ctx := t.Context()
		work := map[string]func(s *backup.Store) error{
			"delete": func(s *backup.Store) error { _, err := s.Delete(ctx, one, false); return err },
			"prune":  func(s *backup.Store) error { _, err := s.Prune(ctx, cke.Retention{Last: 1}, false); return err },
		}
		for name, do := range work {
			mem := f.bucket.Clone()
			var other error
			b := once(mem, "delete", "/a1b2/", func() { _, other = f.store(t, mem).Delete(ctx, two, false) })
			if err := do(f.store(t, b)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if !errors.Is(other, backup.ErrBusy) || !strings.Contains(other.Error(), name) {
				t.Errorf("beside %s: %v", name, other)
			}
			f.extractOK(t, mem, backup.At{})
			if left := names(t, mem); strings.HasPrefix(left[0], ".locks/") {
				t.Errorf("%s: left is %q", name, left)
			}
		}
	})
}

func TestExtract_KeepsAPruneFromWhatItReads(t *testing.T) {
	f := stoppedFixture(t)
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		mem := f.bucket.Clone()
		var other error
		b := once(mem, "open", "/full/", func() {
			_, other = f.store(t, mem).Prune(ctx, cke.Retention{Last: 1}, false)
		})
		f.extractOK(t, b, backup.At{Revision: f.fulls[0] + 3})
		if !errors.Is(other, backup.ErrBusy) {
			t.Errorf("prune: %v", other)
		}
		if len(names(t, mem)) != 8 {
			t.Errorf("left are %q", names(t, mem))
		}
	})
}

// Who respects no lock, as an older cke or a rule of the target, is told for what it is.
func TestExtract_WhatWasDeletedMeanwhileIsNoDamage(t *testing.T) {
	f := makeFixture(t, false)
	ctx := etcdtest.Context(t)
	fulls, deltas := f.objects(t)
	for name, tc := range map[string]struct {
		revision int64
		lose     []string
		covered  bool
	}{
		"another full leads there": {f.last, fulls[1:], true},
		"nothing leads there":      {f.fulls[0] + 3, append([]string{fulls[0]}, deltas[:3]...), false},
	} {
		mem := f.bucket.Clone()
		b := once(mem, "open", "/full/", func() {
			for _, o := range tc.lose {
				mem.Delete(ctx, o)
			}
		})
		x, err := f.store(t, b).Extract(ctx, backup.At{Revision: tc.revision}, filepath.Join(t.TempDir(), "x"), backup.ExtractOptions{})
		switch {
		case tc.covered && (err != nil || len(x.Notes) == 0 || !strings.Contains(x.Notes[0], "skipped")):
			t.Errorf("%s: %+v, %v", name, x, err)
		case !tc.covered && (!errors.Is(err, backup.ErrNotCovered) || backup.IsDamage(err) || !strings.Contains(err.Error(), "was deleted while it was read")):
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheck_BesideAPruneFindsNoDamage(t *testing.T) {
	f := makeFixture(t, false)
	ctx := etcdtest.Context(t)
	mem := f.bucket.Clone()
	b := once(mem, "open", "/full/", func() {
		if _, err := f.store(t, mem).Prune(ctx, cke.Retention{Last: 1}, false); err != nil {
			t.Error(err)
		}
	})
	r, err := f.store(t, b).Check(ctx, "")
	if err != nil || len(r.Findings) > 0 || r.Objects != 4 || r.LastGood != f.last {
		t.Errorf("%+v, %v", r, err)
	}
}

// A target that may only be read keeps nobody from reading.
func TestExtract_FromATargetThatTakesNothing(t *testing.T) {
	f := makeFixture(t, false)
	b := &backuptest.Faulty{Bucket: f.bucket, Before: func(_ context.Context, op, _ string) error {
		if op == "create" || op == "delete" {
			return errors.New("403 Forbidden")
		}
		return nil
	}}
	x := f.extractOK(t, b, backup.At{})
	if len(x.Notes) != 1 || !strings.Contains(x.Notes[0], "403 Forbidden") {
		t.Errorf("notes %q", x.Notes)
	}
}

// A holder that was killed is waited for as long as its lock counts, by the target's clock, whatever the hosts' clocks say.
func TestLock_OfWhoWasKilledEnds(t *testing.T) {
	f := stoppedFixture(t)
	synctest.Test(t, func(t *testing.T) {
		for n := range 6 { // before and after the lock, what tells of the holes, and the first deletion
			b := f.bucket.Clone()
			f.store(t, backuptest.CrashAt(b, n)).Prune(t.Context(), cke.Retention{Last: 1}, false)
			s := f.store(t, b)
			s.Now = func() time.Time { return f.now().AddDate(1, 0, 0) }
			begin := time.Now()
			if _, err := s.Prune(t.Context(), cke.Retention{Last: 1}, false); err != nil {
				t.Fatal(n, err)
			}
			if took := time.Since(begin); took > 2*backup.DefaultLockTTL {
				t.Errorf("step %d: took %s", n, took)
			}
			if left := names(t, b); len(left) != 4 {
				t.Errorf("step %d: left are %q", n, left)
			}
		}
	})
}

// A deleter that was frozen for longer than its lock counts deletes nothing when it wakes.
func TestPrune_FrozenBetweenLockAndDeletionDeletesNothing(t *testing.T) {
	f := stoppedFixture(t)
	synctest.Test(t, func(t *testing.T) {
		mem := f.bucket.Clone()
		b := once(mem, "create", "/pruning/", nil)
		var frozen atomic.Bool // asked by the one that keeps the lock, too
		b.Before = func(_ context.Context, op, name string) error {
			switch {
			case op == "create" && strings.Contains(name, "/pruning/"):
				frozen.Store(true)
				time.Sleep(2 * backup.DefaultLockTTL)
				frozen.Store(false)
			case frozen.Load() && strings.HasPrefix(name, ".locks/"):
				return errors.New("frozen")
			}
			return nil
		}
		s, begun := f.store(t, b), time.Now()
		s.Now = func() time.Time { return f.now().Add(time.Since(begun)) }
		if _, err := s.Prune(t.Context(), cke.Retention{Last: 1}, false); err == nil {
			t.Error("it went on")
		}
		f.whole(t, mem)
		for _, o := range names(t, f.bucket) {
			if mem.Get(o) == nil {
				t.Errorf("%s is gone", o)
			}
		}
	})
}

// While a machine is suspended only its wall clock goes on.
func TestPrune_SuspendedBetweenLockAndDeletionDeletesNothing(t *testing.T) {
	f := stoppedFixture(t)
	synctest.Test(t, func(t *testing.T) {
		mem := f.bucket.Clone()
		var slept atomic.Int64
		s := f.store(t, once(mem, "create", "/pruning/", func() { slept.Store(int64(2 * backup.DefaultLockTTL)) }))
		s.Now = func() time.Time { return f.now().Add(time.Duration(slept.Load())) }
		if _, err := s.Prune(t.Context(), cke.Retention{Last: 1}, false); err == nil {
			t.Error("it went on")
		}
		for _, o := range names(t, f.bucket) {
			if mem.Get(o) == nil {
				t.Errorf("%s is gone", o)
			}
		}
	})
}

// A reader that comes while a deletion goes on waits, and the deletion makes way.
func TestPrune_MakesWayForARestore(t *testing.T) {
	f := stoppedFixture(t)
	synctest.Test(t, func(t *testing.T) {
		mem := f.bucket.Clone()
		var read sync.WaitGroup
		var first sync.Once
		b := &backuptest.Faulty{Bucket: mem, Before: func(_ context.Context, op, name string) error {
			if op == "delete" && strings.Contains(name, "/delta/") { // a slow target
				first.Do(func() { read.Go(func() { f.extractOK(t, mem, backup.At{}) }) })
				time.Sleep(backup.DefaultLockTTL / 3)
			}
			return nil
		}}
		plan, err := f.store(t, b).Prune(t.Context(), cke.Retention{Last: 1}, false)
		if !errors.Is(err, backup.ErrBusy) || len(plan.Delete) == 4 {
			t.Errorf("deleted %d, %v", len(plan.Delete), err)
		}
		read.Wait()
		f.whole(t, mem)
	})
}

func TestPrune_RefusesToGoByAClockThatIsWrong(t *testing.T) {
	f := makeFixture(t, false)
	ctx := etcdtest.Context(t)
	keep := cke.Retention{Last: 3, Within: cke.Duration(72 * time.Hour), MaxAge: cke.Duration(8760 * time.Hour)}
	s := f.store(t, f.bucket)
	s.Now = func() time.Time { return time.Now().AddDate(2, 0, 0) }
	if plan, err := s.Prune(ctx, keep, false); !errors.Is(err, backup.ErrClock) || len(plan.Delete) > 0 {
		t.Errorf("%+v, %v", plan, err)
	}
	if len(names(t, f.bucket)) != 8 {
		t.Errorf("left are %q", names(t, f.bucket))
	}
	// A directory of the same host has the same wrong clock. What is not followed by newer backups gets no older by it.
	if plan, err := s.Prune(ctx, keep, true); err != nil || len(plan.Delete) > 0 {
		t.Errorf("plan: %+v, %v", plan, err)
	}
}

// A lock of a deletion that is renewed without end keeps nobody from reading.
func TestExtract_DoesNotWaitForALockWithoutEnd(t *testing.T) {
	f := stoppedFixture(t)
	synctest.Test(t, func(t *testing.T) {
		b := f.bucket.Clone()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		lock := func(n int) {
			b.Set(fmt.Sprintf(".locks/prod/deleting-X-%010d", n), []byte(`{"holder":"mallory","work":"delete"}`))
		}
		lock(0) // it stands before the reader looks
		renewed := make(chan struct{})
		go func() {
			defer close(renewed)
			for n := 1; ctx.Err() == nil; n++ {
				<-time.After(50 * time.Millisecond)
				lock(n)
			}
		}()
		if x := f.extractOK(t, b, backup.At{}); x.Revision != f.last || !strings.Contains(strings.Join(x.Notes, " "), "mallory") {
			t.Errorf("%+v", x)
		}
		cancel()
		<-renewed
	})
}

// A target that is busy takes no lock for a moment. Whoever goes on without one could delete beside another deletion. One that is full, or
// forbids writing, takes none at all.
func TestDelete_GoesOnWithoutALockOnlyWhereNoneCanBeHad(t *testing.T) {
	f := stoppedFixture(t)
	synctest.Test(t, func(t *testing.T) {
		fulls, _ := f.objects(t)
		slow := errors.New("503 SlowDown")
		for why, err := range map[error]error{
			slow:                                   slow,
			errors.New("507 Insufficient Storage"): nil,
			errors.New("403 Forbidden"):            nil,
			errors.New("403 Forbidden, another deletion"): backup.ErrBusy,
		} {
			mem := f.bucket.Clone()
			s := f.store(t, &backuptest.Faulty{Bucket: mem, Before: func(_ context.Context, op, object string) error {
				if op == "create" {
					return why
				}
				return nil
			}})
			if errors.Is(err, backup.ErrBusy) {
				mem.Set(".locks/prod/deleting-X-0000000001", []byte(`{"holder":"another","work":"delete"}`))
			}
			_, got := s.Delete(t.Context(), place(t, fulls[0]).ID(), false)
			if !errors.Is(got, err) || err == nil && errors.Is(got, slow) {
				t.Errorf("%v: %v", why, got)
			}
			if gone := mem.Get(fulls[0]) == nil; gone != (err == nil) {
				t.Errorf("%v: deleted %t", why, gone)
			}
		}
	})
}
