package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	bolt "go.etcd.io/bbolt"

	"cke/backup/internal/pages"
	"cke/backup/internal/stream"
	"cke/internal/contain"
)

// What etcd's database holds: buckets and the keys of bucket "meta" and "auth" that matter here.
// Source: etcd server, storage/schema/bucket.go; unchanged from 3.4 to 3.7.
var (
	bucketKey   = []byte("key")
	bucketMeta  = []byte("meta")
	bucketLease = []byte("lease")
	bucketAuth  = []byte("auth")

	scheduledCompact = []byte("scheduledCompactRev")
	finishedCompact  = []byte("finishedCompactRev")
	authRevision     = []byte("authRevision")
	authEnabled      = []byte("authEnabled")
)

// SnapshotInfo is what an etcd snapshot file contains about itself.
type SnapshotInfo struct {
	// Revision is the store's revision, computed as etcd does when it starts on the file.
	Revision int64
	// Compacted is the revision to which a compaction was ordered; 0 means never.
	Compacted    int64
	AuthRevision uint64
	AuthEnabled  bool
	Leases       int64
}

// snapshotBlock: etcd's database has whole blocks, and a snapshot file is one digest longer.
const snapshotBlock = 512

// checkTree walks a database file of etcd, with or without the digest at its end. pages.Edge is all that InspectSnapshot reads.
func checkTree(ctx context.Context, path string, e pages.Extent) error {
	_, err := pages.Walk(ctx, path, pages.Look{Extent: e, Bucket: bucketKey})
	return err
}

// newSieve keeps of a snapshot what InspectSnapshot reads.
func newSieve(f *os.File) *pages.Sieve { return &pages.Sieve{File: f, Ours: isRecordKey} }

// InspectSnapshot reads the SnapshotInfo of an etcd snapshot or database file.
func InspectSnapshot(path string) (info SnapshotInfo, err error) {
	defer pages.Guard(&err)()
	if err := checkTree(context.Background(), path, pages.Edge); err != nil {
		return info, err
	}
	db, err := pages.Open(path, true)
	if err != nil {
		return info, fmt.Errorf("open %s as a database: %w", path, err)
	}
	defer db.Close()
	err = db.View(func(tx *bolt.Tx) error {
		info, err = inspect(tx)
		return err
	})
	return info, err
}

func inspect(tx *bolt.Tx) (SnapshotInfo, error) {
	info := SnapshotInfo{Revision: 1}
	if tx.Bucket(bucketKey) == nil || tx.Bucket(bucketMeta) == nil {
		return info, damaged("not an etcd database: it has no bucket %q or %q", bucketKey, bucketMeta)
	}
	if k, _ := tx.Bucket(bucketKey).Cursor().Last(); k != nil {
		r, ok := parseRecordKey(k)
		if !ok {
			return info, damaged("unknown key %x in bucket %q", k, bucketKey)
		}
		info.Revision = max(info.Revision, r.Main)
	}
	for _, name := range [][]byte{scheduledCompact, finishedCompact} {
		if r, ok := parseRecordKey(tx.Bucket(bucketMeta).Get(name)); ok {
			info.Compacted = max(info.Compacted, r.Main)
		}
	}
	info.Revision = max(info.Revision, info.Compacted)
	if auth := tx.Bucket(bucketAuth); auth != nil {
		if v := auth.Get(authRevision); len(v) == 8 {
			info.AuthRevision = binary.BigEndian.Uint64(v)
		}
		info.AuthEnabled = bytes.Equal(auth.Get(authEnabled), []byte{1})
	}
	if leases := tx.Bucket(bucketLease); leases != nil {
		c := leases.Cursor()
		for k, _ := c.First(); k != nil; k, _ = c.Next() {
			info.Leases++
		}
	}
	return info, nil
}

// readLeases returns the leases in a bucket: id → time granted in seconds.
func readLeases(b *bolt.Bucket) (map[int64]int64, error) {
	known := map[int64]int64{}
	err := b.ForEach(func(k, v []byte) error {
		if len(k) != 8 {
			return damaged("unknown key %x in bucket %q", k, bucketLease)
		}
		known[int64(binary.BigEndian.Uint64(k))] = leaseTTL(v)
		return nil
	})
	return known, err
}

// leaseTTL reads field 2 of leasepb.Lease.
func leaseTTL(b []byte) int64 {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return 0
		}
		v, m := binary.Uvarint(b[n:])
		if m <= 0 {
			return 0
		}
		if tag == 2<<3 {
			return int64(v)
		}
		b = b[n+m:]
	}
	return 0
}

// trimDigest cuts the digest off that follows the database in a snapshot file.
func trimDigest(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Size()%snapshotBlock != sha256.Size {
		return damaged("a snapshot of %d bytes has no digest at its end", info.Size())
	}
	return os.Truncate(path, info.Size()-sha256.Size)
}

// appendDigest completes a database file to a snapshot, and returns the SHA-256 of that in hex. With durable it also syncs
// it: hashing and writing back continue side by side.
func appendDigest(ctx context.Context, path string, durable bool) (digest string, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	digest, err = putDigest(f, durable, func() (hash.Hash, int64, error) {
		h, size, err := hashFile(ctx, f)
		if err == nil && size%snapshotBlock != 0 {
			err = fmt.Errorf("the database has %d bytes, which is not a whole number of blocks", size)
		}
		return h, size, err
	})
	if err != nil {
		return "", err
	}
	return digest, f.Close()
}

// putDigest writes the digest of a database behind it, and returns that of both in hex. digest makes the first, and says where
// the database ends. With durable the file is synced: beside that, and once more in the end.
func putDigest(f *os.File, durable bool, digest func() (hash.Hash, int64, error)) (string, error) {
	sync := func() error { return nil }
	if durable {
		sync = f.Sync
	}
	synced := make(chan error, 1)
	go contain.Work(func() { synced <- sync() }, func(err error) { synced <- err })()
	h, size, err := digest()
	if err := errors.Join(err, <-synced); err != nil {
		return "", err
	}
	sum := h.Sum(nil)
	if _, err := f.WriteAt(sum, size); err != nil {
		return "", err
	}
	h.Write(sum)
	return hex.EncodeToString(h.Sum(nil)), sync()
}

// hashFile digests a file.
func hashFile(ctx context.Context, f *os.File) (h hash.Hash, size int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	h = sha256.New()
	return h, info.Size(), digestFile(ctx, h, f, 0, info.Size())
}

// digestFile takes a part of a file into a digest. What the disk does not give back is an os.PathError, as of any file of this
// host.
func digestFile(ctx context.Context, h hash.Hash, f *os.File, from, to int64) error {
	ahead := stream.NewReadAhead(&contextReader{ctx, io.NewSectionReader(f, from, to-from)})
	defer ahead.Close()
	n, err := io.Copy(h, ahead)
	if err == nil && n < to-from {
		err = &os.PathError{Op: "read", Path: f.Name(), Err: io.ErrUnexpectedEOF}
	}
	return err
}
