package pages

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"cke/backup/internal/damage"
)

// Names of users and roles may be long: longer than a page, too.
func TestCopyBucket_KeysOfAnyLength(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 2))
		dir, size := t.TempDir(), 512<<r.IntN(4)
		src, err := bolt.Open(filepath.Join(dir, "src"), 0o600, &bolt.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		defer src.Close()
		wanted := map[string]string{}
		change(t, src, func(tx *bolt.Tx) error {
			b, err := tx.CreateBucket([]byte("auth"))
			for most := 1 + r.IntN(4000); err == nil && len(wanted) < 200; {
				key := fmt.Appendf(nil, "%04d%s", r.IntN(10_000), make([]byte, r.IntN(most)))
				wanted[string(key)] = string(make([]byte, r.IntN(200)))
				err = b.Put(key, []byte(wanted[string(key)]))
			}
			return err
		})
		f, err := os.Create(filepath.Join(dir, "db"))
		if err != nil {
			t.Fatal(err)
		}
		w := NewWriter(f, size, 2)
		err = src.View(func(tx *bolt.Tx) error {
			root, err := w.CopyBucket(tx.Bucket([]byte("auth")), nil)
			return errors.Join(err, w.Complete([]Item{BucketItem([]byte("auth"), root, 0)}))
		})
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		if err := check(t.Context(), f.Name(), AllRules); err != nil {
			t.Errorf("%d, in pages of %d: %v", seed, size, err)
		}
		db, err := Open(f.Name(), false)
		if err != nil {
			t.Fatal(err)
		}
		change(t, db, func(tx *bolt.Tx) error { // all of it goes, as bbolt takes it out
			b := tx.Bucket([]byte("auth"))
			for k, v := range wanted {
				if got := b.Get([]byte(k)); got == nil || string(got) != v {
					t.Errorf("%d, in pages of %d: %.8q is %q", seed, size, k, got)
				}
				if err := b.Delete([]byte(k)); err != nil {
					return err
				}
			}
			if k, _ := b.Cursor().First(); k != nil {
				t.Errorf("%d, in pages of %d: %.8q is left", seed, size, k)
			}
			return nil
		})
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A tree of which every reader is content, and at which bbolt would end as soon as it deletes from it.
func TestWalk_NoticesWhatOnlyAWriterWould(t *testing.T) {
	key := func(n int64) Item {
		return Item{Key: binary.BigEndian.AppendUint64(nil, uint64(n)), Value: []byte("v")}
	}
	for name, root := range map[string]func(w *Writer) (uint64, error){
		"a branch with one page below": func(w *Writer) (uint64, error) {
			leaf, err := w.WritePage(LeafPage, []Item{key(2)})
			if err != nil {
				return 0, err
			}
			return w.WritePage(BranchPage, []Item{{Key: key(2).Key, Child: leaf}})
		},
		"leaves at two depths": func(w *Writer) (uint64, error) {
			var leaves []Item
			for n := range int64(3) {
				leaf, err := w.WritePage(LeafPage, []Item{key(n)})
				if err != nil {
					return 0, err
				}
				leaves = append(leaves, Item{Key: key(n).Key, Child: leaf})
			}
			below, err := w.WritePage(BranchPage, leaves[:2])
			if err != nil {
				return 0, err
			}
			return w.WritePage(BranchPage, []Item{{Key: leaves[0].Key, Child: below}, leaves[2]})
		},
	} {
		path := filepath.Join(t.TempDir(), "db")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		w := NewWriter(f, 4096, 2)
		id, err := root(w)
		if err == nil {
			err = w.Complete([]Item{BucketItem([]byte("key"), id, 0)})
		}
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		if err := check(t.Context(), path, AllPages); err != nil {
			t.Errorf("%s: a reader finds %v", name, err)
		}
		if err := check(t.Context(), path, AllRules); !damage.Is(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// check walks a database.
func check(ctx context.Context, path string, e Extent) error {
	_, err := Walk(ctx, path, Look{Extent: e})
	return err
}

// change has bbolt change a database.
func change(t *testing.T, db *bolt.DB, do func(tx *bolt.Tx) error) {
	t.Helper()
	if err := db.Update(do); err != nil {
		t.Fatal(err)
	}
}
