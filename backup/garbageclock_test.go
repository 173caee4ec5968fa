package backup

import (
	"testing"
	"time"
)

// Without the store, clocks decide between incarnations of which none names the other: a cluster was deleted, and bootstrapped again under its name. Only what a
// trusted key signed says what the clock was. A name is anybody's, and bytes that are no object are never signed.
func TestFind_AGarbageFullDecidesNoIncarnation(t *testing.T) {
	b, signer := newShelf(), newSigner(t)
	former := fullHead(1, signer)
	former.Place.Lineage = "0001"
	b.dated(t, former)
	present := fullHead(100_000, signer)
	present.Place.Lineage = "0002"
	b.dated(t, present)
	s := ours(b, signer)
	if f, err := s.Find(t.Context(), At{}); err != nil || f.Lineage != "0002" {
		t.Fatalf("%+v, %v", f, err)
	}
	p := FullPlace("prod", "0001", 1, when(1<<20).Add(time.Hour))
	b.garbage(p, when(100_001))
	if f, err := s.Find(t.Context(), At{}); err != nil || f.Lineage != "0002" {
		t.Errorf("with %s, which is no object, the newest state is revision %d of incarnation %s, %q, %v", p.Name(), f.Revision, f.Lineage, f.Notes, err)
	}
}
