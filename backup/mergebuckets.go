package backup

import (
	"context"
	"encoding/binary"

	bolt "go.etcd.io/bbolt"

	"cke/backup/internal/pages"
)

// buckets writes the root of the result, and what is new in the buckets that it leads to.
func (m *merger) buckets(ctx context.Context, tx *bolt.Tx, added pages.Subtree) error {
	found, err := inspect(tx)
	m.found = found
	if err == nil && found.Revision != m.a.base {
		err = wrongRevision(found.Revision, m.a.base)
	}
	if err != nil {
		return err
	}
	if err := m.a.needsLeases(tx); err != nil {
		return err
	}
	var all []pages.Item
	err = tx.ForEach(func(name []byte, b *bolt.Bucket) error {
		root, err := m.bucket(ctx, name, b, added)
		all = append(all, pages.BucketItem(name, root, b.Sequence()))
		return err
	})
	if err == nil {
		err = m.w.Flush()
	}
	if err != nil {
		return err
	}
	return m.w.WriteBuckets(m.meta.Root, all)
}

// bucket returns where a bucket of the result starts.
func (m *merger) bucket(ctx context.Context, name []byte, b *bolt.Bucket, added pages.Subtree) (uint64, error) {
	switch string(name) {
	case string(bucketKey):
		if added.Height > 0 {
			return m.joinKeys(ctx, b, added)
		}
	case string(bucketAlarm):
		return pages.NewLoader(m.w).BucketRoot()
	}
	change, err := m.a.changes(name, b, &m.found)
	if err != nil {
		return 0, err
	}
	if len(change) == 0 && b.Root() != 0 {
		return uint64(b.Root()), nil
	}
	return m.w.CopyBucket(b, change)
}

// joinKeys returns where the records of both begin.
func (m *merger) joinKeys(ctx context.Context, b *bolt.Bucket, added pages.Subtree) (uint64, error) {
	if b.Root() != 0 {
		t, err := pages.OpenTree(ctx, m.f.Name())
		if err != nil {
			return 0, err
		}
		defer t.Close()
		left, err := t.RightEdge(uint64(b.Root()))
		if err != nil {
			return 0, err
		}
		return pages.Join(m.w, left, added)
	}
	few := pages.NewLoader(m.w) // they stand within the page of the buckets
	if err := b.ForEach(few.Add); err != nil {
		return 0, err
	}
	left, err := few.Finish()
	if err != nil {
		return 0, err
	}
	return pages.Join(m.w, left, added)
}

// changes returns how a bucket of the full has to change, records and alarms left aside; nil takes a key out. found is what the full
// says of itself, and gets the leases of the result.
func (a *applier) changes(name []byte, b *bolt.Bucket, found *SnapshotInfo) (map[string][]byte, error) {
	switch string(name) {
	case string(bucketLease):
		return a.leaseChanges(b, found)
	case string(bucketMeta):
		// A compaction that etcd did after the full: order it again, so that etcd does it as soon as it starts on the file.
		// HashKV counts by what is ordered, so it is right at once.
		if a.compacted > found.Compacted && a.compacted <= a.revision {
			return map[string][]byte{string(scheduledCompact): Record{Main: a.compacted}.AppendKey(nil)}, nil
		}
	}
	return nil, nil
}

// leaseChanges returns how the leases of the full have to change. What is there already with the same time stays as it is, with the
// remaining time that etcd may have noted.
func (a *applier) leaseChanges(b *bolt.Bucket, found *SnapshotInfo) (change map[string][]byte, err error) {
	full, err := readLeases(b)
	if err != nil {
		return nil, err
	}
	change = map[string][]byte{}
	settled := a.leases.settle(full)
	found.Leases = int64(len(settled))
	for id := range full {
		if _, there := settled[id]; !there {
			change[leaseKey(id)] = nil
		}
	}
	for id, ttl := range settled {
		if was, there := full[id]; !there || was != ttl {
			change[leaseKey(id)] = appendInt(appendInt(nil, 1<<3, id), 2<<3, ttl) // leasepb.Lease: ID = 1, TTL = 2
		}
	}
	return change, nil
}

// needsLeases refuses a database that has no room for the leases there are.
func (a *applier) needsLeases(tx *bolt.Tx) error {
	if tx.Bucket(bucketLease) == nil && len(a.leases.settle(nil)) > 0 {
		return damaged("not an etcd database: it has no bucket %q", bucketLease)
	}
	return nil
}

func leaseKey(id int64) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(id)))
}
