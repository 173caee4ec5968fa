package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"cke/backup/internal/pages"
)

// database makes an etcd database by hand, with the history that edit gives it, and returns it as a snapshot.
func database(t *testing.T, pageSize int, edit func(db *bolt.DB)) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "db")
	db, err := bolt.Open(file, 0o600, &bolt.Options{PageSize: pageSize, NoFreelistSync: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range [][]byte{bucketKey, bucketMeta, bucketLease, bucketAuth} {
		update(t, db, func(tx *bolt.Tx) error { _, err := tx.CreateBucket(name); return err })
	}
	edit(db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	return append(data, sum[:]...)
}

func update(t *testing.T, db *bolt.DB, do func(tx *bolt.Tx) error) {
	t.Helper()
	if err := db.Update(do); err != nil {
		t.Fatal(err)
	}
}

func putRecords(t *testing.T, db *bolt.DB, from, to int64, value []byte) {
	t.Helper()
	for rev := from; rev <= to; {
		update(t, db, func(tx *bolt.Tx) error {
			for range 50 {
				if rev > to {
					break
				}
				if err := tx.Bucket(bucketKey).Put(Record{Main: rev}.AppendKey(nil), value); err != nil {
					return err
				}
				rev++
			}
			return nil
		})
	}
}

// sieved streams a snapshot through a FullWriter in pieces of any size and returns what its header tells, and how much of the
// snapshot was kept.
func sieved(t *testing.T, snapshot []byte, whole bool) (Header, int64, error) {
	t.Helper()
	dir := t.TempDir()
	w, err := NewFullWriter(filepath.Join(dir, "pages"), filepath.Join(dir, "body"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if whole {
		w.KeepWhole()
	}
	for p := snapshot; len(p) > 0; {
		n := min(len(p), 1+rand.IntN(100_000))
		if _, err := w.Write(p[:n]); err != nil {
			t.Fatal(err)
		}
		p = p[n:]
	}
	_, h, err := w.Seal(Header{Place: FullPlace("prod", "l", 0, h0)})
	return h, allocated(t, filepath.Join(dir, "pages")), err
}

func TestFullWriter_ReadsTheRevisionFromFewPages(t *testing.T) {
	leases := func(t *testing.T, db *bolt.DB) {
		update(t, db, func(tx *bolt.Tx) error {
			all := map[int64]int64{}
			for id := range int64(3000) {
				all[id+1] = 60
			}
			v := binary.BigEndian.AppendUint64(nil, 7)
			return errors.Join(putLeases(tx, all), tx.Bucket(bucketAuth).Put(authRevision, v), setCompacted(tx, 40, false))
		})
	}
	for name, c := range map[string]struct {
		page int
		edit func(t *testing.T, db *bolt.DB)
		last int64
		few  bool // less than a quarter of the snapshot is kept
	}{
		"empty":                   {4096, func(*testing.T, *bolt.DB) {}, 1, false},
		"in one go":               {4096, func(t *testing.T, db *bolt.DB) { putRecords(t, db, 2, 20_000, make([]byte, 500)) }, 20_000, true},
		"large pages":             {16384, func(t *testing.T, db *bolt.DB) { putRecords(t, db, 2, 20_000, make([]byte, 500)) }, 20_000, true},
		"values larger than page": {4096, func(t *testing.T, db *bolt.DB) { putRecords(t, db, 2, 300, make([]byte, 70_000)) }, 300, false},
		"leases, users and a compaction": {4096, func(t *testing.T, db *bolt.DB) {
			putRecords(t, db, 2, 5000, make([]byte, 300))
			leases(t, db)
			putRecords(t, db, 5001, 10_000, make([]byte, 300))
		}, 10_000, false},
		"much deleted and written again": {4096, func(t *testing.T, db *bolt.DB) {
			for round := range int64(5) {
				putRecords(t, db, 2+round*4000, 1+(round+1)*4000, make([]byte, 200+100*round))
				update(t, db, func(tx *bolt.Tx) error {
					b := tx.Bucket(bucketKey)
					for rev := 2 + round*4000; rev < (round+1)*4000; rev++ {
						if rev%3 != 0 {
							if err := b.Delete(Record{Main: rev}.AppendKey(nil)); err != nil {
								return err
							}
						}
					}
					return nil
				})
			}
		}, 20_001, false},
		"values that look like pages": {4096, func(t *testing.T, db *bolt.DB) {
			evil := make([]byte, 40_000)
			for i := 0; i+16 <= len(evil); i += 16 {
				binary.LittleEndian.PutUint64(evil[i:], uint64(i/64))
				binary.LittleEndian.PutUint16(evil[i+8:], pages.LeafPage)
				binary.LittleEndian.PutUint16(evil[i+10:], 65535)
				binary.LittleEndian.PutUint32(evil[i+12:], 3)
			}
			putRecords(t, db, 2, 400, evil)
		}, 400, false},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot := database(t, c.page, func(db *bolt.DB) { c.edit(t, db) })
			h, kept, err := sieved(t, snapshot, false)
			if err != nil || h.Last != c.last {
				t.Fatalf("revision %d, want %d: %v", h.Last, c.last, err)
			}
			whole, _, err := sieved(t, snapshot, true)
			if err != nil || whole.Leases != h.Leases || whole.Compacted != h.Compacted || whole.AuthRevision != h.AuthRevision || whole.Last != h.Last {
				t.Errorf("from the whole snapshot %+v, from pages %+v, %v", whole, h, err)
			}
			if c.few && kept > int64(len(snapshot))/4 {
				t.Errorf("%d of %d bytes were kept", kept, len(snapshot))
			}
		})
	}
}

// Free pages may hold a later change than the pages in use do. Then nothing is guessed.
func TestFullWriter_StalePagesAreNoticed(t *testing.T) {
	snapshot := database(t, 4096, func(db *bolt.DB) {
		putRecords(t, db, 2, 5000, make([]byte, 500))
		dropNewest(t, db)
	})
	if h, _, err := sieved(t, snapshot, false); !errors.Is(err, ErrNeedsWhole) {
		t.Errorf("revision %d, %v", h.Last, err)
	}
	if h, _, err := sieved(t, snapshot, true); err != nil || h.Last != 5000-120 {
		t.Errorf("kept whole: revision %d, %v", h.Last, err)
	}
}

// dropNewest takes the 120 newest changes away, as their pages do not go.
func dropNewest(t *testing.T, db *bolt.DB) {
	t.Helper()
	for range 3 {
		update(t, db, func(tx *bolt.Tx) error {
			b := tx.Bucket(bucketKey)
			for range 40 {
				k, _ := b.Cursor().Last()
				if err := b.Delete(bytes.Clone(k)); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

func putLeases(tx *bolt.Tx, leases map[int64]int64) error {
	for id, ttl := range leases {
		if err := tx.Bucket(bucketLease).Put([]byte(leaseKey(id)), appendInt(appendInt(nil, 1<<3, id), 2<<3, ttl)); err != nil {
			return err
		}
	}
	return nil
}

// setCompacted orders etcd to compact to a revision as soon as it starts; done: it has been done already.
func setCompacted(tx *bolt.Tx, revision int64, done bool) error {
	v := Record{Main: revision}.AppendKey(nil)
	if err := tx.Bucket(bucketMeta).Put(scheduledCompact, v); err != nil || !done {
		return err
	}
	return tx.Bucket(bucketMeta).Put(finishedCompact, v)
}
