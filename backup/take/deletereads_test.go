package take_test

import (
	"testing"
)

// A full is deleted, and the older one that takes its place for the revisions up to the next full is damaged. The deltas between the two are read before that,
// and the older full is not.
func TestDelete_TheFullThatTakesThePlaceOfOneInTheMiddleIsRead(t *testing.T) {
	t.Parallel()
	b := takeBetween(t, nil)
	l, err := b.store.Lineage(t.Context(), "a1b2")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range l.Fulls {
		if f.Revision < b.before {
			b.spoil(f.Name())
		}
	}
	b.restores(t, "before", b.after...) // from the second
	gone, err := b.store.Delete(t.Context(), b.second.Place.ID(), false)
	if len(gone) > 0 || err == nil {
		t.Errorf("deleted without --force: %v, %v", gone, err)
	}
	b.restores(t, "after", b.after...)
}
