package backup

import (
	"context"
	"hash/crc32"

	bolt "go.etcd.io/bbolt"
)

// HashRestored computes etcd's HashKV after a snapshot file was restored by `etcdutl snapshot restore` with
// --bump-revision and --mark-compacted: at the new revision, with everything before it compacted.
//
// The tool writes an empty record at that revision, which etcd reads as a live key without a name. No client can write
// such a key, so one in the file is from an earlier restore, and the new one replaces it.
// Source: etcdutl, snapshot/v3_snapshot.go, modifyLatestRevision.
func HashRestored(ctx context.Context, path string, bump int64) (hash Hash, err error) {
	err = viewKeys(ctx, path, func(b *bolt.Bucket) (err error) {
		var last Record
		if k, _ := b.Cursor().Last(); k != nil {
			last, _ = parseRecordKey(k) // survivors reads them all, and tells
		}
		hash.Revision = last.Main + bump
		hash.Compacted = hash.Revision
		hash.Hash, err = hashRestored(ctx, b, hash.Revision)
		return err
	})
	return hash, err
}

func hashRestored(ctx context.Context, b *bolt.Bucket, revision int64) (uint32, error) {
	keep, _, err := survivors(ctx, b, revision, revision)
	if err != nil {
		return 0, err
	}
	h := crc32.Update(0, castagnoli, bucketKey)
	c := b.Cursor()
	i := 0
	p := pulse{ctx: ctx}
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if err := p.check(); err != nil {
			return 0, err
		}
		if i++; !keep.Has(i - 1) {
			continue
		}
		if key, _, _ := parseKeyValue(v); len(key) > 0 {
			h = crc32.Update(crc32.Update(h, castagnoli, k), castagnoli, v)
		}
	}
	return crc32.Update(h, castagnoli, Record{Main: revision}.AppendKey(nil)), nil
}
