package backup_test

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"testing"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
)

// deletions are the ways to delete backups, each by a plan that only looks and by one that is carried out.
var deletions = map[string]func(ctx context.Context, s *backup.Store, full backup.Place, dryRun bool) error{
	"prune": func(ctx context.Context, s *backup.Store, _ backup.Place, dryRun bool) error {
		_, err := s.Prune(ctx, cke.Retention{Last: 1}, dryRun)
		return err
	},
	"delete": func(ctx context.Context, s *backup.Store, full backup.Place, dryRun bool) error {
		if dryRun {
			_, err := s.PlanDelete(ctx, full.ID(), false)
			return err
		}
		_, err := s.Delete(ctx, full.ID(), false)
		return err
	},
}

// backupsIn are the fulls and deltas in a bucket.
func backupsIn(t *testing.T, b backup.Bucket) []string {
	return slices.DeleteFunc(names(t, b), func(name string) bool {
		_, ok := backup.ParsePlace(name)
		return !ok
	})
}

// A client that can create objects, and has no key, puts an unsigned full of a later revision there. Where no signing key is known, it looks
// like the newest full, and on its account all signed ones would go.
func TestDelete_NothingSignedWhereNoKeyIsKnown(t *testing.T) {
	f, signer := signedFixture(t)
	ctx := etcdtest.Context(t)
	fulls, deltas := f.objects(t)
	forged := func(b *backuptest.Memory) *backuptest.Memory {
		h, err := backup.ReadHeader(ctx, f.bucket, place(t, fulls[1]))
		if err != nil {
			t.Fatal(err)
		}
		whole := f.bucket.Get(fulls[1])
		h.Signature, h.Signer, h.Last = nil, nil, f.last+1000
		h.Place = backup.FullPlace("prod", "a1b2", h.Last, h.Place.Time.Add(time.Hour))
		content, err := backup.BodyContent(nil, whole[int64(len(whole))-h.BodySize:]).WithHeader(h)
		if err == nil {
			err = b.Create(ctx, h.Place.Name(), content)
		}
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	unsign := func(h *backup.Header) { h.Signature, h.Signer, h.After, h.Base = nil, nil, nil, nil }
	older := f.bucket.Clone() // an earlier version took the fulls and the newest delta
	for _, name := range append(slices.Clone(fulls), deltas[2], deltas[5]) {
		rehead(t, older, name, unsign)
	}
	another := backup.PublicKey(base64.StdEncoding.EncodeToString(make([]byte, 32))) // of another host, or of a cluster that was restored
	for what, b := range map[string]*backuptest.Memory{"fulls": f.bucket, "deltas": older} {
		for known, trusted := range map[string][]backup.PublicKey{"no key": nil, "another key": {another}} {
			for name, remove := range deletions {
				for _, dryRun := range []bool{true, false} {
					b := forged(b.Clone())
					before := backupsIn(t, b)
					s := f.store(t, b)
					s.Trusted = trusted
					if err := remove(ctx, s, place(t, fulls[1]), dryRun); !errors.Is(err, backup.ErrUntrusted) {
						t.Errorf("signed %s, %s, %s, dry run %v: %v", what, known, name, dryRun, err)
					}
					if left := backupsIn(t, b); !slices.Equal(left, before) {
						t.Errorf("signed %s, %s, %s, dry run %v: left of %q: %q", what, known, name, dryRun, before, left)
					}
				}
			}
		}
	}
	for name, remove := range deletions {
		s := f.store(t, f.bucket.Clone())
		s.AllowUntrusted = true
		if err := remove(ctx, s, place(t, fulls[0]), false); err != nil {
			t.Errorf("%s, whoever wrote it: %v", name, err)
		}
		if err := remove(ctx, f.guarded(t, f.bucket.Clone(), signer), place(t, fulls[0]), false); err != nil {
			t.Errorf("%s, of a known key: %v", name, err)
		}
	}
}

// A process may be killed after it uploaded a full and before it read that back. Nothing is deleted on its account before it was read, by
// whichever process, and what was found damaged counts for nothing after that.
func TestDelete_NothingOnAccountOfAFullThatIsDamaged(t *testing.T) {
	for name, remove := range deletions {
		f, signer := signedFixture(t)
		ctx := etcdtest.Context(t)
		fulls, _ := f.objects(t)
		b := f.bucket
		whole := b.Get(fulls[1])
		b.Set(fulls[1], flip(whole, len(whole)-40))
		before := backupsIn(t, b)
		var bad *backup.NotWholeError
		err := remove(ctx, f.guarded(t, b, signer), place(t, fulls[0]), false)
		if !backup.IsDamage(err) || !errors.As(err, &bad) || bad.Full.Name() != fulls[1] {
			t.Errorf("%s: %v", name, err)
		}
		if left := backupsIn(t, b); !slices.Equal(left, before) {
			t.Fatalf("%s: left of %q: %q", name, before, left)
		}
		err = remove(ctx, f.guarded(t, b, signer), place(t, fulls[0]), false)
		if name == "delete" && !errors.Is(err, backup.ErrOnlyFull) || name == "prune" && err != nil {
			t.Errorf("%s again: %v", name, err)
		}
		if left := backupsIn(t, b); !slices.Equal(left, before) {
			t.Errorf("%s again: left of %q: %q", name, before, left)
		}
		if at, err := f.guarded(t, b, signer).Find(ctx, backup.At{}); err != nil || at.Revision != f.last {
			t.Errorf("%s: %+v, %v", name, at, err)
		}
	}
}
