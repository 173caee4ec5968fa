package backup_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"cke/backup"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
)

// foundWrong makes the second full wrong, with no hash of its own revision that would show it, and has a drill of the newest state find that.
func foundWrong(t *testing.T, f *fixture) (id string) {
	t.Helper()
	name := makeWrong(t, f)
	rehead(t, f.bucket, name, func(h *backup.Header) { h.Hashes = nil })
	h, err := backup.ReadHeader(etcdtest.Context(t), f.bucket, place(t, name))
	if err != nil {
		t.Fatal(err)
	}
	_, deltas := f.objects(t)
	for i, d := range deltas {
		rehead(t, f.bucket, d, func(x *backup.Header) {
			x.After, x.Hashes = nil, nil
			if x.Base != nil && x.Base.Object == name {
				x.Base = h.Link()
			}
			if i == len(deltas)-1 {
				x.Hashes = []backup.Hash{f.hash}
			}
		})
	}
	x, err := f.store(t, f.bucket).Drill(etcdtest.Context(t), backup.At{}, nil)
	if err != nil || !strings.Contains(x.PassedOver(), place(t, name).ID()) {
		t.Fatalf("a drill does not find it wrong: %+v, %v", x, err)
	}
	return place(t, name).ID()
}

// No hash of a revision before the one that a drill compared with shows that the full is wrong. The drill has recorded it.
func TestExtract_PassesOverAFullThatADrillFoundWrong(t *testing.T) {
	f := makeFixture(t, false)
	ctx := etcdtest.Context(t)
	wrong := foundWrong(t, f)
	for _, at := range []backup.At{{Revision: f.fulls[1]}, {Revision: f.fulls[1] + 1}} {
		if x := f.extractOK(t, f.bucket, at); x.Full == wrong || len(x.Notes) != 1 || !strings.Contains(x.Notes[0], wrong) {
			t.Errorf("%+v: from %s, notes %q", at, x.Full, x.Notes)
		}
		found, err := f.store(t, f.bucket).Find(ctx, at)
		if err != nil || len(found.Notes) != 1 || !strings.Contains(found.Notes[0], wrong) {
			t.Errorf("%+v: found %+v, %v", at, found, err)
		}
	}
	if x := f.extractOK(t, f.bucket, backup.At{Revision: f.fulls[1] - 1}); len(x.Notes) != 0 {
		t.Errorf("before the full: notes %q", x.Notes)
	}
}

// Where nothing else leads to the state it is refused, as any other damage, unless the operator names the full or accepts what the hash says.
func TestExtract_RefusesAFullThatADrillFoundWrong(t *testing.T) {
	f := makeFixture(t, false)
	ctx := etcdtest.Context(t)
	wrong := foundWrong(t, f)
	_, deltas := f.objects(t)
	f.bucket.Delete(ctx, deltas[2]) // the way from the first full
	at := backup.At{Revision: f.fulls[1]}
	s := f.store(t, f.bucket)
	extract := func(at backup.At, o backup.ExtractOptions) (backup.Extracted, error) {
		o.CheckHash = true
		return s.Extract(ctx, at, filepath.Join(t.TempDir(), "out"), o)
	}
	good := place(t, deltas[2]).Revision - 1
	_, err := extract(at, backup.ExtractOptions{})
	_, findErr := s.Find(ctx, at)
	for what, err := range map[string]error{"extract": err, "find": findErr} {
		var d *backup.DamagedError
		if !errors.As(err, &d) || d.Object != "prod/"+strings.Replace(wrong, "/", "/full/", 1)+".cke" || d.LastGood != good || !strings.Contains(err.Error(), "--ignore-hash") {
			t.Errorf("%s: %v, want damage with the last good revision %d", what, err, good)
		}
	}
	if x, err := extract(at, backup.ExtractOptions{AllowPartial: true}); err != nil || x.Revision != good || x.Damage == nil {
		t.Errorf("with AllowPartial: %+v, %v", x, err)
	}
	for what, x := range map[string]func() (backup.Extracted, error){
		"with IgnoreHash": func() (backup.Extracted, error) { return extract(at, backup.ExtractOptions{IgnoreHash: true}) },
		"by its name":     func() (backup.Extracted, error) { return extract(backup.At{Full: wrong}, backup.ExtractOptions{}) },
		"as a drill": func() (backup.Extracted, error) {
			return s.Drill(ctx, at, func(context.Context, string, backup.Extracted) (string, error) { return "", nil })
		},
	} {
		if x, err := x(); err != nil || x.Full != wrong || what != "as a drill" && !strings.Contains(strings.Join(x.Notes, "; "), "a restore drill found") {
			t.Errorf("%s: from %s, notes %q, %v", what, x.Full, x.Notes, err)
		}
	}
	if found, err := s.FindFor(ctx, at, backup.ExtractOptions{IgnoreHash: true}); err != nil || found.Revision != at.Revision {
		t.Errorf("find with IgnoreHash: %+v, %v", found, err)
	}
}

// A merged full would be a new one that no mark calls wrong.
func TestCompact_DoesNotMergeAFullThatADrillFoundWrong(t *testing.T) {
	f := makeFixture(t, false)
	ctx := etcdtest.Context(t)
	wrong := foundWrong(t, f)
	at := backup.At{Revision: f.fulls[1] + 1}
	p, err := f.store(t, f.bucket).Compact(ctx, at, backup.CompactOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if p.ID() == wrong {
		t.Fatal("nothing was merged")
	}
	f.extractOK(t, f.bucket, backup.At{Full: p.ID()})
	_, deltas := f.objects(t)
	f.bucket.Delete(ctx, deltas[2])
	f.bucket.Delete(ctx, p.Name())
	if p, err := f.store(t, f.bucket).Compact(ctx, at, backup.CompactOptions{}); !backup.IsDamage(err) {
		t.Errorf("merged %s: %v", p.ID(), err)
	}
}

// wrongAlike makes the newest full wrong, with a hash that is equal to its data: the member that gave both had gone wrong. Only the newest delta has
// another hash, which is right.
func wrongAlike(t *testing.T, f *fixture) (wrong string) {
	t.Helper()
	ctx := etcdtest.Context(t)
	fulls, deltas := f.objects(t)
	name := wrongContent(t, f, fulls[1])
	out := filepath.Join(t.TempDir(), "wrong")
	if _, err := f.store(t, f.bucket).Extract(ctx, backup.At{Full: place(t, name).ID()}, out, backup.ExtractOptions{}); err != nil {
		t.Fatal(err)
	}
	rehead(t, f.bucket, name, func(h *backup.Header) {
		if len(h.Hashes) != 1 {
			t.Fatal(h.Hashes)
		}
		got, err := backup.HashSnapshot(ctx, out, h.Hashes[0].Revision, h.Hashes[0].Compacted)
		if err != nil || got == h.Hashes[0] {
			t.Fatal(got, err)
		}
		h.Hashes[0] = got
	})
	for _, d := range deltas {
		rehead(t, f.bucket, d, func(h *backup.Header) {
			if h.After, h.Base = nil, nil; h.Last != f.last {
				h.Hashes = nil
			}
		})
	}
	return place(t, name).ID()
}

// A drill found the newest full wrong. Its hash is of the same member, and does not count against the sound full before it.
func TestExtract_AHashOfAFullThatWasFoundWrongDoesNotCount(t *testing.T) {
	f := makeFixture(t, false)
	wrong := wrongAlike(t, f)
	s := f.store(t, f.bucket)
	x, err := s.Drill(etcdtest.Context(t), backup.At{}, nil)
	if err != nil || x.Full == wrong || !x.HashChecked {
		t.Fatalf("drill from %s: %v", x.Full, err)
	}
	for _, revision := range []int64{f.fulls[1], f.fulls[1] + 1, f.last - 1} {
		x, err := f.compared(t, backup.At{Revision: revision})
		if err != nil || x.Full == wrong {
			t.Errorf("revision %d: from %s, %v", revision, x.Full, err)
		}
	}
}

// A drill found the newest full wrong, and the other one leads to data that differs from a hash. What may be accepted is that data: the full that was found
// wrong is restored only if nothing else leads there.
func TestExtract_IgnoreHashPrefersAFullThatWasNotFoundWrong(t *testing.T) {
	f := makeFixture(t, false)
	wrong := wrongAlike(t, f)
	s := f.store(t, f.bucket)
	if x, err := s.Drill(etcdtest.Context(t), backup.At{}, nil); err != nil || x.Full == wrong {
		t.Fatalf("drill from %s: %v", x.Full, err)
	}
	fulls, deltas := f.objects(t)
	rehead(t, f.bucket, deltas[2], func(h *backup.Header) { h.Hashes = []backup.Hash{{Revision: f.fulls[1], Compacted: -1, Hash: 7}} })
	at := backup.At{Revision: f.fulls[1]}
	if x, err := f.compared(t, at); !errors.Is(err, backup.ErrHash) {
		t.Errorf("from %s: %v", x.Full, err)
	}
	accepted := func() (string, backup.Extracted) {
		t.Helper()
		out := filepath.Join(t.TempDir(), "out")
		x, err := s.Extract(etcdtest.Context(t), at, out, backup.ExtractOptions{CheckHash: true, IgnoreHash: true})
		if err != nil {
			t.Fatal(err)
		}
		return out, x
	}
	out, x := accepted()
	if x.Full != place(t, fulls[0]).ID() || !x.HashIgnored || len(x.Notes) != 2 || !strings.Contains(x.Notes[1], wrong) {
		t.Errorf("from %s, notes %q", x.Full, x.Notes)
	}
	taketest.SameState(t, f.states[x.Revision], etcdtest.Open(t, out).State(t, 0))
	f.bucket.Set(fulls[0], flip(f.bucket.Get(fulls[0]), len(f.bucket.Get(fulls[0]))-10))
	if _, x := accepted(); x.Full != wrong || !strings.Contains(strings.Join(x.Notes, "; "), "this was accepted") {
		t.Errorf("nothing else leads there: from %s, notes %q", x.Full, x.Notes)
	}
}
