package backup_test

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
)

// signedFixture is backups that a signer wrote, with its Signer.
func signedFixture(t *testing.T) (*fixture, *backup.Signer) {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{signer: backup.NewSigner(id)}
	f.make(t, true)
	return f, f.signer
}

// guarded is a store that knows whom to trust.
func (f *fixture) guarded(t testing.TB, b backup.Bucket, s *backup.Signer) *backup.Store {
	st := f.store(t, b)
	st.Signer, st.Trusted = s, []backup.PublicKey{s.Public()}
	return st
}

// forge adds a delta to the end of the chain, as one does who has the bucket and the public recipient and nothing else.
func forge(t *testing.T, f *fixture, b backup.Bucket, by *backup.Signer) string {
	t.Helper()
	_, deltas := f.objects(t)
	last := place(t, deltas[len(deltas)-1])
	h, err := backup.ReadHeader(etcdtest.Context(t), b, last)
	if err != nil {
		t.Fatal(err)
	}
	w, err := backup.NewDeltaWriter(h.Last+1, recipients(f.identity.Recipient()))
	if err != nil {
		t.Fatal(err)
	}
	change := backup.Change{Key: []byte("mine"), Value: []byte("cluster-admin"), CreateRevision: h.Last + 1, ModRevision: h.Last + 1, Version: 1}
	if err := w.Add([]backup.Change{change}, time.Now()); err != nil {
		t.Fatal(err)
	}
	c, fh, err := w.Seal(backup.Header{Place: backup.DeltaPlace("prod", "a1b2", last.Stream, last.Sequence+1, h.Last+1), After: h.Link(), Base: h.Base, Signer: by})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Create(t.Context(), fh.Place.Name(), c); err != nil {
		t.Fatal(err)
	}
	return fh.Place.Name()
}

// Who can write to a target and knows the public recipients makes no backup that is restored, verified or merged.
func TestExtract_RefusesWhatIsForged(t *testing.T) {
	f, signer := signedFixture(t)
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for name, by := range map[string]*backup.Signer{"not signed": nil, "signed by another key": backup.NewSigner(other)} {
		b := f.bucket.Clone()
		forged := forge(t, f, b, by)
		s := f.guarded(t, b, signer)
		ctx := etcdtest.Context(t)
		_, err := s.Extract(ctx, backup.At{Revision: f.last + 1}, filepath.Join(t.TempDir(), "x"), backup.ExtractOptions{})
		var d *backup.DamagedError
		if !errors.Is(err, backup.ErrUntrusted) || !errors.As(err, &d) || d.Object != forged || d.LastGood != f.last {
			t.Errorf("%s: extract: %v", name, err)
		}
		if _, err := s.Compact(ctx, backup.At{Revision: f.last + 1}, backup.CompactOptions{}); !errors.Is(err, backup.ErrUntrusted) {
			t.Errorf("%s: compact: %v", name, err)
		}
		for _, at := range []backup.At{{}, {Time: time.Now()}} { // the forged delta is as if it were not there, but for a note
			got, x := taketest.Extract(t, s, at)
			taketest.SameState(t, f.states[f.last], got.State(t, 0))
			if !strings.Contains(strings.Join(x.Notes, " "), forged) {
				t.Errorf("%s: %+v: notes %q", name, at, x.Notes)
			}
		}
		if r, err := s.Check(ctx, ""); err != nil || len(r.Findings) != 1 || r.Findings[0].Object != forged || r.LastGood != f.last {
			t.Errorf("%s: check: %+v, %v", name, r, err)
		}
		s.AllowUntrusted = true
		if _, err := s.Extract(ctx, backup.At{}, filepath.Join(t.TempDir(), "x"), backup.ExtractOptions{}); err != nil {
			t.Errorf("%s: a person's word: %v", name, err)
		}
	}
}

// A full that is put in the place of a signed one, and a signature that is taken off, are refused.
func TestExtract_RefusesAFullWithoutSignatureAmongSigned(t *testing.T) {
	f, signer := signedFixture(t)
	fulls, _ := f.objects(t)
	b := f.bucket.Clone()
	p := place(t, fulls[1])
	h, err := backup.ReadHeader(etcdtest.Context(t), b, p)
	if err != nil || h.Signature == nil || h.Signature.Key != signer.Public() {
		t.Fatalf("%+v, %v", h, err)
	}
	whole := b.Get(fulls[1])
	c, err := backup.BodyContent(nil, whole[int64(len(whole))-h.BodySize:]).WithHeader(h) // without a Signer
	if err != nil {
		t.Fatal(err)
	}
	b.Delete(t.Context(), fulls[1])
	if err := b.Create(t.Context(), fulls[1], c); err != nil {
		t.Fatal(err)
	}
	_, err = f.guarded(t, b, signer).Extract(etcdtest.Context(t), backup.At{Full: p.ID()}, filepath.Join(t.TempDir(), "x"), backup.ExtractOptions{})
	if !errors.Is(err, backup.ErrUntrusted) {
		t.Errorf("%v", err)
	}
}

func TestReadHeader_ASignatureCoversAllOfIt(t *testing.T) {
	f, _ := signedFixture(t)
	fulls, _ := f.objects(t)
	b := f.bucket.Clone()
	for from, to := range map[string]string{`"last":`: `"Last":`, `"key":"`: `"key": "`, `"writer":"`: `"writer":"x`} {
		whole := b.Get(fulls[0])
		head := string(whole[:4096])
		if !strings.Contains(head, from) {
			continue
		}
		p := place(t, fulls[0])
		altered := alterHead(t, whole, from, to)
		c := b.Clone()
		c.Set(fulls[0], altered)
		if _, err := backup.ReadHeader(etcdtest.Context(t), c, p); !backup.IsDamage(err) || !strings.Contains(err.Error(), "signature") {
			t.Errorf("%s: %v", from, err)
		}
	}
}

// What was written before anything was signed is read, with a note; and without a key that is trusted nothing is refused.
func TestExtract_ReadsWhatIsOlderThanSignatures(t *testing.T) {
	f := makeFixture(t, true)
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	signer := backup.NewSigner(id)
	b := f.bucket.Clone()
	s := f.guarded(t, b, signer)
	if _, x := taketest.Extract(t, s, backup.At{}); len(x.Notes) != 1 || !strings.Contains(x.Notes[0], "not signed") {
		t.Errorf("notes %q", x.Notes)
	}
	forge(t, f, b, signer) // a daemon that signs goes on with the stream
	if _, x := taketest.Extract(t, s, backup.At{}); x.Revision != f.last+1 {
		t.Errorf("%+v", x)
	}
	s = f.store(t, b)
	if _, x := taketest.Extract(t, s, backup.At{}); len(x.Notes) != 1 || !strings.Contains(x.Notes[0], string(signer.Public())) {
		t.Errorf("notes %q", x.Notes)
	}
}

// Of files that lie beside backups, forged ones count for nothing once there is one that is signed. That a newer one says something else is known.
func TestFile_OnceSignedOnlySignedOnesCount(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	b := backuptest.NewMemory()
	signer := backup.NewSigner(id)
	ours := &backup.Store{Bucket: b, Cluster: "prod", Signer: signer, Trusted: []backup.PublicKey{signer.Public()}}
	theirs := &backup.Store{Bucket: b, Cluster: "prod", Now: func() time.Time { return time.Now().Add(time.Hour) }}
	read := func(want string, trusted, newer bool) {
		t.Helper()
		got, err := ours.TrustedFile(t.Context(), "a1b2", backup.FileSpec)
		if err != nil || string(got.Data) != want || got.Trusted != trusted || (got.Newer != nil) != newer {
			t.Errorf("%q, %+v, %v; want %q, %v", got.Data, got, err, want, trusted)
		}
	}
	put := func(s *backup.Store, text string) {
		t.Helper()
		if err := s.PutFile(t.Context(), "a1b2", backup.FileSpec, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	put(theirs, "old")
	read("old", false, false)
	put(ours, "old") // the same text, signed now
	read("old", true, false)
	put(theirs, "forged")
	read("old", true, true)
	put(ours, "new") // by a clock that is behind theirs
	read("new", true, false)
}

// Fulls that somebody puts beside those that are signed push none of these out, and are not taken for the newest.
func TestPrune_ForgedFullsPushNothingOut(t *testing.T) {
	f, signer := signedFixture(t)
	ctx := etcdtest.Context(t)
	fulls, _ := f.objects(t)
	b := f.bucket.Clone()
	p := place(t, fulls[1])
	h, err := backup.ReadHeader(ctx, b, p)
	if err != nil {
		t.Fatal(err)
	}
	whole := b.Get(fulls[1])
	for i, lineage := range []string{"a1b2", "a1b2", "ffff", "ffff"} {
		forged := h
		forged.Last += int64(1000 * (i + 1))
		forged.Place = backup.FullPlace("prod", lineage, forged.Last, h.Place.Time.Add(time.Second))
		c, err := backup.BodyContent(nil, whole[int64(len(whole))-h.BodySize:]).WithHeader(forged)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Create(ctx, forged.Place.Name(), c); err != nil {
			t.Fatal(err)
		}
	}
	s := f.guarded(t, b, signer)
	if _, err := s.Prune(ctx, cke.Retention{Last: 2}, false); err != nil {
		t.Fatal(err)
	}
	for _, rev := range []int64{f.fulls[0] + 3, f.last} {
		got, x := taketest.Extract(t, s, backup.At{Lineage: "a1b2", Revision: rev})
		taketest.SameState(t, f.states[x.Revision], got.State(t, 0))
	}
}

// A merged full without a signature would be refused among those that have one, so it is not made.
func TestCompact_WhereNothingCanBeSigned(t *testing.T) {
	f, _ := signedFixture(t)
	if _, err := f.store(t, f.bucket).Compact(etcdtest.Context(t), backup.At{}, backup.CompactOptions{}); !errors.Is(err, backup.ErrUntrusted) {
		t.Error(err)
	}
}

// A record of the time before anything was signed counts.
func TestRecords_OfBeforeSignaturesCount(t *testing.T) {
	f := makeFixture(t, false)
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	ctx := etcdtest.Context(t)
	if err := f.store(t, f.bucket).MarkDiverged(ctx, "a1b2", backup.Divergence{Revision: 3, Why: "genuine"}); err != nil {
		t.Fatal(err)
	}
	if d, _, err := f.guarded(t, f.bucket, backup.NewSigner(id)).Diverged(ctx, "a1b2"); err != nil || d == nil {
		t.Errorf("%+v, %v", d, err)
	}
}

func newSigner(t *testing.T) *backup.Signer {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return backup.NewSigner(id)
}

// A full that nobody trusted signed is not unpacked beyond what there is room for.
func TestExtract_ALargeFullThatNobodySigned(t *testing.T) {
	f := makeFixture(t, false)
	ctx := etcdtest.Context(t)
	b := f.bucket.Clone()
	fulls, _ := f.objects(t)
	p := place(t, fulls[1])
	h, err := backup.ReadHeader(ctx, b, p)
	if err != nil {
		t.Fatal(err)
	}
	whole := b.Get(p.Name())
	h.Content = 1<<60 + h.Content%512
	c, err := backup.BodyContent(nil, whole[int64(len(whole))-h.BodySize:]).WithHeader(h)
	if err != nil {
		t.Fatal(err)
	}
	b.Delete(ctx, p.Name())
	if err := b.Create(ctx, p.Name(), c); err != nil {
		t.Fatal(err)
	}
	_, err = f.guarded(t, b, newSigner(t)).Extract(ctx, backup.At{Full: p.ID()}, filepath.Join(t.TempDir(), "x"), backup.ExtractOptions{})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
}

// A time at which the newest full was begun and not complete stands for what the chain before it has: the member cut the snapshot later.
func TestFind_ATimeWithinAFull(t *testing.T) {
	f := makeFixture(t, false)
	ctx := etcdtest.Context(t)
	b := f.bucket.Clone()
	fulls, _ := f.objects(t)
	p := place(t, fulls[1])
	h, err := backup.ReadHeader(ctx, b, p)
	if err != nil {
		t.Fatal(err)
	}
	s := f.store(t, b)
	l, err := s.Lineage(ctx, "a1b2")
	if err != nil {
		t.Fatal(err)
	}
	first, err := backup.ReadHeader(ctx, b, l.Streams[0].Deltas[0].Place)
	if err != nil {
		t.Fatal(err)
	}
	whole := b.Get(p.Name())
	h.Place.Time, h.Begin = first.End, first.End // it took long
	c, err := backup.BodyContent(nil, whole[int64(len(whole))-h.BodySize:]).WithHeader(h)
	if err != nil {
		t.Fatal(err)
	}
	b.Delete(ctx, p.Name())
	if err := b.Create(ctx, h.Place.Name(), c); err != nil {
		t.Fatal(err)
	}
	if found, err := s.Find(ctx, backup.At{Time: first.End.Add(time.Millisecond)}); err != nil || found.Revision != first.Last {
		t.Errorf("%+v, %v; want revision %d", found, err, first.Last)
	}
}
