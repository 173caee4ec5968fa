package backup_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

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
