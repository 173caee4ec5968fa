package backup

import (
	"context"
	"io"
	"testing"

	"cke"
)

// once is a bucket that does not find an object the next time that it is opened.
type once struct {
	*shelf
	name string
}

func (b *once) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if name == b.name {
		b.name = ""
		return nil, ErrNotFound
	}
	return b.shelf.Open(ctx, name, offset, length)
}

// Of a full that a target lists and does not find once, the deltas stay: it may be there the next time.
func TestPrune_NothingOnAccountOfAFullThatIsNotFoundOnce(t *testing.T) {
	for name, signed := range map[string]bool{"signed": true, "not signed": false} {
		t.Run(name, func(t *testing.T) {
			b, signer := &once{shelf: newShelf()}, newSigner(t)
			by := signer
			if !signed {
				by = nil
			}
			first := b.put(t, fullHead(100, by))
			var before *Link
			for i, from := range []int64{101, 121, 141} {
				h := deltaHead(101, int64(i), from, from+19, by)
				h.After, h.Base = before, first.Link()
				before = b.put(t, h).Link()
			}
			last := fullHead(160, by)
			last.After = before
			b.put(t, last)
			h := deltaHead(101, 3, 161, 180, by)
			h.After, h.Base = before, last.Link()
			b.put(t, h)
			s := ours(b, signer)
			if !signed {
				s.Signer, s.Trusted = nil, nil
			}
			s.Verdicts, s.Whole = new(Verdicts), new(Whole)
			s.Whole.Add(last.Place.ID()) // it was read back when it was stored
			keep := cke.Retention{Last: 2}
			if plan, err := s.Prune(t.Context(), keep, false); err != nil || len(plan.Delete) > 0 {
				t.Fatalf("%+v, %v", plan.Delete, err)
			}
			b.name = first.Place.Name()
			plan, err := s.Prune(t.Context(), keep, false)
			for _, r := range plan.Delete {
				t.Errorf("%s is deleted: %s (%v)", r.Name, r.Reason, err)
			}
			if f, err := s.Find(t.Context(), At{Revision: 130}); err != nil || f.Revision != 130 {
				t.Errorf("%+v, %v", f, err)
			}
		})
	}
}
