package backup

import (
	"context"
	"errors"
	"testing"
	"time"
)

// garbage puts bytes that are no object under a name, at a time of the target's clock.
func (b *shelf) garbage(p Place, at time.Time) {
	b.Create(context.Background(), p.Name(), Content{Head: []byte("garbage")})
	b.times[p.Name()] = at
}

// dated has a target whose clock is the one of what is stored.
func (b *shelf) dated(t interface{ Fatal(...any) }, h Header) Header {
	h = b.put(t, h)
	b.times[h.Place.Name()] = h.End
	return h
}

// begun is a lineage of two fulls: 100, deltas to 160, full 160 and a delta to 180.
func begun(t *testing.T) (*shelf, *Signer) {
	b, signer := newShelf(), newSigner(t)
	b.dated(t, fullHead(100, signer))
	for i, first := range []int64{101, 121, 141} {
		b.dated(t, deltaHead(101, int64(i), first, first+19, signer))
	}
	b.dated(t, fullHead(160, signer))
	b.dated(t, deltaHead(101, 3, 161, 180, signer))
	return b, signer
}

// A full of which only the name is there decides no time.
func TestFind_AGarbageFullDecidesNoTime(t *testing.T) {
	const far = int64(1_000_000_000_000_000)
	for name, p := range map[string]Place{
		"none":                         {},
		"an early time, and between":   FullPlace("prod", "a1b2", 155, when(90)),
		"an early time, and far":       FullPlace("prod", "a1b2", far, when(90)),
		"the first, of the far future": FullPlace("prod", "a1b2", 1, when(1<<30)),
	} {
		b, signer := begun(t)
		if p.Kind != "" {
			b.garbage(p, when(130))
		}
		s := ours(b, signer)
		for _, rev := range []int64{100, 120, 140, 160} {
			f, err := s.Find(t.Context(), At{Time: when(rev)})
			if err != nil || f.Revision != rev {
				t.Errorf("%s: %d, %v; want %d", name, f.Revision, err, rev)
			}
		}
	}
	// One that would hold more than what is sound is damage for the time after that.
	b, signer := begun(t)
	b.garbage(FullPlace("prod", "a1b2", 200, when(200)), when(200))
	var d *DamagedError
	if f, err := ours(b, signer).Find(t.Context(), At{Time: when(300)}); !errors.As(err, &d) || d.LastGood != 180 {
		t.Errorf("%+v, %v", f, err)
	}
}

// Garbage that was there before the cluster came to the revision in its name stops nothing, once something was stored since.
func TestLineage_GarbageFromBeforeItsRevisionIsLeftOut(t *testing.T) {
	const far = int64(1_000_000_000_000_000)
	for _, p := range []Place{
		DeltaPlace("prod", "a1b2", far, 0, far),
		FullPlace("prod", "a1b2", far, when(150)),
		FullPlace("prod", "a1b2", far, when(90)),
		DeltaPlace("prod", "a1b2", 101, 5, far),
	} {
		b, signer := begun(t)
		s := ours(b, signer)
		b.garbage(p, when(170))
		b.dated(t, deltaHead(101, 4, 181, 1000, signer))
		f, err := s.Find(t.Context(), At{})
		if err != nil || f.Revision != 1000 {
			t.Errorf("%s: %d, %v", p.Name(), f.Revision, err)
		}
		if f, err := s.Find(t.Context(), At{Time: when(2000)}); err != nil || f.Revision != 1000 {
			t.Errorf("%s: %d, %v", p.Name(), f.Revision, err)
		}
	}
}

// What may be genuine is still damage: stored within minutes of what was stored last, or in a target that dates it later.
func TestLineage_ADamagedDeltaIsNoGarbage(t *testing.T) {
	for name, at := range map[string]time.Time{"as it was stored": when(1100), "minutes before": when(600), "a copy": when(1 << 19)} {
		b, signer := begun(t)
		b.dated(t, deltaHead(101, 4, 181, 1000, signer))
		b.garbage(DeltaPlace("prod", "a1b2", 101, 5, 1001), at)
		var d *DamagedError
		if f, err := ours(b, signer).Find(t.Context(), At{}); !errors.As(err, &d) || d.LastGood != 1000 {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
}

// A stream that a full follows after damage is whole from that full on, also while nothing has changed since.
func TestLineage_DamageBeforeANewStreamIsOver(t *testing.T) {
	for _, next := range []int64{181, 190} {
		b, signer := begun(t)
		b.garbage(DeltaPlace("prod", "a1b2", 101, 4, 181), when(181))
		s := ours(b, signer)
		if _, err := s.Find(t.Context(), At{}); !IsDamage(err) {
			t.Errorf("%v", err)
		}
		b.dated(t, deltaHead(next, 0, next, 195, signer))
		b.dated(t, fullHead(195, signer))
		if f, err := s.Find(t.Context(), At{}); err != nil || f.Revision != 195 {
			t.Errorf("%+v, %v", f, err)
		}
		if f, err := s.Find(t.Context(), At{Revision: 185}); (err == nil) != (next == 181) && !IsDamage(err) {
			t.Errorf("%+v, %v", f, err)
		}
	}
}

// While nothing changes in the cluster, a full that is taken later than the limit of the clocks shows what is garbage. Before, it may be
// a genuine object that was damaged, and is told as that.
func TestLineage_GarbageInAQuietClusterIsLeftOutAfterAFull(t *testing.T) {
	for _, p := range []Place{
		DeltaPlace("prod", "a1b2", 181, 0, 181),
		DeltaPlace("prod", "a1b2", 101, 4, 181),
		DeltaPlace("prod", "a1b2", 9000, 0, 9000),
		FullPlace("prod", "a1b2", 9000, when(200)),
	} {
		b, signer := begun(t)
		b.garbage(p, when(200))
		s := ours(b, signer)
		for after, left := range []bool{false, true} {
			f, err := s.Find(t.Context(), At{})
			if is := err == nil && f.Revision == 180; is != left {
				t.Errorf("%s, %d fulls later: %+v, %v", p.Name(), after, f, err)
			}
			h := fullHead(180, signer)
			h.Begin = when(200).Add(clockLimit + time.Second)
			h.End, h.Place.Time = h.Begin, h.Begin
			b.dated(t, h)
		}
	}
}

// A full that was merged within a delta does not show how far the cluster was when it received its newest change: more came with it.
func TestLineage_AFullMergedWithinADeltaProvesNoGarbage(t *testing.T) {
	for within, left := range map[bool]bool{true: false, false: true} {
		b, signer := begun(t)
		damaged := FullPlace("prod", "a1b2", 200, when(200))
		b.garbage(damaged, when(200)) // a genuine one, of which the header was damaged
		h := fullHead(190, signer)
		h.Merged, h.SignedTip = true, true
		h.Place.Time = when(200).Add(clockLimit + time.Second)
		h.Begin, h.End = h.Place.Time, h.Place.Time
		if within {
			h.End = h.End.Add(time.Minute)
		}
		b.dated(t, h)
		f, err := ours(b, signer).Find(t.Context(), At{})
		if is := f.Revision == 190; err != nil || is != left { // what is not left out is read, and found damaged
			t.Errorf("within %t: %+v, %v", within, f, err)
		}
	}
}
