package backup

import (
	"testing"
	"time"
)

// formerAndPresent are two incarnations of which none names the other, as of a cluster that was deleted and bootstrapped again under its name:
// without the store, clocks decide.
func formerAndPresent(t *testing.T, by *Signer) *shelf {
	b := newShelf()
	former, present := fullHead(1, by), fullHead(100_000, by)
	former.Place.Lineage, present.Place.Lineage = "0001", "0002"
	b.dated(t, former)
	b.dated(t, present)
	return b
}

// A name is anybody's, and bytes that are no object are never signed: they say nothing of what the clock was.
func TestFind_AGarbageFullDecidesNoIncarnation(t *testing.T) {
	for name, signed := range map[string]bool{"signed": true, "not signed": false} {
		signer := newSigner(t)
		by := signer
		if !signed {
			by = nil
		}
		b := formerAndPresent(t, by)
		for _, p := range []Place{{}, FullPlace("prod", "0001", 1, when(1<<20).Add(time.Hour))} {
			if p.Kind != "" {
				b.garbage(p, when(100_001))
			}
			if f, err := ours(b, signer).Find(t.Context(), At{}); err != nil || f.Lineage != "0002" {
				t.Errorf("%s, with %s: revision %d of incarnation %q, %q, %v", name, p.Name(), f.Revision, f.Lineage, f.Notes, err)
			}
		}
	}
}

// The only full of the present incarnation is damaged: its deltas say when it was, and without any its name does. Nothing older is restored for it.
func TestFind_AnIncarnationWhoseOnlyFullIsDamagedIsStillTheNewest(t *testing.T) {
	for name, signed := range map[string]bool{"signed, with a delta": true, "not signed": false} {
		signer := newSigner(t)
		by := signer
		if !signed {
			by = nil
		}
		b := formerAndPresent(t, by)
		if signed {
			d := deltaHead(100_001, 0, 100_001, 100_002, by)
			d.Place.Lineage = "0002"
			b.dated(t, d)
		}
		full := FullPlace("prod", "0002", 100_000, when(100_000)).Name()
		b.objects[full], b.sizes[full] = []byte("garbage"), 7
		s := ours(b, signer)
		if l, _, err := s.Present(t.Context()); err != nil || l.Name != "0002" {
			t.Errorf("%s: %s, %v", name, l.Name, err)
		}
	}
}
