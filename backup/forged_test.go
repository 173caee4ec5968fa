package backup_test

import (
	"crypto/sha256"
	"errors"
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
)

// Who can write to a target stops no backups and no prunes, and proves no drill, with records that nobody signed.
func TestRecords_ThatAreForgedDecideNothing(t *testing.T) {
	f, signer := signedFixture(t)
	ctx := etcdtest.Context(t)
	b := f.bucket.Clone()
	s := f.guarded(t, b, signer)
	theirs := f.store(t, b)
	theirs.Identities = nil
	later := time.Now().Add(time.Hour)
	theirs.Now = func() time.Time { return later }
	if err := theirs.MarkDiverged(ctx, "a1b2", backup.Divergence{Revision: f.last, Why: "forged"}); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []backup.FileKind{"failed", "verified"} {
		if err := theirs.PutFile(ctx, "a1b2", kind, []byte(`{"revision":7,"problem":"forged"}`)); err != nil {
			t.Fatal(err)
		}
	}
	if d, _, err := s.Diverged(ctx, "a1b2"); err != nil || d != nil {
		t.Errorf("diverged: %+v, %v", d, err)
	}
	if v, err := s.LastVerified(ctx, "a1b2"); err != nil || v != nil {
		t.Errorf("verified: %+v, %v", v, err)
	}
	plan, err := s.Prune(ctx, cke.Retention{Last: 1}, true)
	if err != nil || len(plan.Delete) == 0 {
		t.Errorf("a forged record of a failed drill holds prunes up: %+v, %v", plan, err)
	}
	if d, _, err := theirs.Diverged(ctx, "a1b2"); err != nil || d == nil {
		t.Errorf("where nobody is trusted records count: %+v, %v", d, err)
	}
	// What is signed counts, whatever lies beside it.
	if err := s.MarkDiverged(ctx, "a1b2", backup.Divergence{Revision: f.last, Why: "genuine"}); err != nil {
		t.Fatal(err)
	}
	if d, _, err := s.Diverged(ctx, "a1b2"); err != nil || d == nil || d.Why != "genuine" {
		t.Errorf("diverged: %+v, %v", d, err)
	}
}

// A host that knows nothing of the cluster chooses among lineages that have a trusted signature: names, times and origins can be made.
func TestFind_ForgedLineagesAreLeftOut(t *testing.T) {
	f, signer := signedFixture(t)
	ctx := etcdtest.Context(t)
	fulls, _ := f.objects(t)
	p := place(t, fulls[1])
	h, err := backup.ReadHeader(ctx, f.bucket, p)
	if err != nil {
		t.Fatal(err)
	}
	whole := f.bucket.Get(fulls[1])
	for name, c := range map[string]struct {
		lineage string
		after   time.Duration
		origin  *backup.Origin
	}{
		"newer by its name":                  {"ffff", time.Hour, nil},
		"in the place of the genuine one":    {"0000", -24 * time.Hour, &backup.Origin{Replaces: "a1b2"}},
		"a full added to the genuine one":    {"a1b2", time.Hour, &backup.Origin{Replaces: "a1b2"}},
		"newer, and in the place of another": {"ffff", time.Hour, &backup.Origin{Lineage: "a1b2", Replaces: "a1b2"}},
	} {
		b := f.bucket.Clone()
		for _, lineage := range []string{c.lineage, "eeee"} {
			forged := h
			forged.Last, forged.Origin = h.Last+1000, c.origin
			forged.Place = backup.FullPlace("prod", lineage, forged.Last, h.Place.Time.Add(c.after))
			content, err := backup.BodyContent(nil, whole[int64(len(whole))-h.BodySize:]).WithHeader(forged)
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Create(ctx, forged.Place.Name(), content); err != nil {
				t.Fatal(err)
			}
		}
		s := f.guarded(t, b, signer)
		l, notes, err := s.Present(ctx)
		if err != nil || l.Name != "a1b2" || len(notes) != 1 || !strings.Contains(notes[0], "left out") || !strings.Contains(notes[0], "eeee") {
			t.Errorf("%s: %s, %q, %v", name, l.Name, notes, err)
		}
		s.AllowUntrusted = true
		if _, _, err := s.Present(ctx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The name of a delta that somebody puts after a genuine one does not say how far that one goes: what the newest full needs is not deleted.
func TestPrune_AForgedNameTakesNoDeltaThatIsNeeded(t *testing.T) {
	f, signer := signedFixture(t)
	ctx := etcdtest.Context(t)
	b := f.bucket.Clone()
	fulls, deltas := f.objects(t)
	last := place(t, deltas[len(deltas)-1])
	s := f.guarded(t, b, signer)
	merged, err := s.Compact(ctx, backup.At{Revision: last.Revision + 2}, backup.CompactOptions{}) // within the last delta
	if err != nil {
		t.Fatal(err)
	}
	b.Set(backup.DeltaPlace("prod", "a1b2", last.Stream, last.Sequence+1, last.Revision+1).Name(), []byte("garbage"))
	plan, err := s.Prune(ctx, cke.Retention{Last: 1}, true)
	if err != nil || slices.ContainsFunc(plan.Delete, func(r backup.Removal) bool { return r.Name == last.Name() }) {
		t.Errorf("a prune: %+v, %v", plan.Delete, err)
	}
	if len(plan.Delete) == 0 {
		t.Errorf("nothing is pruned beside full %s", merged.ID())
	}
	gone, err := s.PlanDelete(ctx, place(t, fulls[0]).ID(), true)
	if err != nil || slices.ContainsFunc(gone, func(r backup.Removal) bool { return r.Name == last.Name() }) {
		t.Errorf("a deletion: %+v, %v", gone, err)
	}
}

// What is forged says nothing of the genuine objects that its links name.
func TestExtract_ForgedLinksBlameNobody(t *testing.T) {
	f, signer := signedFixture(t)
	ctx := etcdtest.Context(t)
	b := f.bucket.Clone()
	_, deltas := f.objects(t)
	last := place(t, deltas[len(deltas)-1])
	w, err := backup.NewDeltaWriter(f.last+1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add([]backup.Change{{Key: []byte("mine"), CreateRevision: f.last + 1, ModRevision: f.last + 1, Version: 1}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	c, forged, err := w.Seal(backup.Header{Place: backup.DeltaPlace("prod", "a1b2", last.Stream, last.Sequence+1, f.last+1),
		After: &backup.Link{Object: last.Name(), Sum: strings.Repeat("0", 64)}})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Create(ctx, forged.Place.Name(), c); err != nil {
		t.Fatal(err)
	}
	s := f.guarded(t, b, signer)
	f.extractOK(t, b, backup.At{Revision: f.last})
	_, err = s.Extract(ctx, backup.At{Revision: f.last + 1}, filepath.Join(t.TempDir(), "x"), backup.ExtractOptions{})
	var d *backup.DamagedError
	if !errors.As(err, &d) || d.Object != forged.Place.Name() || d.LastGood != f.last || !errors.Is(err, backup.ErrUntrusted) {
		t.Errorf("extract: %v", err)
	}
	if r, err := s.Check(ctx, ""); err != nil || len(r.Findings) != 1 || r.Findings[0].Object != forged.Place.Name() || r.LastGood != f.last {
		t.Errorf("check: %+v, %v", r, err)
	}
}

// A forged name beside the cluster file neither keeps a newer one from being read, nor is it signed.
func TestPutFile_BesideForgedNames(t *testing.T) {
	b, signer := backuptest.NewMemory(), newSigner(t)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := &backup.Store{Bucket: b, Cluster: "prod", Signer: signer, Trusted: []backup.PublicKey{signer.Public()}, Now: func() time.Time { return now }}
	put := func(text string) {
		t.Helper()
		now = now.Add(time.Minute)
		if err := s.PutFile(t.Context(), "a1b2", backup.FileSpec, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := s.TrustedFile(t.Context(), "a1b2", backup.FileSpec); err != nil || !got.Trusted || string(got.Data) != text || got.Newer != nil {
			t.Fatalf("%q, %+v, %v; want %q", got.Data, got, err, text)
		}
	}
	forge := func(at, text, bytes string) {
		b.Set(fmt.Sprintf("prod/a1b2/spec/%s-%x", at, sha256.Sum256([]byte(text))), []byte(bytes))
	}
	put("one")
	for _, at := range []string{"20260102T030530.000Z", "20270101T000000.000Z", "99991231T235959.999Z"} {
		forge(at, "two", "something else") // the digest of what comes next, and other bytes
	}
	put("two")
	put("two")
	put("three")
	if n := len(names(t, b)); n != 3*2+3 {
		t.Errorf("%d objects: %q", n, names(t, b))
	}
	// Where nobody is trusted, names of the far future still count for nothing.
	anyone := &backup.Store{Bucket: b, Cluster: "prod", Now: s.Now}
	if err := anyone.PutFile(t.Context(), "a1b2", backup.FileSpec, []byte("four")); err != nil {
		t.Fatal(err)
	}
	if got, err := anyone.File(t.Context(), "a1b2", backup.FileSpec); err != nil || string(got) != "four" {
		t.Errorf("%q, %v", got, err)
	}
}

// What somebody puts under the name that a merge is about to use is not taken for an earlier merge.
func TestCompact_BesideAForgedFullOfItsName(t *testing.T) {
	f, signer := signedFixture(t)
	ctx := etcdtest.Context(t)
	b := f.bucket.Clone()
	p, err := f.guarded(t, b, signer).Compact(ctx, backup.At{}, backup.CompactOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b = f.bucket.Clone()
	b.Set(p.Name(), []byte("garbage"))
	s := f.guarded(t, b, signer)
	for range 2 {
		q, err := s.Compact(ctx, backup.At{Revision: f.last}, backup.CompactOptions{})
		if err != nil || q == p {
			t.Fatalf("%s, %v", q.ID(), err)
		}
		if h, err := backup.ReadHeader(ctx, b, q); err != nil || !h.Merged || h.Last != f.last {
			t.Errorf("%+v, %v", h, err)
		}
	}
}

// An unsigned record of what was pruned explains no hole among signed deltas.
func TestLineages_AForgedRecordOfPruningExplainsNothing(t *testing.T) {
	f, signer := signedFixture(t)
	ctx := etcdtest.Context(t)
	b := f.bucket.Clone()
	_, deltas := f.objects(t)
	p := place(t, deltas[len(deltas)-2])
	if err := b.Delete(ctx, p.Name()); err != nil {
		t.Fatal(err)
	}
	theirs := f.store(t, b)
	told := fmt.Sprintf(`[{"stream":%d,"from":%d,"to":%d}]`, p.Stream, p.Sequence, p.Sequence)
	if err := theirs.PutFile(ctx, "a1b2", "pruning", []byte(told)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.guarded(t, b, signer).Find(ctx, backup.At{}); !backup.IsDamage(err) {
		t.Errorf("%v", err)
	}
	if err := f.guarded(t, b, signer).PutFile(ctx, "a1b2", "pruning", []byte(told)); err != nil {
		t.Fatal(err)
	}
	if l, err := f.guarded(t, b, signer).Lineage(ctx, "a1b2"); err != nil || l.Streams[0].Damage != nil {
		t.Errorf("%+v, %v", l.Streams[0].Damage, err)
	}
}

// A mark that is none, or names genuine fulls as wrong, stops no prune and makes no full count for nothing.
func TestPrune_ForgedMarksDecideNothing(t *testing.T) {
	f, signer := signedFixture(t)
	ctx := etcdtest.Context(t)
	b := f.bucket.Clone()
	s := f.guarded(t, b, signer)
	b.Set(fmt.Sprintf("prod/zzz/verified/20260101T000000.000Z-%x", sha256.Sum256([]byte("no json"))), []byte("no json"))
	if _, err := s.LastVerified(ctx, "zzz"); !backup.IsDamage(err) {
		t.Errorf("%v", err)
	}
	if plan, err := s.Prune(ctx, cke.Retention{Last: 1}, false); err != nil || len(plan.Delete) == 0 {
		t.Errorf("%+v, %v", plan, err)
	}
	old := makeFixture(t, false) // of before signatures
	fulls, _ := old.objects(t)
	b = old.bucket.Clone()
	mark := fmt.Sprintf(`{"revision":7,"wrong":[%q]}`, place(t, fulls[0]).ID())
	if err := old.store(t, b).PutFile(ctx, "a1b2", "verified", []byte(mark)); err != nil {
		t.Fatal(err)
	}
	if v, err := old.guarded(t, b, signer).LastVerified(ctx, "a1b2"); err != nil || v.Revision != 7 || v.Wrong != nil {
		t.Errorf("%+v, %v", v, err)
	}
}

// The record of what was pruned stays that is signed, not one that lies beside it.
func TestPrune_AForgedRecordTakesNoPlace(t *testing.T) {
	f, signer := signedFixture(t)
	ctx := etcdtest.Context(t)
	_, deltas := f.objects(t)
	b := f.bucket.Clone()
	theirs := f.store(t, b)
	theirs.Now = func() time.Time { return time.Now().AddDate(1, 0, 0) }
	s := f.guarded(t, stubborn(b, map[string]error{deltas[1]: backup.ErrProtected}), signer)
	for range 2 {
		if err := theirs.PutFile(ctx, "a1b2", "pruning", []byte("[]")); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Prune(ctx, cke.Retention{Last: 1}, false); err != nil {
			t.Fatal(err)
		}
		if r, err := s.Check(ctx, ""); err != nil || len(r.Findings) > 0 {
			t.Fatalf("%+v, %v", r, err)
		}
	}
}
