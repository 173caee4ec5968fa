package backup_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
)

// Killed between any two changes to the store, prune leaves what it keeps restorable, and can be run again.
func TestPrune_CrashAtAnyStepLeavesWhatIsKept(t *testing.T) {
	f := makeFixture(t, false)
	keep := cke.Retention{Last: 1}
	want := f.bucket.Clone()
	if _, err := f.store(t, want).Prune(etcdtest.Context(t), keep, false); err != nil {
		t.Fatal(err)
	}
	if len(names(t, want)) != 4 { // the newest full and three deltas
		t.Fatalf("left are %q", names(t, want))
	}
	for n := 0; ; n++ {
		b := f.bucket.Clone()
		_, err := f.store(t, backuptest.CrashAt(b, n)).Prune(etcdtest.Context(t), keep, false)
		if err != nil && !errors.Is(err, backuptest.ErrCrash) {
			t.Fatal(err)
		}
		expire(t, b)
		for _, rev := range []int64{f.fulls[1], f.fulls[1] + 1, f.last} {
			f.extractOK(t, b, backup.At{Revision: rev})
		}
		if _, err := f.store(t, b).Prune(etcdtest.Context(t), keep, false); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(names(t, want), names(t, b)); d != "" {
			t.Fatalf("after a crash at step %d: %s", n, d)
		}
		if err == nil {
			break
		}
	}
}

func TestPrune_DryRunDeletesNothing(t *testing.T) {
	f := makeFixture(t, false)
	before := names(t, f.bucket)
	plan, err := f.store(t, f.bucket).Prune(etcdtest.Context(t), cke.Retention{Last: 1}, true)
	if err != nil || len(plan.Delete) != 4 {
		t.Fatalf("%+v, %v", plan, err)
	}
	if d := cmp.Diff(before, names(t, f.bucket)); d != "" {
		t.Error(d)
	}
}

func TestPrune_KeepsWhatWasVerified(t *testing.T) {
	f := makeFixture(t, false)
	s := f.store(t, f.bucket)
	rev := f.fulls[0] + 3
	x, err := s.Drill(etcdtest.Context(t), backup.At{Revision: rev}, nil)
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.LastVerified(etcdtest.Context(t), x.Lineage)
	if err != nil || v == nil || v.Revision != rev || v.Full != x.Full {
		t.Fatalf("mark %+v, %v", v, err)
	}
	if _, err := s.Prune(etcdtest.Context(t), cke.Retention{Last: 1}, false); err != nil {
		t.Fatal(err)
	}
	f.extractOK(t, f.bucket, backup.At{Revision: rev})
	f.extractOK(t, f.bucket, backup.At{})
	if x, err := s.Drill(etcdtest.Context(t), backup.At{}, nil); err != nil || !x.HashChecked || x.Revision != f.last {
		t.Errorf("drill of the newest: %+v, %v", x, err)
	}
}

// A chain of which the frames are sound and the data is not what etcd had is found out by the hash.
func TestDrill_DataThatIsNotWhatEtcdHadIsFoundOut(t *testing.T) {
	f := makeFixture(t, false)
	_, deltas := f.objects(t)
	p := place(t, deltas[5])
	h, err := backup.ReadHeader(etcdtest.Context(t), f.bucket, p)
	if err != nil || h.Last != f.last {
		t.Fatalf("%+v, %v", h, err)
	}
	w, err := backup.NewDeltaWriter(p.Revision, nil)
	if err != nil {
		t.Fatal(err)
	}
	for rev := p.Revision; rev <= h.Last; rev++ {
		c := backup.Change{Key: []byte("forged"), ModRevision: rev, CreateRevision: p.Revision, Version: rev - p.Revision + 1}
		if err := w.Add([]backup.Change{c}, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	c, _, err := w.Seal(backup.Header{Place: p, Hashes: []backup.Hash{f.hash}})
	if err != nil {
		t.Fatal(err)
	}
	f.bucket.Delete(t.Context(), deltas[5])
	if err := f.bucket.Create(t.Context(), deltas[5], c); err != nil {
		t.Fatal(err)
	}
	if _, err := f.store(t, f.bucket).Drill(etcdtest.Context(t), backup.At{}, nil); !backup.IsDamage(err) {
		t.Errorf("drill: %v", err)
	}
}

// Requirement D3: copied, checked, and gone on with.
func TestCopy_CrashAtAnyStepCanBeGoneOnWith(t *testing.T) {
	f := makeFixture(t, true)
	for n := 0; ; n++ {
		dst := backuptest.NewMemory()
		_, err := f.store(t, f.bucket).Copy(etcdtest.Context(t), backuptest.CrashAt(dst, n), backup.CopyFilter{})
		if err != nil && !errors.Is(err, backuptest.ErrCrash) {
			t.Fatal(err)
		}
		again, err2 := f.store(t, f.bucket).Copy(etcdtest.Context(t), dst, backup.CopyFilter{})
		if err2 != nil {
			t.Fatal(err2)
		}
		if d := cmp.Diff(names(t, f.bucket), names(t, dst)); d != "" {
			t.Fatal(d)
		}
		if int(again.Objects+again.Present) != len(names(t, dst)) {
			t.Errorf("counted %+v", again)
		}
		if err == nil {
			if again.Objects != 0 {
				t.Errorf("copied again: %+v", again)
			}
			f.extractOK(t, dst, backup.At{})
			break
		}
	}
}

// A new management host learns from a copy who the members are, also from one that was broken off: no backup is there before the identities, no
// identity is trusted before its cluster file, and no signature is there without its file.
func TestCopy_KnowsTheMembersOfEveryIncarnationBeforeItHasBackups(t *testing.T) {
	f, signer := signedFixture(t)
	ctx := etcdtest.Context(t)
	src := f.guarded(t, f.bucket.Clone(), signer)
	for _, lineage := range []string{"a1b2", "c3d4"} {
		for _, kind := range []backup.FileKind{backup.FileIdentity, backup.FileSpec, "verified"} {
			if err := src.PutFile(ctx, lineage, kind, []byte(lineage)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for n, err := 0, backuptest.ErrCrash; err != nil; n++ {
		dst := backuptest.NewMemory()
		_, err = src.Copy(ctx, backuptest.CrashAt(dst, n), backup.CopyFilter{})
		copied := names(t, dst)
		backups := slices.ContainsFunc(copied, func(name string) bool { _, is := backup.ParsePlace(name); return is })
		for _, lineage := range []string{"a1b2", "c3d4"} {
			read := f.guarded(t, dst, signer)
			id, missing := read.TrustedFile(ctx, lineage, backup.FileIdentity)
			spec, without := read.TrustedFile(ctx, lineage, backup.FileSpec)
			if backups && (missing != nil || !id.Trusted) || id.Trusted && (without != nil || !spec.Trusted) {
				t.Errorf("step %d: the members of %s: %v; its cluster file: %v; %q", n, lineage, missing, without, copied)
			}
		}
		for _, name := range copied {
			kind, of, _ := strings.Cut(path.Base(name), "-")
			if file := path.Join(path.Dir(path.Dir(name)), kind, of); path.Base(path.Dir(name)) == "signatures" && !slices.Contains(copied, file) {
				t.Errorf("step %d: a signature without its file: %s", n, name)
			}
		}
	}
}

// All that is sound is copied, nothing is overwritten, and what is wrong is named, on the side where it is.
func TestCopy_CopiesAllThatIsSound(t *testing.T) {
	f := makeFixture(t, false)
	fulls, deltas := f.objects(t)
	cut := func(b []byte, n int) []byte { return b[:len(b)-n] }
	for name, tc := range map[string]struct {
		here, there map[string][]byte
		object      string
		side        bool // what is wrong lies there
		damage      bool
		words       string
	}{
		"delta altered":         {here: map[string][]byte{deltas[2]: flip(f.bucket.Get(deltas[2]), len(f.bucket.Get(deltas[2]))-5)}, object: deltas[2], damage: true, words: "digest"},
		"delta cut":             {here: map[string][]byte{deltas[2]: cut(f.bucket.Get(deltas[2]), 10)}, object: deltas[2], damage: true, words: "truncated"},
		"header altered":        {here: map[string][]byte{deltas[4]: flip(f.bucket.Get(deltas[4]), 30)}, object: deltas[4], damage: true, words: "header"},
		"full altered":          {here: map[string][]byte{fulls[0]: flip(f.bucket.Get(fulls[0]), len(f.bucket.Get(fulls[0]))-5)}, object: fulls[0], damage: true, words: "digest"},
		"cut there":             {there: map[string][]byte{fulls[1]: cut(f.bucket.Get(fulls[1]), 100)}, object: fulls[1], side: true, damage: true, words: "bytes instead of"},
		"cut there in its head": {there: map[string][]byte{fulls[1]: f.bucket.Get(fulls[1])[:50]}, object: fulls[1], side: true, damage: true, words: "truncated"},
		"altered there":         {there: map[string][]byte{deltas[1]: flip(f.bucket.Get(deltas[1]), len(f.bucket.Get(deltas[1]))-5)}, object: deltas[1], side: true, damage: true, words: "altered"},
		"longer there":          {there: map[string][]byte{deltas[1]: append(f.bucket.Get(deltas[1]), 0)}, object: deltas[1], side: true, damage: true, words: "bytes instead of"},
		"another there":         {there: map[string][]byte{deltas[0]: []byte("something else")}, object: deltas[0], side: true, words: backup.ErrExists.Error()},
	} {
		src, dst := f.bucket.Clone(), backuptest.NewMemory()
		for n, data := range tc.here {
			src.Set(n, data)
		}
		for n, data := range tc.there {
			dst.Set(n, data)
		}
		c, err := f.store(t, src).Copy(etcdtest.Context(t), dst, backup.CopyFilter{})
		if backup.IsDamage(err) != tc.damage || errors.Is(err, backup.ErrExists) == tc.damage {
			t.Errorf("%s: %v", name, err)
		}
		if len(c.Problems) != 1 || c.Problems[0].Object != tc.object || c.Problems[0].There != tc.side || !strings.Contains(c.Problems[0].Problem, tc.words) {
			t.Errorf("%s: %+v", name, c)
		}
		if c.Objects != 7 {
			t.Errorf("%s: %d objects were copied, not all the others", name, c.Objects)
		}
		if was := tc.there[tc.object]; !bytes.Equal(dst.Get(tc.object), was) {
			t.Errorf("%s: it was written", name)
		}
		if !tc.side && strings.Contains(tc.object, "/delta/") { // the whole prefix of the chain can be restored from the copy
			f.extractOK(t, dst, backup.At{Revision: place(t, tc.object).Revision - 1})
		}
	}
}

// Requirements D2, D16: full and deltas merged offline, without a change of what they hold.
func TestCompact_IsTheSameStateInOneFull(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		f := makeFixture(t, encrypted)
		for n := 0; ; n++ {
			b := f.bucket.Clone()
			p, err := f.store(t, backuptest.CrashAt(b, n)).Compact(etcdtest.Context(t), backup.At{}, backup.CompactOptions{})
			expire(t, b)
			f.extractOK(t, b, backup.At{})
			if errors.Is(err, backuptest.ErrCrash) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if h, err := backup.ReadHeader(etcdtest.Context(t), b, p); err != nil || !strings.HasPrefix(h.EtcdVersion, "3.") {
				t.Errorf("its header: %+v, %v", h, err)
			}
			x := f.extractOK(t, b, backup.At{})
			if x.Deltas != 0 || x.Revision != f.last || !x.HashChecked || x.Full != p.ID() {
				t.Errorf("after compacting: %+v", x)
			}
			before := len(names(t, b))
			if again, err := f.store(t, b).Compact(etcdtest.Context(t), backup.At{}, backup.CompactOptions{}); err != nil || again != p {
				t.Errorf("again: %v, %v", again, err)
			}
			if len(names(t, b)) != before {
				t.Error("compacting again wrote something")
			}
			break
		}
	}
}

func TestDelete_OnlyFullIsRefused(t *testing.T) {
	f := makeFixture(t, false)
	s := f.store(t, f.bucket)
	l, err := s.Lineage(etcdtest.Context(t), "a1b2")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delete(etcdtest.Context(t), l.Fulls[0].ID(), false); err != nil {
		t.Fatal(err)
	}
	f.extractOK(t, f.bucket, backup.At{})
	f.extractOK(t, f.bucket, backup.At{Revision: f.fulls[1]})
	if _, err := s.Delete(etcdtest.Context(t), l.Fulls[1].ID(), false); err == nil {
		t.Fatal("the only full was deleted")
	}
	f.extractOK(t, f.bucket, backup.At{})
	if _, err := s.Delete(etcdtest.Context(t), l.Fulls[1].ID(), true); err != nil || len(names(t, f.bucket)) != 0 {
		t.Errorf("%v, left %q", err, names(t, f.bucket))
	}
}

// A full that is damaged, or that a drill found wrong, cannot take the place of the one that restores go back to.
func TestDelete_TheLastFullThatIsWhole(t *testing.T) {
	for name, spoil := range map[string]func(data []byte) []byte{
		"cut short":        func(data []byte) []byte { return data[:len(data)-100] },
		"header is broken": func(data []byte) []byte { return flip(data, 12) },
	} {
		f := makeFixture(t, false)
		s := f.store(t, f.bucket)
		ctx := etcdtest.Context(t)
		l, err := s.Lineage(ctx, "a1b2")
		if err != nil {
			t.Fatal(err)
		}
		whole, other := l.Fulls[0], l.Fulls[1]
		f.bucket.Set(other.Name(), spoil(bytes.Clone(f.bucket.Get(other.Name()))))
		before := names(t, f.bucket)
		if _, err := s.Delete(ctx, whole.ID(), false); !errors.Is(err, backup.ErrOnlyFull) {
			t.Errorf("%s: %v", name, err)
		}
		if left := names(t, f.bucket); !slices.Equal(left, before) {
			t.Errorf("%s: left %q of %q", name, left, before)
		}
	}
}

func TestFiles_AreStoredOnceAndFoundAgain(t *testing.T) {
	b := backuptest.NewMemory()
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	s := &backup.Store{Bucket: b, Cluster: "prod", Now: func() time.Time { return now }}
	if _, err := s.File(t.Context(), "l1", backup.FileSpec); !errors.Is(err, backup.ErrNotFound) {
		t.Fatal(err)
	}
	for i, text := range []string{"a", "a", "b", "a"} {
		now = now.Add(time.Minute)
		if err := s.PutFile(t.Context(), "l1", backup.FileSpec, []byte(text)); err != nil {
			t.Fatal(err)
		}
		got, err := s.File(t.Context(), "l1", backup.FileSpec)
		if err != nil || string(got) != text {
			t.Errorf("%d: %q, %v", i, got, err)
		}
	}
	list := names(t, b)
	if len(list) != 3 {
		t.Errorf("%q", list)
	}
	b.Set(list[2], []byte("altered")) // the one before it is read
	if got, err := s.TrustedFile(t.Context(), "l1", backup.FileSpec); err != nil || string(got.Data) != "b" || !backup.IsDamage(got.Newer) || !strings.Contains(got.Newer.Error(), list[2]) {
		t.Errorf("altered file: %+v, %v", got, err)
	}
	b.Set(list[0], nil)
	b.Set(list[1], nil)
	if _, err := s.File(t.Context(), "l1", backup.FileSpec); !backup.IsDamage(err) {
		t.Errorf("altered files: %v", err)
	}
}

func TestExtract_ByTime(t *testing.T) {
	f := makeFixture(t, false)
	s := f.store(t, f.bucket)
	l, err := s.Lineage(etcdtest.Context(t), "a1b2")
	if err != nil {
		t.Fatal(err)
	}
	at := func(when time.Time) (backup.Extracted, error) {
		return s.Extract(etcdtest.Context(t), backup.At{Time: when}, filepath.Join(t.TempDir(), "out"), backup.ExtractOptions{})
	}
	if _, err := at(l.Fulls[0].Time.Add(-time.Second)); !errors.Is(err, backup.ErrNotCovered) {
		t.Errorf("before the first full: %v", err)
	}
	if _, err := at(time.Now().Add(time.Hour)); !errors.Is(err, backup.ErrNotCovered) || !strings.Contains(err.Error(), "in the future") {
		t.Errorf("in the future: %v", err)
	}
	// Nothing has changed since the last delta: the newest state still holds, and it is said what is known of it.
	if x, err := at(time.Now()); err != nil || x.Revision != f.last || len(x.Notes) != 1 || !strings.Contains(x.Notes[0], fmt.Sprintf("revision %d was received", f.last)) {
		t.Errorf("now: %+v, %v", x, err)
	}
	for _, st := range l.Streams {
		for i, d := range st.Deltas {
			h, err := backup.ReadHeader(etcdtest.Context(t), f.bucket, d.Place)
			if err != nil {
				t.Fatal(err)
			}
			x, err := at(h.End)
			if err != nil || x.Revision != h.Last {
				t.Errorf("delta %d: revision %d, want %d: %v", i, x.Revision, h.Last, err)
			}
		}
	}
}

// What is missing after the last good revision may have changed before the time that was asked for.
func TestExtract_ByTimeAfterDamageIsRefused(t *testing.T) {
	f := makeFixture(t, false)
	_, deltas := f.objects(t)
	b := f.bucket.Clone()
	b.Set(deltas[5], b.Get(deltas[5])[:50])
	_, err := f.store(t, b).Extract(etcdtest.Context(t), backup.At{Time: time.Now()}, filepath.Join(t.TempDir(), "out"), backup.ExtractOptions{})
	if !backup.IsDamage(err) {
		t.Errorf("got %v", err)
	}
}

func TestExtract_TellsALocalFileThatCannotBeWrittenFromTheStore(t *testing.T) {
	f := makeFixture(t, false)
	out := filepath.Join(t.TempDir(), "missing", "out")
	_, err := f.store(t, f.bucket).Extract(etcdtest.Context(t), backup.At{}, out, backup.ExtractOptions{})
	var here *backup.LocalError
	if !errors.As(err, &here) || here.Path != out || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
