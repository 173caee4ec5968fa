package backup_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"cke/backup"
	"cke/backup/internal/etcdtest"
)

// Deltas of an incarnation are signed, and its full is missing; of another one there is an unsigned full only.
func TestFind_SignedDeltasBesideAnUnsignedFull(t *testing.T) {
	f, signer := signedFixture(t)
	ctx := etcdtest.Context(t)
	fulls, _ := f.objects(t)
	h, err := backup.ReadHeader(ctx, f.bucket, place(t, fulls[1]))
	if err != nil {
		t.Fatal(err)
	}
	whole, b := f.bucket.Get(fulls[1]), f.bucket.Clone()
	h.Signature, h.Signer, h.Place = nil, nil, backup.FullPlace("prod", "ffff", h.Last, h.Place.Time.Add(-time.Hour))
	content, err := backup.BodyContent(nil, whole[int64(len(whole))-h.BodySize:]).WithHeader(h)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Create(ctx, h.Place.Name(), content); err != nil {
		t.Fatal(err)
	}
	for _, name := range fulls {
		if err := b.Delete(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	s := f.guarded(t, b, signer)
	if found, err := s.Find(ctx, backup.At{}); !backup.IsDamage(err) || !strings.Contains(err.Error(), "--lineage ffff") {
		t.Errorf("%+v, %v", found, err)
	}
	s.Lives, s.Stored = []string{"life3", "a1b2"}, map[string]int64{"life3": 0}
	if found, err := s.Find(ctx, backup.At{}); !errors.Is(err, backup.ErrLost) || strings.Contains(err.Error(), "--lineage a1b2") {
		t.Errorf("a later one is missing: %+v, %v", found, err)
	}
	s.Lives, s.Stored, s.Unread = nil, nil, errors.New("no answer")
	if found, err := s.Find(ctx, backup.At{}); !errors.Is(err, backup.ErrUnread) || strings.Contains(err.Error(), "--lineage a1b2") {
		t.Errorf("not known: %+v, %v", found, err)
	}
}
