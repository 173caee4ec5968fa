package backup_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	bolt "go.etcd.io/bbolt"

	"cke"
	"cke/backup"
	"cke/backup/internal/etcdtest"
)

// makeWrong replaces the newest full by one whose content is not what the cluster held, as of a member that had silently gone wrong:
// all its digests are right, and the hash in its header is that of another member.
func makeWrong(t *testing.T, f *fixture) (name string) {
	t.Helper()
	ctx := etcdtest.Context(t)
	fulls, deltas := f.objects(t)
	p := place(t, fulls[1])
	h, err := backup.ReadHeader(ctx, f.bucket, p)
	if err != nil || len(h.Hashes) == 0 {
		t.Fatal(h, err)
	}
	file := filepath.Join(t.TempDir(), "wrong.db")
	if _, err := f.store(t, f.bucket).Extract(ctx, backup.At{Full: p.ID()}, file, backup.ExtractOptions{}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, info.Size()-info.Size()%512); err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(file, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		k, v := tx.Bucket([]byte("key")).Cursor().First()
		v = bytes.Clone(v)
		v[len(v)-1] ^= 1
		return tx.Bucket([]byte("key")).Put(bytes.Clone(k), v)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	f.bucket.Delete(ctx, fulls[1])
	c, h, err := backup.SealFull(ctx, file, filepath.Join(t.TempDir(), "body"), f.bucket, h, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.bucket.Create(ctx, h.Place.Name(), c); err != nil {
		t.Fatal(err)
	}
	for _, d := range deltas { // they were taken after it, and name it
		rehead(t, f.bucket, d, func(x *backup.Header) {
			x.After = nil
			if x.Base != nil && x.Base.Object == h.Place.Name() {
				x.Base = h.Link()
			}
		})
	}
	return h.Place.Name()
}

func TestExtract_AWrongFullIsPassedOver(t *testing.T) {
	f := makeFixture(t, false)
	wrong := place(t, makeWrong(t, f)).ID()
	for _, at := range []backup.At{{}, {Revision: f.fulls[1]}, {Revision: f.last}} {
		if x := f.extractOK(t, f.bucket, at); x.Full == wrong || len(x.Notes) != 1 {
			t.Errorf("%+v: from %s, notes %q", at, x.Full, x.Notes)
		}
	}
}

func TestDrill_AWrongFullCountsForNothing(t *testing.T) {
	f := makeFixture(t, false)
	ctx := etcdtest.Context(t)
	wrong := place(t, makeWrong(t, f)).ID()
	s := f.store(t, f.bucket)
	x, err := s.Drill(ctx, backup.At{}, nil)
	if err != nil || !x.HashChecked || x.Full == wrong {
		t.Fatalf("%+v, %v", x, err)
	}
	v, err := s.LastVerified(ctx, "a1b2")
	if err != nil || !slices.Equal(v.Wrong, []string{wrong}) {
		t.Fatalf("%+v, %v", v, err)
	}
	if _, err := s.Prune(ctx, cke.Retention{Last: 1}, false); err != nil {
		t.Fatal(err)
	}
	f.extractOK(t, f.bucket, backup.At{Revision: f.last})
}

// Nothing is deleted while no drill succeeds.
func TestPrune_WaitsForADrillToSucceed(t *testing.T) {
	f := makeFixture(t, false)
	ctx := etcdtest.Context(t)
	fulls, deltas := f.objects(t)
	broken := f.bucket.Clone()
	broken.Set(deltas[4], nil)
	s := f.store(t, broken)
	if _, err := s.Drill(ctx, backup.At{}, nil); !backup.IsDamage(err) {
		t.Fatal(err)
	}
	if plan, err := s.Prune(ctx, cke.Retention{Last: 1}, false); err != nil || len(plan.Delete) != 0 {
		t.Errorf("%d objects were deleted: %v", len(plan.Delete), err)
	}
	broken.Set(deltas[4], f.bucket.Get(deltas[4]))
	if _, err := s.Drill(ctx, backup.At{}, nil); err != nil {
		t.Fatal(err)
	}
	if plan, err := s.Prune(ctx, cke.Retention{Last: 1}, false); err != nil || len(plan.Delete) == 0 {
		t.Errorf("%d objects were deleted: %v", len(plan.Delete), err)
	}
	if _, err := backup.ReadHeader(ctx, broken, place(t, fulls[1])); err != nil {
		t.Error(err)
	}
}

// A full of which only the name is left, or a part, is none that a retention could count.
func TestPrune_ABrokenFullCountsForNothing(t *testing.T) {
	f := makeFixture(t, false)
	fulls, _ := f.objects(t)
	whole := f.bucket.Get(fulls[1])
	for name, content := range map[string][]byte{"empty": nil, "cut short": whole[:len(whole)-100]} {
		b := f.bucket.Clone()
		b.Set(fulls[1], content)
		if _, err := f.store(t, b).Prune(etcdtest.Context(t), cke.Retention{Last: 1}, false); err != nil {
			t.Fatal(name, err)
		}
		f.extractOK(t, b, backup.At{Revision: f.last})
		if !slices.Contains(names(t, b), fulls[1]) {
			t.Errorf("%s: it was deleted, and nobody could look into it", name)
		}
	}
}

func TestCompact_DoesNotBuildOnAWrongFull(t *testing.T) {
	f := makeFixture(t, false)
	ctx := etcdtest.Context(t)
	makeWrong(t, f)
	s := f.store(t, f.bucket)
	p, err := s.Compact(ctx, backup.At{}, backup.CompactOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.extractOK(t, f.bucket, backup.At{Full: p.ID()})
}
