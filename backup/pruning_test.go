package backup_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
)

// whole checks that nothing in a bucket is told as damaged, and that all chains come out to their ends.
func (f *fixture) whole(t *testing.T, b backup.Bucket) {
	t.Helper()
	s := f.store(t, b)
	r, err := s.Check(etcdtest.Context(t), "")
	if err != nil || len(r.Findings) > 0 || r.LastGood != f.last {
		t.Fatalf("%+v, %v", r, err)
	}
	l, err := s.Lineage(etcdtest.Context(t), "a1b2")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range l.Chains() {
		if c.Damage != nil {
			t.Fatalf("%s: %v", c.Full.ID(), c.Damage)
		}
		f.extractOK(t, b, backup.At{Revision: c.Last})
	}
	dst := backuptest.NewMemory()
	if c, err := s.Copy(etcdtest.Context(t), dst, backup.CopyFilter{}); err != nil || len(c.Problems) > 0 {
		t.Fatalf("%+v, %v", c, err)
	}
	if r, err := f.store(t, dst).Check(etcdtest.Context(t), ""); err != nil || len(r.Findings) > 0 {
		t.Fatalf("copied: %+v, %v", r, err)
	}
}

// withoutPruning leaves out the files that tell what is being pruned.
func withoutPruning(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return strings.Contains(n, "/pruning/") })
}

// Killed after any deletion, or before or after any file that it writes, a prune leaves chains that are whole: all verifies.
func TestPrune_KilledAnywhereLeavesNothingThatLooksDamaged(t *testing.T) {
	f := makeFixture(t, false)
	holes := 0
	for n := 0; ; n++ {
		b := f.bucket.Clone()
		_, err := f.store(t, backuptest.CrashAt(b, n)).Prune(etcdtest.Context(t), cke.Retention{Last: 1}, false)
		if err != nil && !errors.Is(err, backuptest.ErrCrash) {
			t.Fatal(err)
		}
		expire(t, b)
		f.whole(t, b)
		l, lookErr := f.store(t, b).Lineage(etcdtest.Context(t), "a1b2")
		if lookErr != nil {
			t.Fatal(lookErr)
		}
		holes += len(l.Streams) - 1
		// A retention that keeps what was to go does not forget why something is missing.
		if _, err := f.store(t, b).Prune(etcdtest.Context(t), cke.Retention{Last: 9}, false); err != nil {
			t.Fatal(err)
		}
		f.whole(t, b)
		if left := names(t, b); len(left)-len(withoutPruning(left)) > 1 {
			t.Fatalf("left are %q", left)
		}
		if err == nil {
			break
		}
	}
	if holes == 0 {
		t.Error("no hole was seen")
	}
}

// What may not be deleted leaves a hole for as long as it stays, and what tells of it goes with it.
func TestPrune_AHoleThatStaysIsNoDamage(t *testing.T) {
	f := makeFixture(t, false)
	_, deltas := f.objects(t)
	b := f.bucket.Clone()
	s := f.store(t, stubborn(b, map[string]error{deltas[1]: backup.ErrProtected}))
	for range 3 {
		if _, err := s.Prune(etcdtest.Context(t), cke.Retention{Last: 1}, false); err != nil {
			t.Fatal(err)
		}
		f.whole(t, b)
		if left := names(t, b); len(left)-len(withoutPruning(left)) != 1 {
			t.Fatalf("left are %q", left)
		}
	}
	if _, err := f.store(t, b).Prune(etcdtest.Context(t), cke.Retention{Last: 1}, false); err != nil {
		t.Fatal(err)
	}
	if left := names(t, b); len(left) != 4 || len(withoutPruning(left)) != 4 {
		t.Errorf("left are %q", left)
	}
}

// Only what was pruned is explained: another object that is missing beside it is told, and so is a file that was altered.
func TestCheck_WhatIsMissingBesideWhatWasPrunedIsTold(t *testing.T) {
	f := makeFixture(t, false)
	_, deltas := f.objects(t)
	for name, spoil := range map[string]func(b *backuptest.Memory){
		"another one too": func(b *backuptest.Memory) { b.Delete(etcdtest.Context(t), deltas[3]) },
		"its file altered": func(b *backuptest.Memory) {
			for _, n := range names(t, b) {
				if strings.Contains(n, "/pruning/") {
					b.Set(n, []byte("[]"))
				}
			}
		},
	} {
		b := f.bucket.Clone()
		if _, err := f.store(t, stubborn(b, map[string]error{deltas[1]: backup.ErrProtected})).Prune(etcdtest.Context(t), cke.Retention{Last: 1}, false); err != nil {
			t.Fatal(err)
		}
		spoil(b)
		if r, err := f.store(t, b).Check(etcdtest.Context(t), ""); err != nil || len(r.Findings) == 0 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// What was told and yet is kept is told no more: when it is lost, that is damage.
func TestPrune_WhatIsKeptAfterAllIsMissedWhenItIsLost(t *testing.T) {
	f := makeFixture(t, false)
	fulls, deltas := f.objects(t)
	b := f.bucket.Clone()
	const told = 4 // before and after writing its lock and that file; the first deletion crashes
	s := f.store(t, backuptest.CrashAt(b, told))
	s.Whole = new(backup.Whole)
	s.Whole.Add(place(t, fulls[1]).ID()) // another lock precedes the reading of it
	if _, err := s.Prune(etcdtest.Context(t), cke.Retention{Last: 1}, false); !errors.Is(err, backuptest.ErrCrash) {
		t.Fatal(err)
	}
	expire(t, b)
	if left := names(t, b); len(left) != 9 || len(withoutPruning(left)) != 8 {
		t.Fatalf("it was not killed between telling and deleting: %q", left)
	}
	if _, err := f.store(t, b).Prune(etcdtest.Context(t), cke.Retention{Last: 9}, false); err != nil {
		t.Fatal(err)
	}
	f.whole(t, b)
	if err := b.Delete(etcdtest.Context(t), deltas[1]); err != nil {
		t.Fatal(err)
	}
	if r, err := f.store(t, b).Check(etcdtest.Context(t), ""); err != nil || len(r.Findings) == 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// full takes nothing until something was deleted, or ever; it does not delete what is protected.
func full(b backup.Bucket, protected string, ever bool) *backuptest.Faulty {
	freed := false
	return &backuptest.Faulty{Bucket: b, Before: func(_ context.Context, op, name string) error {
		switch {
		case op == "create" && (ever || !freed):
			return fmt.Errorf("write %s: %w", name, syscall.ENOSPC)
		case op == "delete" && name == protected:
			return backup.ErrProtected
		}
		return nil
	}, After: func(op, _ string) error {
		freed = freed || op == "delete"
		return nil
	}}
}

// A target with no room for what tells of it is the one that needs pruning most. It waits there for seconds at most.
func TestPrune_FreesATargetThatTakesNothing(t *testing.T) {
	f := makeFixture(t, false)
	_, deltas := f.objects(t)
	now := time.Now()
	for name, tc := range map[string]struct {
		protected string
		ever      bool
		left      int // of the backups
		told      bool
	}{
		"nothing stays":            {"", true, 4, true},
		"a hole, told in the end":  {deltas[1], false, 7, true},
		"a hole that nobody tells": {deltas[1], true, 7, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := f.bucket.Clone()
			s := f.store(t, full(b, tc.protected, tc.ever))
			s.Retry, s.Now = backup.Retry{}, func() time.Time { return now }
			begin := time.Now()
			plan, err := s.Prune(t.Context(), cke.Retention{Last: 1}, false)
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("%s: took %s", name, took)
			}
			if (err == nil) != tc.told || err != nil && !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("%s: %v", name, err)
			}
			if left := withoutPruning(names(t, b)); len(left) != tc.left || len(plan.Delete) != 8-tc.left {
				t.Errorf("%s: left are %q; %+v", name, left, plan)
			}
			if tc.told {
				f.whole(t, b)
			}
		})
	}
}

// What tells of a hole is as short for a stream of months as for one of minutes.
func TestPrune_TellsALongStreamInFewBytes(t *testing.T) {
	const count = 5000
	b, newest := backuptest.NewMemory(), ""
	for i := range int64(count) {
		b.Set(backup.DeltaPlace("prod", "a1b2", 2, i, 2+i).Name(), []byte("x"))
	}
	for i, revision := range []int64{1, count + 1} {
		p := backup.FullPlace("prod", "a1b2", revision, time.Date(2026, 1, 1+i, 0, 0, 0, 0, time.UTC))
		newest = p.ID()
		c, err := backup.BodyContent(nil, []byte("x")).WithHeader(backup.Header{Place: p, Last: revision, Compression: "zstd", BodySize: 1, BodySum: fmt.Sprintf("%x", sha256.Sum256([]byte("x")))})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Create(t.Context(), p.Name(), c); err != nil {
			t.Fatal(err)
		}
	}
	first := backup.DeltaPlace("prod", "a1b2", 2, 0, 2).Name()
	s := &backup.Store{Bucket: stubborn(b, map[string]error{first: backup.ErrProtected}), Cluster: "prod", Whole: new(backup.Whole)}
	s.Whole.Add(newest)
	plan, err := s.Prune(etcdtest.Context(t), cke.Retention{Last: 1}, false)
	if err != nil || len(plan.Delete) != count-2 { // the last is damaged, and kept when in doubt
		t.Fatalf("%d deleted, %v", len(plan.Delete), err)
	}
	objects, err := b.List(etcdtest.Context(t), "prod/a1b2/pruning/")
	if err != nil || len(objects) != 1 || objects[0].Size > 100 {
		t.Errorf("%+v, %v", objects, err)
	}
	if l, err := s.Lineage(etcdtest.Context(t), "a1b2"); err != nil || len(l.Streams) != 2 || l.Streams[0].Damage.Object != first { // its header, no hole
		t.Errorf("%+v, %v", l.Streams, err)
	}
}

// A single backup that is deleted leaves no damage either, whatever of its deltas has to stay.
func TestDelete_AHoleThatStaysIsNoDamage(t *testing.T) {
	f := makeFixture(t, false)
	fulls, deltas := f.objects(t)
	for n := 0; ; n++ {
		b := f.bucket.Clone()
		crash := backuptest.CrashAt(b, n)
		gone, err := f.store(t, stubborn(crash, map[string]error{deltas[0]: backup.ErrProtected})).
			Delete(etcdtest.Context(t), place(t, fulls[0]).ID(), false)
		expire(t, b)
		f.whole(t, b)
		if errors.Is(err, backuptest.ErrCrash) {
			continue
		}
		if !errors.Is(err, backup.ErrProtected) || len(gone) != 3 {
			t.Errorf("%+v, %v", gone, err)
		}
		if left := names(t, b); len(left)-len(withoutPruning(left)) != 1 {
			t.Errorf("left are %q", left)
		}
		// A prune takes the rest.
		if _, err := f.store(t, b).Prune(etcdtest.Context(t), cke.Retention{Last: 1}, false); err != nil || len(names(t, b)) != 4 {
			t.Errorf("left are %q, %v", names(t, b), err)
		}
		return
	}
}

// A target that fails on one object is told as that, also while something else is being read.
func TestLineages_TellWhatFailedFirst(t *testing.T) {
	f := makeFixture(t, false)
	_, deltas := f.objects(t)
	b := f.bucket.Clone()
	if _, err := f.store(t, stubborn(b, map[string]error{deltas[1]: backup.ErrProtected})).Prune(etcdtest.Context(t), cke.Retention{Last: 1}, false); err != nil {
		t.Fatal(err)
	}
	b.Set(backup.DeltaPlace("prod", "0000", 2, 0, 2).Name(), []byte("x")) // a lineage without fulls comes first
	refused := errors.New("403 Forbidden")
	synctest.Test(t, func(t *testing.T) {
		s := f.store(t, &backuptest.Faulty{Bucket: b, Before: func(ctx context.Context, op, name string) error {
			switch {
			case op == "open" && strings.Contains(name, "/0000/"):
				return refused
			case op == "open" && strings.Contains(name, "/pruning/"):
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(time.Minute):
				}
			}
			return nil
		}})
		if _, err := s.Lineages(t.Context()); !errors.Is(err, refused) {
			t.Error(err)
		}
	})
}
