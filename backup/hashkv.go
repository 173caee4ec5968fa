package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"hash/crc32"

	bolt "go.etcd.io/bbolt"

	"cke/backup/internal/pages"
)

// castagnoli is the polynomial of etcd's hashes.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// HashSnapshot computes etcd's HashKV for a revision, after everything up to compacted is compacted, from a snapshot or
// database file. compacted < 1 means never. Memory: 32 bytes for each key.
// Source: etcd server, storage/mvcc/hash.go.
func HashSnapshot(ctx context.Context, path string, revision, compacted int64) (Hash, error) {
	hash := Hash{Revision: revision, Compacted: compacted}
	err := viewKeys(ctx, path, func(b *bolt.Bucket) (err error) {
		hash.Hash, _, err = hashKV(ctx, b, revision, compacted, func([]byte) bool { return true })
		return err
	})
	return hash, err
}

// viewKeys has look read the bucket of all records in a snapshot or database file, whose tree it checks before.
func viewKeys(ctx context.Context, path string, look func(b *bolt.Bucket) error) (err error) {
	defer pages.Guard(&err)()
	if err := checkTree(ctx, path, pages.Reachable); err != nil {
		return err
	}
	db, err := pages.Open(path, true)
	if err != nil {
		return fmt.Errorf("open %s as a database: %w", path, err)
	}
	defer db.Close()
	return db.View(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketKey)
		if b == nil {
			return damaged("not an etcd database")
		}
		return look(b)
	})
}

// hashKV leaves out records that do not count by their value. live counts all keys that live at the revision.
func hashKV(ctx context.Context, b *bolt.Bucket, revision, compacted int64, counts func(value []byte) bool) (hash uint32, live int64, err error) {
	keep, live, err := survivors(ctx, b, revision, compacted)
	if err != nil {
		return 0, 0, err
	}
	if live == 0 {
		// Nothing lives at the revision: etcd then hashes all that a compaction left in the file.
		if keep, _, err = survivors(ctx, b, compacted, compacted); err != nil {
			return 0, 0, err
		}
	}
	h := crc32.Update(0, castagnoli, bucketKey)
	c := b.Cursor()
	i := 0
	p := pulse{ctx: ctx}
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if err := p.check(); err != nil {
			return 0, 0, err
		}
		r, _ := parseRecordKey(k) // survivors has read them all
		if r.Main > revision {
			break
		}
		if r.Main <= compacted {
			kept := keep.Has(i)
			i++
			if !kept || r.Tombstone && r.Main == compacted {
				continue
			}
		}
		if counts(v) {
			h = crc32.Update(crc32.Update(h, castagnoli, k), castagnoli, v)
		}
	}
	return h, live, nil
}

// survivors marks, among the records up to compacted, those that are the newest of their key at a revision and no
// tombstones; bit i is for the i-th record. live counts all keys that live at the revision.
func survivors(ctx context.Context, b *bolt.Bucket, revision, compacted int64) (keep pages.Bitmap, live int64, err error) {
	p := pulse{ctx: ctx}
	total := 0 // records up to compacted
	c := b.Cursor()
	var k, v []byte
	if compacted > 0 {
		for k, _ = c.First(); k != nil; k, _ = c.Next() {
			if err := p.check(); err != nil {
				return nil, 0, err
			}
			r, ok := parseRecordKey(k)
			if !ok {
				return nil, 0, damaged("unknown key %x in bucket %q", k, bucketKey)
			}
			if r.Main > compacted {
				break
			}
			total++
		}
	}
	keep = pages.NewBitmap(total)
	// From the newest to the oldest: the first record of a key that is met is the one that counts.
	seen := newKeySet()
	end := Record{Main: revision + 1}.AppendKey(nil)
	if k, v = c.Seek(end); k == nil {
		k, v = c.Last()
	}
	for ; k != nil && bytes.Compare(k, end) >= 0; k, v = c.Prev() {
	}
	for i := total; k != nil; k, v = c.Prev() {
		if err := p.check(); err != nil {
			return nil, 0, err
		}
		r, ok := parseRecordKey(k)
		if !ok {
			return nil, 0, damaged("unknown key %x in bucket %q", k, bucketKey)
		}
		key, _, ok := parseKeyValue(v)
		if !ok {
			return nil, 0, damaged("the record of revision %d.%d cannot be read", r.Main, r.Sub)
		}
		newest := seen.add(key) && !r.Tombstone
		if newest {
			live++
		}
		if r.Main <= compacted {
			i--
			if newest {
				keep.Set(i)
			}
		}
	}
	return keep, live, nil
}

// pulse checks a context now and then.
type pulse struct {
	ctx context.Context
	n   int
}

func (p *pulse) check() error {
	if p.n++; p.n%4096 != 0 {
		return nil
	}
	return p.ctx.Err()
}

// keySet is a set of byte strings that keeps 16 bytes of each one's SHA-256: two keys are never taken for one, short
// of a broken hash, whatever their lengths.
type keySet struct {
	slots [][16]byte
	used  int
}

func newKeySet() *keySet { return &keySet{slots: make([][16]byte, 1<<10)} }

// add reports whether the key was new.
func (s *keySet) add(key []byte) bool {
	sum := sha256.Sum256(key)
	id := [16]byte(sum[:16])
	if id == ([16]byte{}) {
		id[0] = 1 // zero marks an empty slot
	}
	if 4*s.used >= 3*len(s.slots) {
		old := s.slots
		s.slots = make([][16]byte, 2*len(old))
		for _, o := range old {
			if o != ([16]byte{}) {
				*s.slot(o) = o
			}
		}
	}
	slot := s.slot(id)
	if *slot == id {
		return false
	}
	*slot = id
	s.used++
	return true
}

func (s *keySet) slot(id [16]byte) *[16]byte {
	mask := len(s.slots) - 1
	i := (int(id[0]) | int(id[1])<<8 | int(id[2])<<16 | int(id[3])<<24) & mask
	for s.slots[i] != ([16]byte{}) && s.slots[i] != id {
		i = (i + 1) & mask
	}
	return &s.slots[i]
}
