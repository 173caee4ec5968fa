package take_test

import (
	"errors"
	"testing"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/take"
)

// A full that was found wrong is replaced at once by whoever continues, whether an older one leads on or not, and only once.
func TestTaker_ReplacesAFullThatWasFoundWrong(t *testing.T) {
	t.Parallel()
	for name, alone := range map[string]bool{"alone": true, "after another": false} {
		t.Run(name, func(t *testing.T) {
			b := backuptest.NewMemory()
			r := begin(t, b, nil)
			ctx := etcdtest.Context(t)
			r.Put("a", "1")
			full(t, r)
			r.Put("a", "2")
			r.Flush()
			if err := r.Stop(); err != nil {
				t.Fatal(err)
			}
			s := &backup.Store{Bucket: b, Cluster: "prod"}
			l, err := s.Lineage(ctx, "a1b2")
			if err != nil {
				t.Fatal(err)
			}
			bad := l.Fulls[len(l.Fulls)-1]
			if err := s.MarkDamaged(ctx, bad, errors.New("damaged")); err != nil {
				t.Fatal(err)
			}
			for _, f := range l.Fulls[:len(l.Fulls)-1] {
				if !alone {
					break
				}
				if err := b.Delete(ctx, f.Name()); err != nil {
					t.Fatal(err)
				}
			}
			r = again(t, r)
			if h := r.Await(take.FullStored).Header; h.Last < bad.Revision {
				t.Errorf("%+v", h)
			}
			r.Put("b", "1")
			r.Flush()
			if err := r.Stop(); err != nil {
				t.Fatal(err)
			}
			before, err := s.Lineage(ctx, "a1b2")
			if err != nil {
				t.Fatal(err)
			}
			r = again(t, r)
			r.Put("b", "2")
			r.Flush()
			after, err := s.Lineage(ctx, "a1b2")
			if err != nil || len(after.Fulls) != len(before.Fulls) {
				t.Errorf("%d fulls, then %d, %v", len(before.Fulls), len(after.Fulls), err)
			}
		})
	}
}
