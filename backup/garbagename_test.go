package backup

import (
	"testing"
)

// Bytes that are no object, under the name of a delta of a later number and an earlier revision, damage the newest state no longer than until something is stored
// after the newest full.
func TestFind_GarbageOfALaterNumberAndAnEarlierRevision(t *testing.T) {
	b, signer := newShelf(), newSigner(t)
	s := ours(b, signer)
	put := func(h Header) {
		b.put(t, h)
		b.times[h.Place.Name()] = h.End
	}
	put(fullHead(1, signer))
	put(deltaHead(2, 0, 2, 100, signer))
	put(deltaHead(2, 1, 101, 200, signer))
	name := DeltaPlace("prod", "a1b2", 2, 99, 150).Name()
	b.objects[name], b.sizes[name], b.times[name] = []byte("garbage"), 7, when(200)
	put(deltaHead(2, 2, 201, 5000, signer)) // more than ten minutes later
	put(fullHead(5000, signer))
	put(deltaHead(2, 3, 5001, 10000, signer))
	put(deltaHead(2, 4, 10001, 20000, signer))
	put(fullHead(20000, signer))
	put(deltaHead(2, 5, 20001, 30000, signer))
	if f, err := s.Find(t.Context(), At{}); err != nil || f.Revision != 30000 {
		t.Errorf("%+v, %v", f, err)
	}
}
