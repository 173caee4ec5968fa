package take_test

import (
	"testing"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// The newest full is the only object that holds the newest state: deltas up to it are gone, or were never there. To delete it takes the newest state back to
// an older full, and is not refused as it is where a delta follows.
func TestDelete_KeepsTheOnlyFullThatHoldsTheNewestState(t *testing.T) {
	t.Parallel()
	b := backuptest.NewMemory()
	s := etcdtest.Start(t, etcdtest.Options{})
	r := taketest.Start(t, s, taketest.Config(s, b))
	r.Await(take.FullStored)
	store := r.Store()
	r.Put("a", "1")
	last := r.Put("b", "1")
	r.Flush()
	h, err := r.Taker.Full(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lineages, err := store.Lineages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range lineages[0].Streams {
		for _, d := range st.Deltas {
			if err := b.Delete(t.Context(), d.Name()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if f, err := store.Find(t.Context(), backup.At{}); err != nil || f.Revision != last {
		t.Fatal(f, err)
	}
	gone, err := store.Delete(t.Context(), h.Place.ID(), false)
	f, findErr := store.Find(t.Context(), backup.At{})
	if err == nil {
		t.Errorf("%d objects were deleted without force; the newest state is that of revision %d, and was that of %d: %v", len(gone), f.Revision, last, findErr)
	}
}
