package backup

import (
	"context"
	"io"
	"testing"
	"time"

	"cke"
)

// absent is a bucket that does not find objects that it lists, so many times each.
type absent struct {
	*shelf
	left map[string]int
}

func (b *absent) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	b.mu.Lock()
	n := b.left[name]
	b.left[name] = max(0, n-1)
	b.mu.Unlock()
	if n > 0 {
		return nil, ErrNotFound
	}
	return b.shelf.Open(ctx, name, offset, length)
}

// once lets one object not be found the next time that it is opened.
func (b *absent) once(name string) { b.left = map[string]int{name: 1} }

// fullsAround is a lineage with three deltas between two fulls, and one after them, of which a process knows what it needs. first is the first full.
func fullsAround(t *testing.T, by *Signer) (b *absent, s *Store, first Header) {
	t.Helper()
	b = &absent{newShelf(), map[string]int{}}
	first = b.put(t, fullHead(100, by))
	var before *Link
	for i, from := range []int64{101, 121, 141} {
		h := deltaHead(101, int64(i), from, from+19, by)
		h.After, h.Base = before, first.Link()
		before = b.put(t, h).Link()
	}
	last := fullHead(160, by)
	last.After = before
	last = b.put(t, last)
	h := deltaHead(101, 3, 161, 180, by)
	h.After, h.Base = before, last.Link()
	b.put(t, h)
	if s = ours(b, newSigner(t)); by == nil {
		s.Signer, s.Trusted = nil, nil
	} else {
		s = ours(b, by)
	}
	s.Verdicts, s.Whole = new(Verdicts), new(Whole)
	s.Whole.Add(last.Place.ID()) // it was read back when it was stored
	return b, s, first
}

// What a target lists and does not find may be there the next time: nothing is deleted on account of that.
func TestPrune_NothingOnAccountOfAnObjectThatIsNotFoundOnce(t *testing.T) {
	for name, by := range map[string]*Signer{"signed": newSigner(t), "not signed": nil} {
		t.Run(name, func(t *testing.T) {
			b, s, first := fullsAround(t, by)
			keep := cke.Retention{Last: 2}
			if plan, err := s.Prune(t.Context(), keep, false); err != nil || len(plan.Delete) > 0 {
				t.Fatalf("%+v, %v", plan.Delete, err)
			}
			b.once(first.Place.Name())
			if plan, err := s.Prune(t.Context(), keep, false); len(plan.Delete) > 0 {
				t.Errorf("%+v, %v", plan.Delete, err)
			}
			if f, err := s.Find(t.Context(), At{Revision: 130}); err != nil || f.Revision != 130 {
				t.Errorf("%+v, %v", f, err)
			}
		})
	}
}

// The only signed object of an incarnation is not found once, where it is not known which keys to trust.
func TestPrune_AnObjectThatIsNotFoundOnceIsNotUnsigned(t *testing.T) {
	b, signer := &absent{newShelf(), map[string]int{}}, newSigner(t)
	b.put(t, fullHead(1, nil))
	signed := b.put(t, fullHead(2, signer))
	s := ours(b, signer)
	s.Signer, s.Trusted, s.Whole = nil, nil, new(Whole)
	s.Whole.Add(signed.Place.ID())
	for _, name := range []string{"", signed.Place.Name()} {
		b.once(name)
		if plan, err := s.Prune(t.Context(), cke.Retention{Last: 1}, false); err == nil || len(plan.Delete) > 0 {
			t.Errorf("%+v, %v", plan.Delete, err)
		}
	}
}

// That the last drill failed is not found once.
func TestMarks_OneThatIsNotFoundOnceStillCounts(t *testing.T) {
	b, s, _ := fullsAround(t, newSigner(t))
	if err := s.markFailed(t.Context(), "a1b2", errMissing, nil, nil); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []FileKind{fileFailed, fileSignatures} {
		b.once(b.one(t, kind))
		if failing, err := s.failing(t.Context(), "a1b2"); err != nil || !failing {
			t.Errorf("%s: failing %t, %v", kind, failing, err)
		}
	}
}

// So is the record of another history.
func TestDiverged_ARecordThatIsNotFoundOnceStillCounts(t *testing.T) {
	b, s, _ := fullsAround(t, newSigner(t))
	if err := s.MarkDiverged(t.Context(), "a1b2", Divergence{At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	b.once(b.one(t, fileDiverged))
	if d, trusted, err := s.Diverged(t.Context(), "a1b2"); err != nil || d == nil || !trusted {
		t.Errorf("%+v, %t, %v", d, trusted, err)
	}
}

// one is the only file of a kind.
func (b *absent) one(t *testing.T, kind FileKind) string {
	t.Helper()
	files, err := b.List(t.Context(), "prod/a1b2/"+string(kind)+"/")
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	return files[0].Name
}

// A time does not stand for an older state because the full that was taken before it is not found once.
func TestFind_ATimeAfterAFullThatIsNotFoundOnce(t *testing.T) {
	b, signer := &absent{newShelf(), map[string]int{}}, newSigner(t)
	b.put(t, fullHead(100, signer))
	last := b.put(t, fullHead(160, signer))
	s := ours(b, signer)
	s.Verdicts = new(Verdicts)
	at := At{Time: last.End.Add(time.Minute)}
	if f, err := s.Find(t.Context(), at); err != nil || f.Revision != 160 {
		t.Fatalf("%+v, %v", f, err)
	}
	b.once(last.Place.Name())
	if f, err := s.Find(t.Context(), at); err == nil && f.Revision != 160 {
		t.Errorf("%+v, %v", f, err)
	}
}

// A copy names such an object, and copies the others.
func TestCopy_AnObjectThatIsNotFoundOnceIsNamed(t *testing.T) {
	b, s, first := fullsAround(t, newSigner(t))
	b.once(first.Place.Name())
	done, err := s.Copy(t.Context(), newShelf(), CopyFilter{})
	if !IsDamage(err) || len(done.Problems) != 1 || done.Problems[0].Object != first.Place.Name() {
		t.Errorf("%+v, %v", done, err)
	}
}
