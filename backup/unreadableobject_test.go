package backup

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"cke"
)

// archived is an object store that moved an object to an archive, as by a rule for old objects, or that has one under somebody else's key: it is listed, and refused.
type archived struct {
	*shelf
	name string
}

func (b *archived) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if name == b.name {
		return nil, errors.New("InvalidObjectState: the operation is not valid for the object's storage class")
	}
	return b.shelf.Open(ctx, name, offset, length)
}

// One object that is refused says nothing of the others: the newest state does not need it.
func TestFind_OneObjectThatIsRefusedKeepsNoOtherFromBeingRestored(t *testing.T) {
	for name, row := range map[string]struct {
		place  Place
		signed bool
	}{
		"an old full, signed":      {fullHead(100, nil).Place, true},
		"an old full, not signed":  {fullHead(100, nil).Place, false},
		"one of another lifetime":  {FullPlace("prod", "0001", 1, when(1)), true},
		"a delta that is unneeded": {deltaHead(101, 1, 121, 140, nil).Place, true},
	} {
		t.Run(name, func(t *testing.T) {
			b, signer := begun(t)
			b.garbage(row.place, when(130))
			s := ours(&archived{b, row.place.Name()}, signer)
			if !row.signed {
				s.Signer, s.Trusted = nil, nil
			}
			if f, err := s.Find(t.Context(), At{Lineage: "a1b2"}); err != nil || f.Revision != 180 {
				t.Errorf("%+v, %v", f, err)
			}
			if f, err := s.Find(t.Context(), At{Lineage: "a1b2", Revision: 170}); err != nil || f.Revision != 170 {
				t.Errorf("by revision: %+v, %v", f, err)
			}
			if f, err := s.Find(t.Context(), At{Lineage: "a1b2", Time: when(170).Add(time.Minute)}); err != nil || f.Revision != 180 {
				t.Errorf("by time: %+v, %v", f, err)
			}
			_, err := s.Prune(t.Context(), cke.Retention{Last: 1}, true)
			t.Logf("prune: %v", err)
		})
	}
}
