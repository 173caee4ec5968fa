package backup

import (
	"testing"
	"time"

	"cke"
)

// The mark of the last drill is not found once, or always: what it protects stays all the same.
func TestPrune_KeepsTheVerifiedBackupWhereItsMarkIsNotFoundOnce(t *testing.T) {
	for _, kind := range []FileKind{fileVerified, fileSignatures} {
		b, s, first := fullsAround(t, newSigner(t))
		v := Verified{Full: first.Place.ID(), Revision: 150, At: time.Now(), HashChecked: true, HashRevision: 150}
		if err := s.markVerified(t.Context(), "a1b2", v); err != nil {
			t.Fatal(err)
		}
		keep := cke.Retention{Last: 1}
		if plan, err := s.Prune(t.Context(), keep, false); err != nil || len(plan.Delete) > 0 {
			t.Fatalf("%+v, %v", plan.Delete, err)
		}
		b.once(b.one(t, kind))
		if plan, err := s.Prune(t.Context(), keep, false); len(plan.Delete) > 0 {
			t.Errorf("%s: %+v, %v", kind, plan.Delete, err)
		}
	}
}
