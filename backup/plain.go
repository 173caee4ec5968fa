package backup

import (
	"context"
	"errors"
	"os"

	bolt "go.etcd.io/bbolt"

	"cke/backup/internal/pages"
)

// plainAtOnce is how many bytes of keys and values bbolt writes in one transaction.
const plainAtOnce = 8 << 20

// mergePlain is merge by way of bbolt alone: the full is fetched first, then each record is put into it. It seals no full on the way.
func (s *Store) mergePlain(ctx context.Context, full Place, deltas []Entry, revision int64, file string, o ExtractOptions, x *Extracted) (err error) {
	defer pages.Guard(&err)()
	h, err := s.saveFull(ctx, full, file, nil, !o.scratch, x.witness)
	if err == nil {
		err = trimDigest(file)
	}
	if err == nil { // bbolt believes every number in a file
		err = checkDatabase(ctx, file, h.Last, pages.AllRules)
	}
	if err != nil {
		return full.blame(err)
	}
	x.start(h)
	w, err := openPlain(file)
	if err != nil {
		return full.blame(damaged("open as a database: %w", err))
	}
	defer func() { err = errors.Join(err, w.close()) }()
	a := newApplier(func(key, value []byte) error { return w.put(bucketKey, key, value) }, h, revision)
	if err := s.applyAll(ctx, a, deltas, x); err != nil {
		return err
	}
	x.Records = a.records
	if o.CheckHash {
		x.knowOthers(ctx, h)
	}
	if o.seal != nil && x.users.changed() {
		return ErrOlderUsers
	}
	if err := w.settle(a); err != nil {
		return full.blame(err)
	}
	if err := w.finish(); err != nil || o.bare {
		return err
	}
	x.Digest, err = appendDigest(ctx, file, !o.scratch)
	return err
}

// rewritePlain is rewrite by way of bbolt alone.
func rewritePlain(ctx context.Context, from, to string) (err error) {
	defer pages.Guard(&err)()
	src, err := pages.Open(from, true)
	if err != nil {
		return err
	}
	defer src.Close()
	w, err := createPlain(to, src.Info().PageSize)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	err = src.View(func(tx *bolt.Tx) error {
		info, err := inspect(tx)
		if err != nil {
			return err
		}
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
			if err := w.create(name, b.Sequence()); err != nil {
				return err
			}
			compacted := int64(0)
			if string(name) == string(bucketKey) {
				compacted = info.Compacted
			}
			err := eachSurvivor(ctx, b, compacted, func(k, v []byte) error { return w.put(name, k, v) })
			if err == nil && string(name) == string(bucketMeta) {
				err = w.change(name, compactionDone(info))
			}
			return err
		})
	})
	if err != nil {
		return err
	}
	return w.finish()
}

// plainWriter has bbolt write to a database, a run of changes in each transaction.
type plainWriter struct {
	db    *bolt.DB
	tx    *bolt.Tx // nil: none is open
	bytes int      // written in it
}

func openPlain(path string) (*plainWriter, error) {
	db, err := pages.Open(path, false)
	return &plainWriter{db: db}, err
}

// createPlain makes a database with pages of a size.
func createPlain(path string, size int) (*plainWriter, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{PageSize: size, NoSync: true, NoGrowSync: true, NoFreelistSync: true})
	return &plainWriter{db: db}, err
}

// begin opens a transaction if none is open.
func (w *plainWriter) begin() (err error) {
	if w.tx == nil {
		w.tx, err = w.db.Begin(true)
	}
	return err
}

func (w *plainWriter) commit() error {
	if w.tx == nil {
		return nil
	}
	tx := w.tx
	w.tx, w.bytes = nil, 0
	return tx.Commit()
}

// create makes a bucket.
func (w *plainWriter) create(name []byte, sequence uint64) error {
	if err := w.begin(); err != nil {
		return err
	}
	b, err := w.tx.CreateBucket(name)
	if err == nil {
		err = b.SetSequence(sequence)
	}
	return err
}

// put writes a key. The value has to stay as it is until the transaction ends.
func (w *plainWriter) put(bucket, key, value []byte) error {
	if value == nil {
		return damaged("a bucket within a bucket")
	}
	if err := w.begin(); err != nil {
		return err
	}
	b := w.tx.Bucket(bucket)
	b.FillPercent = 1 // records come in order
	if err := b.Put(key, value); err != nil {
		return err
	}
	if w.bytes += len(key) + len(value); w.bytes < plainAtOnce {
		return nil
	}
	return w.commit()
}

// change writes some keys of a bucket; nil takes one out.
func (w *plainWriter) change(bucket []byte, change map[string][]byte) error {
	if err := w.begin(); err != nil {
		return err
	}
	b := w.tx.Bucket(bucket)
	for key, value := range change {
		var err error
		if value == nil {
			err = b.Delete([]byte(key))
		} else {
			err = b.Put([]byte(key), value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// settle changes what differs from the full beside its records: leases, an ordered compaction, alarms.
func (w *plainWriter) settle(a *applier) error {
	if err := errors.Join(w.commit(), w.begin()); err != nil {
		return err
	}
	found, err := inspect(w.tx)
	if err != nil {
		return err
	}
	if err := a.needsLeases(w.tx); err != nil {
		return err
	}
	changes := map[string]map[string][]byte{}
	err = w.tx.ForEach(func(name []byte, b *bolt.Bucket) error {
		change, err := a.changes(name, b, &found)
		if err == nil && string(name) == string(bucketAlarm) {
			change = map[string][]byte{}
			err = b.ForEach(func(k, _ []byte) error { change[string(k)] = nil; return nil })
		}
		changes[string(name)] = change
		return err
	})
	for name, change := range changes {
		err = errors.Join(err, w.change([]byte(name), change))
	}
	return err
}

// finish commits what is open, closes the database and cuts off the room that bbolt keeps behind it.
func (w *plainWriter) finish() error {
	if err := w.commit(); err != nil {
		return err
	}
	var size int64
	err := w.db.View(func(tx *bolt.Tx) error { size = tx.Size(); return nil })
	path := w.db.Path()
	if err := errors.Join(err, w.close()); err != nil {
		return err
	}
	return os.Truncate(path, size)
}

// close lets go of the database. After finish it does nothing.
func (w *plainWriter) close() error {
	if w.tx != nil {
		_ = w.tx.Rollback() // an error on the way has been reported
		w.tx = nil
	}
	return w.db.Close()
}
