package backup

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
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
		update(t, src, func(tx *bolt.Tx) error {
			b, err := tx.CreateBucket(bucketAuth)
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
		w := newPageWriter(f, size, 2)
		err = src.View(func(tx *bolt.Tx) error {
			root, err := w.copyBucket(tx.Bucket(bucketAuth), nil)
			return errors.Join(err, w.completeDB([]item{bucketItem(bucketAuth, root, 0)}))
		})
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		if err := checkTree(t.Context(), f.Name(), allRules); err != nil {
			t.Errorf("%d, in pages of %d: %v", seed, size, err)
		}
		db, err := openDB(f.Name(), false)
		if err != nil {
			t.Fatal(err)
		}
		update(t, db, func(tx *bolt.Tx) error { // all of it goes, as bbolt takes it out
			b := tx.Bucket(bucketAuth)
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
	key := func(n int64) item { return item{key: Record{Main: n}.AppendKey(nil), value: []byte("v")} }
	for name, root := range map[string]func(w *pageWriter) (uint64, error){
		"a branch with one page below": func(w *pageWriter) (uint64, error) {
			leaf, err := w.writePage(leafPage, []item{key(2)})
			if err != nil {
				return 0, err
			}
			return w.writePage(branchPage, []item{{key: key(2).key, child: leaf}})
		},
		"leaves at two depths": func(w *pageWriter) (uint64, error) {
			var leaves []item
			for n := range int64(3) {
				leaf, err := w.writePage(leafPage, []item{key(n)})
				if err != nil {
					return 0, err
				}
				leaves = append(leaves, item{key: key(n).key, child: leaf})
			}
			below, err := w.writePage(branchPage, leaves[:2])
			if err != nil {
				return 0, err
			}
			return w.writePage(branchPage, []item{{key: leaves[0].key, child: below}, leaves[2]})
		},
	} {
		path := filepath.Join(t.TempDir(), "db")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		w := newPageWriter(f, 4096, 2)
		id, err := root(w)
		if err == nil {
			err = w.completeDB([]item{bucketItem(bucketKey, id, 0)})
		}
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		if err := checkTree(t.Context(), path, allPages); err != nil {
			t.Errorf("%s: a reader finds %v", name, err)
		}
		if err := checkTree(t.Context(), path, allRules); !IsDamage(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
