package backup

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"cke"
)

// archived is an object store that lists objects and refuses to open them, as after a rule has moved old ones to an archive.
type archived struct {
	*shelf
	refuses func(name string) bool
}

func (b *archived) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if b.refuses(name) {
		return nil, errors.New("InvalidObjectState: the operation is not valid for the object's storage class")
	}
	return b.shelf.Open(ctx, name, offset, length)
}

// One object that is refused says nothing of the others: what does not need it is restored, with a note, and nothing is deleted.
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
			s := ours(&archived{b, func(name string) bool { return name == row.place.Name() }}, signer)
			if !row.signed {
				s.Signer, s.Trusted = nil, nil
			}
			for want, at := range map[int64]At{180: {}, 170: {Revision: 170}, 160: {Time: when(160)}} {
				at.Lineage = "a1b2"
				f, err := s.Find(t.Context(), at)
				if err != nil || f.Revision != want {
					t.Errorf("%+v: %+v, %v", at, f, err)
				}
				read := row.place.Kind == KindFull && row.place.Lineage == at.Lineage && row.signed
				if read && !strings.Contains(strings.Join(f.Notes, " "), row.place.Name()) {
					t.Errorf("%+v: notes %q", at, f.Notes)
				}
			}
			if plan, err := s.Prune(t.Context(), cke.Retention{Last: 1}, false); err == nil || len(plan.Delete) > 0 {
				t.Errorf("a prune deletes %v, %v", plan.Delete, err)
			}
		})
	}
}

// Where what is refused may lead further, no older state is taken for the newest.
func TestFind_WhatIsRefusedHidesNothingNewer(t *testing.T) {
	for name, row := range map[string]struct {
		place Place
		at    At
	}{
		"the newest delta":             {deltaHead(101, 3, 161, 180, nil).Place, At{}},
		"the newest delta, and a time": {deltaHead(101, 3, 161, 180, nil).Place, At{Time: when(1000)}},
		"the newest full, and a time":  {FullPlace("prod", "a1b2", 200, when(200)), At{Time: when(1000)}},
	} {
		b, signer := begun(t)
		b.garbage(row.place, when(200))
		s := ours(&archived{b, func(name string) bool { return name == row.place.Name() }}, signer)
		l, err := s.Lineage(t.Context(), "a1b2")
		if last, unreadable := l.Unreadable(); err != nil || unreadable == nil || last < 180 {
			t.Errorf("%s: up to %d, %v, %v", name, last, unreadable, err)
		}
		var d *DamagedError
		if f, err := s.Find(t.Context(), row.at); !errors.As(err, &d) || d.LastGood != row.place.Revision-1 && d.LastGood != 180 {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
		if _, err := s.Drill(t.Context(), At{}, nil); err == nil {
			t.Errorf("%s: a drill succeeds", name)
		}
		if failing, err := s.failing(t.Context(), "a1b2"); err != nil || failing {
			t.Errorf("%s: what is refused now is on record as damaged: %v", name, err)
		}
	}
}

// A target that refuses all, or one object for a moment, has no damaged one.
func TestLineages_ATargetThatFailsIsNotDamaged(t *testing.T) {
	b, signer := begun(t)
	first := fullHead(100, nil).Place.Name()
	times := 0
	for name, refuses := range map[string]func(name string) bool{
		"all": func(string) bool { return true },
		"one, twice": func(name string) bool {
			if name == first {
				times++
			}
			return name == first && times <= 2
		},
	} {
		l, err := ours(&archived{b, refuses}, signer).Lineage(t.Context(), "a1b2")
		_, unreadable := l.Unreadable()
		if IsDamage(err) || unreadable != nil || name == "all" && err == nil {
			t.Errorf("%s: %v, %v", name, unreadable, err)
		}
	}
}
