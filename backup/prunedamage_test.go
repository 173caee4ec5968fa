package backup_test

import (
	"testing"

	"filippo.io/age"

	"cke"
	"cke/backup"
	"cke/backup/internal/etcdtest"
)

// A delta before the newest full is damaged, and stays: nobody knows what is in it, or the target protects it. What followed it is deleted. The full holds all
// of it, as it did before.
func TestDelete_DamageBeforeTheNewestFullBlocksNothing(t *testing.T) {
	ctx := etcdtest.Context(t)
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for name, remove := range map[string]func(f *fixture, s *backup.Store) error{
		"prune": func(f *fixture, s *backup.Store) error {
			_, deltas := f.objects(t)
			s.Bucket = stubborn(f.bucket, map[string]error{deltas[0]: backup.ErrProtected})
			_, err := s.Prune(ctx, cke.Retention{Last: 1}, false)
			return err
		},
		"delete": func(f *fixture, s *backup.Store) error {
			fulls, _ := f.objects(t)
			_, err := s.Delete(ctx, place(t, fulls[0]).ID(), false)
			return err
		},
	} {
		f := &fixture{signer: backup.NewSigner(id)}
		f.make(t, false)
		_, deltas := f.objects(t)
		f.bucket.Set(deltas[0], flip(f.bucket.Get(deltas[0]), 40))
		for _, d := range deltas[3:] {
			if err := f.bucket.Delete(ctx, d); err != nil {
				t.Fatal(err)
			}
		}
		s := f.store(t, f.bucket)
		s.Trusted, s.Signer = []backup.PublicKey{f.signer.Public()}, f.signer
		if at, err := s.Find(ctx, backup.At{}); err != nil || at.Revision != f.fulls[1] {
			t.Fatalf("%s: before: revision %d of %d, %v", name, at.Revision, f.fulls[1], err)
		}
		if err := remove(f, s); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if at, err := s.Find(ctx, backup.At{}); err != nil || at.Revision != f.fulls[1] {
			t.Errorf("%s: after: revision %d of %d, %v", name, at.Revision, f.fulls[1], err)
		}
		if f.bucket.Get(deltas[0]) == nil || f.bucket.Get(deltas[2]) != nil {
			t.Errorf("%s: %q", name, names(t, f.bucket))
		}
	}
}
