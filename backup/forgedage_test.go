package backup

import (
	"testing"
	"time"

	"cke"
)

// Ages count from the newest backup that counts, so that none becomes too old while nothing is written. What somebody forges is no such backup: a delta
// without a signature that claims to be from before the first signed object, and to have been received a moment ago.
func TestPrune_AForgedDeltaMakesNothingOlder(t *testing.T) {
	b, signer := newShelf(), newSigner(t)
	b.put(t, fullHead(1, signer))
	b.put(t, deltaHead(2, 0, 2, 100, signer))
	b.put(t, fullHead(100, signer))
	b.put(t, deltaHead(2, 1, 101, 110, signer))
	s := ours(b, signer)
	s.Now = func() time.Time { return when(10_000) }
	keep := cke.Retention{MaxAge: cke.Duration(200 * time.Second)}
	if plan, err := s.Prune(t.Context(), keep, true); err != nil || len(plan.Delete) > 0 {
		t.Fatalf("%+v, %v", plan.Delete, err)
	}
	h := deltaHead(1, 0, 1, 1, nil)
	h.End = when(9_999)
	b.put(t, h)
	plan, err := s.Prune(t.Context(), keep, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range plan.Delete {
		if r.Name != h.Place.Name() {
			t.Errorf("%s would be deleted: %s", r.Name, r.Reason)
		}
	}
}
