package take_test

import (
	"path/filepath"
	"strings"
	"testing"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// The only full of the present life is lost, or its head is damaged, and its deltas are there. The state of a life that is over is not the newest one:
// it is restored only where that life is named.
func TestExtract_TheNewestStateIsNotThatOfALifeThatIsOver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lives            []string
		lost             bool
		signed, noOrigin bool
	}{
		"lost, lives known":                    {lives: []string{"c3d4", "a1b2"}, lost: true, signed: true},
		"lost, lives not known":                {lost: true, signed: true},
		"lost, known by its clock alone":       {lost: true, signed: true, noOrigin: true},
		"lost, nothing is signed, lives known": {lives: []string{"c3d4", "a1b2"}, lost: true},
		"lost, nothing is signed":              {lost: true},
		"damaged, lives known":                 {lives: []string{"c3d4", "a1b2"}, signed: true},
		"damaged, lives not known":             {signed: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := etcdtest.Context(t)
			bucket := backuptest.NewMemory()
			signer := backup.NewSigner(identity(t))
			life := func(lineage string, origin *backup.Origin) (full backup.Header, last int64) {
				s := etcdtest.Start(t, etcdtest.Options{})
				cfg := taketest.Config(s, bucket)
				cfg.Lineage, cfg.Origin = lineage, origin
				if c.signed {
					cfg.Signer = signer
				}
				(&taketest.Rig{T: t, Server: s}).Put("a", lineage)
				r := taketest.Start(t, s, cfg)
				full = r.Await(take.FullStored).Header
				for range 3 {
					last = r.Put("b", lineage)
					r.Flush()
				}
				if err := r.Stop(); err != nil {
					t.Fatal(err)
				}
				return full, last
			}
			_, at := life("a1b2", nil)
			origin := &backup.Origin{Lineage: "a1b2", Revision: at, Replaces: "a1b2"}
			if c.noOrigin {
				origin = nil
			}
			full, _ := life("c3d4", origin)
			if c.lost {
				if err := bucket.Delete(ctx, full.Place.Name()); err != nil {
					t.Fatal(err)
				}
			} else {
				data := bucket.Get(full.Place.Name())
				data[40] ^= 1
				bucket.Set(full.Place.Name(), data)
			}
			s := &backup.Store{Bucket: bucket, Cluster: "prod", Scratch: t.TempDir(), Trusted: []backup.PublicKey{signer.Public()}, Past: backup.Past{Lives: c.lives}}
			_, err := s.Find(ctx, backup.At{})
			if c.lost && (!backup.IsDamage(err) || !strings.Contains(err.Error(), full.Place.Name()) || !strings.Contains(err.Error(), "--lineage a1b2")) {
				t.Errorf("find: %v", err)
			}
			x, err := s.Extract(ctx, backup.At{}, filepath.Join(t.TempDir(), "out"), backup.ExtractOptions{CheckHash: true})
			if !backup.IsDamage(err) || !strings.Contains(err.Error(), full.Place.Name()) {
				t.Errorf("the newest state is that of lineage %s, revision %d; notes: %s; error %v", x.Lineage, x.Revision, strings.Join(x.Notes, "; "), err)
			}
			if _, x := taketest.Extract(t, s, backup.At{Lineage: "a1b2"}); x.Revision != at {
				t.Errorf("lineage a1b2: revision %d, want %d", x.Revision, at)
			}
		})
	}
}

// Deltas that somebody puts beside the backups of signed lives make no life that is the newest.
func TestExtract_UnsignedDeltasAreNoNewestLife(t *testing.T) {
	t.Parallel()
	for name, lives := range map[string][]string{"lives known": {"c3d4", "a1b2"}, "lives not known": nil} {
		t.Run(name, func(t *testing.T) {
			bucket, signer := backuptest.NewMemory(), backup.NewSigner(identity(t))
			r := begin(t, bucket, func(c *take.Config) { c.Signer = signer })
			last := r.Put("a", "1")
			r.Flush()
			if err := r.Stop(); err != nil {
				t.Fatal(err)
			}
			p := backup.DeltaPlace("prod", "c3d4", last+1, 0, last+1)
			c, _ := sealed(t, backup.Header{Place: p, Origin: &backup.Origin{Lineage: "a1b2", Replaces: "a1b2"}},
				backup.Change{Key: []byte("b"), CreateRevision: last + 1, ModRevision: last + 1, Version: 1})
			if err := bucket.Create(t.Context(), p.Name(), c); err != nil {
				t.Fatal(err)
			}
			s := r.Store()
			s.Trusted, s.Lives = []backup.PublicKey{signer.Public()}, lives
			if _, x := taketest.Extract(t, s, backup.At{}); x.Lineage != "a1b2" || x.Revision != last {
				t.Errorf("lineage %s, revision %d", x.Lineage, x.Revision)
			}
		})
	}
}
