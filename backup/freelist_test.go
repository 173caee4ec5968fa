package backup

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// The list is the one that bbolt would make by itself, and nothing else in the database differs.
func TestListFree_IsWhatBboltWouldFind(t *testing.T) {
	for name, tc := range map[string]struct {
		pageSize int
		gone     int // bytes of a value that is there no more
	}{
		"hardly any":                 {pageSize: 4096},
		"a few":                      {pageSize: 4096, gone: 100_000},
		"more than a header counts":  {pageSize: 512, gone: 34 << 20},
		"as many, in pages of 64KiB": {pageSize: 64 << 10, gone: 8 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			plain, listed := filepath.Join(dir, "plain"), filepath.Join(dir, "listed")
			unlistedDB(t, plain, tc.pageSize, tc.gone)
			data, err := os.ReadFile(plain)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(listed, data, 0o600); err != nil {
				t.Fatal(err)
			}
			tree, err := walkTree(t.Context(), listed, allPages)
			if err != nil {
				t.Fatal(err)
			}
			if err := tree.listFree(listed); err != nil {
				t.Fatal(err)
			}
			if err := checkTree(t.Context(), listed, allPages); err != nil {
				t.Error(err)
			}
			want, records := openedDB(t, plain)
			got, same := openedDB(t, listed)
			if got != want {
				t.Errorf("%d free pages, bbolt finds %d", got, want)
			}
			if !bytes.Equal(same, records) || len(same) == 0 {
				t.Errorf("%d bytes of records, before %d", len(same), len(records))
			}
		})
	}
}

// A list that is there is left alone.
func TestListFree_OneIsEnough(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	unlistedDB(t, path, 4096, 100_000)
	for range 2 {
		before, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		tree, err := walkTree(t.Context(), path, allPages)
		if err != nil {
			t.Fatal(err)
		}
		had := tree.free != noFreeList
		if err := tree.listFree(path); err != nil {
			t.Fatal(err)
		}
		if after, err := os.Stat(path); err != nil || had != (after.Size() == before.Size()) {
			t.Errorf("a list was there: %v; %d bytes became %d: %v", had, before.Size(), after.Size(), err)
		}
	}
}

// unlistedDB makes a database such as etcd has, without a list of free pages.
func unlistedDB(t *testing.T, path string, pageSize, gone int) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{PageSize: pageSize, NoFreelistSync: true, NoSync: true, NoGrowSync: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(b *bolt.Bucket) error{
		func(b *bolt.Bucket) error { return b.Put([]byte("kept"), []byte("1")) },
		func(b *bolt.Bucket) error { return b.Put([]byte("gone"), make([]byte, gone)) },
		func(b *bolt.Bucket) error { return b.Delete([]byte("gone")) },
	} {
		err := db.Update(func(tx *bolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists(bucketKey)
			if err != nil {
				return err
			}
			return change(b)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// openedDB lets bbolt look at a database that it opens to write: how many pages are free, and what it holds.
func openedDB(t *testing.T, path string) (free int, records []byte) {
	t.Helper()
	db, err := openDB(path, false, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	free = db.Stats().FreePageN
	err = db.View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			t.Error(err)
		}
		return tx.Bucket(bucketKey).ForEach(func(k, v []byte) error {
			records = append(append(records, k...), v...)
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	// What is written next takes free pages and leaves all others alone.
	if err := db.Update(func(tx *bolt.Tx) error { return tx.Bucket(bucketKey).Put([]byte("new"), []byte("2")) }); err != nil {
		t.Fatal(err)
	}
	if err := checkTree(t.Context(), path, theTree); err != nil {
		t.Error(err)
	}
	return free, records
}
