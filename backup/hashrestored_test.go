package backup

import (
	"fmt"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// A cluster may be restored again and again. Each time the tool writes a record without a name at the revision that it
// moved to; etcd takes the next one for a newer revision of the same key, and compacts the last one away.
func TestHashOfWhatWasRestoredBefore(t *testing.T) {
	const bump = 1_000_000_000
	put := func(b *bolt.Bucket, main int64, key string) {
		t.Helper()
		var v []byte
		if key != "" {
			v = appendKeyValue(nil, &Change{Key: []byte(key), Value: fmt.Append(nil, main)})
		}
		if err := b.Put(Record{Main: main}.AppendKey(nil), v); err != nil {
			t.Fatal(err)
		}
	}
	for _, restores := range []int{0, 1, 2} {
		t.Run(fmt.Sprintf("%d restores before", restores), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "db")
			db, err := bolt.Open(file, 0o600, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			last := int64(0)
			update := func(f func(*bolt.Bucket)) {
				t.Helper()
				if err := db.Update(func(tx *bolt.Tx) error {
					b, err := tx.CreateBucketIfNotExists(bucketKey)
					if err == nil {
						f(b)
					}
					return err
				}); err != nil {
					t.Fatal(err)
				}
			}
			update(func(b *bolt.Bucket) {
				for r := range restores + 1 {
					if r > 0 {
						last += bump
						put(b, last, "") // as the tool does
					}
					for _, key := range []string{"a", "b", "a"} {
						last++
						put(b, last, key)
					}
				}
			})
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			got, err := HashRestored(t.Context(), file, bump)
			if err != nil {
				t.Fatal(err)
			}
			if db, err = bolt.Open(file, 0o600, nil); err != nil {
				t.Fatal(err)
			}
			update(func(b *bolt.Bucket) { put(b, last+bump, "") })
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			want, err := HashSnapshot(t.Context(), file, last+bump, last+bump)
			if err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Errorf("got %+v, etcd has %+v", got, want)
			}
		})
	}
}
