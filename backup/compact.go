package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"filippo.io/age"
)

// CompactOptions change how a chain is merged.
type CompactOptions struct {
	Recipients []age.Recipient
	// Guard is asked before the result is written; nil: no guard.
	Guard  func() error
	Writer string
	Term   int64
}

// Compact merges a full and the deltas up to a point into a new full, offline. What is superseded and was compacted
// away in the cluster is left out, so that HashKV stays what it was. The objects that it was made from stay; Prune takes
// them in its time. Repeating it writes nothing new.
func (s *Store) Compact(ctx context.Context, at At, o CompactOptions) (Place, error) {
	dir, err := os.MkdirTemp(s.Scratch, "cke-compact-")
	if err != nil {
		return Place{}, err
	}
	defer os.RemoveAll(dir)
	merged, small := filepath.Join(dir, "merged"), filepath.Join(dir, "small")
	x, err := s.extract(ctx, at, merged, ExtractOptions{scratch: true, bare: true})
	if err != nil {
		return Place{}, err
	}
	if x.Deltas == 0 {
		p, _ := s.placeOf(ctx, x)
		return p, nil
	}
	if superseded, err := hasSuperseded(merged); err != nil {
		return Place{}, fmt.Errorf("merge backups: %w", err)
	} else if !superseded {
		small = merged
	} else if err := rewrite(ctx, merged, small); err != nil {
		return Place{}, fmt.Errorf("merge backups: %w", err)
	} else if err := os.Remove(merged); err != nil {
		return Place{}, err
	}
	h := Header{Place: FullPlace(s.Cluster, x.Lineage, x.Revision, x.End), Merged: true, Begin: x.End, End: x.End,
		Writer: o.Writer, Term: o.Term, EtcdVersion: x.EtcdVersion}
	if x.Hash != nil {
		h.Hashes = []Hash{*x.Hash}
	}
	c, h, err := SealFull(ctx, small, filepath.Join(dir, "body"), s.Bucket, h, o.Recipients)
	if err != nil {
		return Place{}, err
	}
	err = s.Retry.Put(ctx, s.Bucket, h.Place.Name(), c, o.Guard)
	if errors.Is(err, ErrExists) {
		err = nil // made before, from the same changes
	}
	return h.Place, err
}

func (s *Store) placeOf(ctx context.Context, x Extracted) (Place, error) {
	l, err := s.Lineage(ctx, x.Lineage)
	for _, f := range l.Fulls {
		if f.ID() == x.Full {
			return f.Place, nil
		}
	}
	return Place{}, err
}

// hasSuperseded tells whether a compaction is ordered in a database that was not done.
func hasSuperseded(file string) (yes bool, err error) {
	defer guard(&err)()
	db, err := openDB(file, true, 0)
	if err != nil {
		return false, err
	}
	defer db.Close()
	err = db.View(func(tx *bolt.Tx) error {
		ordered, _ := parseRecordKey(tx.Bucket(bucketMeta).Get(scheduledCompact))
		done, _ := parseRecordKey(tx.Bucket(bucketMeta).Get(finishedCompact))
		yes = ordered.Main > done.Main
		return nil
	})
	return yes, err
}

// rewrite copies a database without what its ordered compaction leaves out, and without free pages.
func rewrite(ctx context.Context, from, to string) (err error) {
	defer guard(&err)()
	src, err := openDB(from, true, 0)
	if err != nil {
		return err
	}
	defer src.Close()
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	dst, err := openDB(to, false, info.Size()+64<<20)
	if err != nil {
		return err
	}
	err = src.View(func(tx *bolt.Tx) error { return copyBuckets(ctx, tx, dst) })
	return errors.Join(err, dst.Close())
}

func copyBuckets(ctx context.Context, tx *bolt.Tx, dst *bolt.DB) error {
	info, err := inspect(tx)
	if err != nil {
		return err
	}
	w := &bucketWriter{db: dst}
	err = tx.ForEach(func(name []byte, b *bolt.Bucket) error {
		skip := func(k []byte) bool { return false }
		if string(name) == string(bucketKey) && info.Compacted > 0 {
			keep, _, err := survivors(ctx, b, info.Compacted, info.Compacted)
			if err != nil {
				return err
			}
			i := -1
			skip = func(k []byte) bool {
				r, _ := parseRecordKey(k)
				if r.Main > info.Compacted {
					return false
				}
				i++
				// etcd keeps a tombstone of the very revision that it compacts to.
				return !keep.has(i) && !(r.Tombstone && r.Main == info.Compacted)
			}
		}
		return w.copy(name, b, skip)
	})
	if err = errors.Join(err, w.commit()); err != nil || info.Compacted == 0 {
		return err
	}
	return dst.Update(func(tx *bolt.Tx) error { return setCompacted(tx, info.Compacted, true) })
}

// bucketWriter fills a database in transactions of bounded size.
type bucketWriter struct {
	db      *bolt.DB
	tx      *bolt.Tx
	bucket  *bolt.Bucket
	records int
	bytes   int
}

func (w *bucketWriter) copy(name []byte, b *bolt.Bucket, skip func(k []byte) bool) error {
	if err := w.open(name); err != nil {
		return err
	}
	return b.ForEach(func(k, v []byte) error {
		if skip(k) {
			return nil
		}
		if w.records >= batchRecords || w.bytes >= batchBytes {
			if err := w.commit(); err != nil {
				return err
			}
			if err := w.open(name); err != nil {
				return err
			}
		}
		w.records++
		w.bytes += len(k) + len(v)
		return w.bucket.Put(k, v)
	})
}

func (w *bucketWriter) open(name []byte) (err error) {
	if w.tx == nil {
		if w.tx, err = w.db.Begin(true); err != nil {
			return err
		}
	}
	w.bucket, err = w.tx.CreateBucketIfNotExists(name)
	if err == nil {
		w.bucket.FillPercent = fillPercent
	}
	return err
}

func (w *bucketWriter) commit() error {
	if w.tx == nil {
		return nil
	}
	err := w.tx.Commit()
	w.tx, w.records, w.bytes = nil, 0, 0
	return err
}
