package backup

import (
	"errors"
	"testing"
	"time"
)

// A time is asked for in an incarnation of which deltas in the middle of a run are the first that are signed: once they are read, the unsigned full after
// them counts for nothing, and there is no other. That is refused, like the newest state of what has no full that counts.
func TestFind_ATimeWhereNoFullIsLeftThatCounts(t *testing.T) {
	b, signer := newShelf(), newSigner(t)
	b.put(t, fullHead(50, nil))
	b.put(t, deltaHead(2, 0, 2, 5, nil))
	b.put(t, deltaHead(2, 1, 6, 40, signer))
	b.put(t, deltaHead(2, 2, 41, 50, signer))
	b.put(t, deltaHead(2, 3, 51, 55, signer))
	b.put(t, deltaHead(2, 4, 56, 60, signer))
	_, err := ours(b, signer).Find(t.Context(), At{Time: when(55).Add(time.Millisecond)})
	if !errors.Is(err, ErrUntrusted) && !errors.Is(err, ErrNotCovered) && !errors.Is(err, ErrEmpty) {
		t.Errorf("error %v, want a refusal", err)
	}
}
