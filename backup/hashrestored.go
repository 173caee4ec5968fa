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
		hash.Hash, _, err = hashKV(ctx, b, hash.Revision, hash.Compacted, func(value []byte) bool {
			key, _, _ := parseKeyValue(value)
			return len(key) > 0
		})
		hash.Hash = crc32.Update(hash.Hash, castagnoli, Record{Main: hash.Revision}.AppendKey(nil))
		return err
	})
	return hash, err
}
