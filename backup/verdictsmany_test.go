package backup

import (
	"testing"
)

// upgraded is a target that a version without signatures wrote, and one with signatures continues.
func upgraded(t *testing.T, unsigned int64) (*Store, *shelf) {
	b, signer := newShelf(), newSigner(t)
	b.put(t, fullHead(1, nil))
	for i := range unsigned {
		b.put(t, deltaHead(2, i, 2+i, 2+i, nil))
	}
	b.put(t, fullHead(unsigned+1, signer))
	b.put(t, deltaHead(unsigned+2, 0, unsigned+2, unsigned+3, signer))
	return ours(b, signer), b
}

// There are more such deltas than verdicts are remembered: two weeks at one each ten seconds. A daemon lists the target every ten minutes, and does not read all
// their headers again each time.
func TestLineages_ManyUnsignedDeltasAreNotReadAtEachListing(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes 110,000 headers")
	}
	const unsigned = mostVerdicts + 10_000
	s, b := upgraded(t, unsigned)
	s.Verdicts = new(Verdicts)
	if _, err := s.Lineages(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := b.opened
	b.opened = 0
	if _, err := s.Lineages(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b.opened > unsigned/10 {
		t.Errorf("the first list takes %d requests, the second one, with what is remembered of that, %d", first, b.opened)
	}
}
