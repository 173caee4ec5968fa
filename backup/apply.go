package backup

import (
	"context"
	"errors"
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"
)

const (
	// A transaction of the database being restored holds at most this many records, or bytes of them.
	batchRecords = 10_000
	batchBytes   = 4 << 20
	// fillPercent: records come in order, so pages need hardly any room to grow.
	fillPercent = 0.9
)

// applyDeltas brings a snapshot file forward to a revision.
func (s *Store) applyDeltas(ctx context.Context, full Header, deltas []Entry, revision int64, file string, o ExtractOptions, x *Extracted) (err error) {
	defer guard(&err)()
	if err := trimDigest(file); err != nil {
		return err
	}
	a, err := newApplier(ctx, file, full.Last, revision)
	if err == nil && !o.scratch {
		if a.back, err = newWriteback(file); err != nil {
			err = errors.Join(err, a.close(false))
		}
	}
	if err == nil {
		err = s.applyAll(ctx, a, deltas, x)
		err = errors.Join(err, a.close(err == nil))
	}
	if IsDamage(err) {
		var d *DamagedError
		if !errors.As(err, &d) { // the snapshot itself
			return &DamagedError{Object: full.Place.Name(), Err: err}
		}
		return d
	}
	if err != nil {
		return err
	}
	x.Records = a.records
	if o.bare {
		return nil
	}
	// Each reads the whole database.
	ended := make(chan error, 1)
	go func() {
		var err error
		x.Digest, err = appendDigest(ctx, file, !o.scratch)
		ended <- err
	}()
	if o.CheckHash && x.Hash != nil {
		x.compare(ctx, file)
	}
	return <-ended
}

func (s *Store) applyAll(ctx context.Context, a *applier, deltas []Entry, x *Extracted) error {
	b := fetchAhead(ctx, s.Bucket, deltas)
	defer b.Close()
	d := s.decodeAhead(ctx, b, deltas)
	defer d.Close()
	for _, e := range deltas {
		good := max(a.base, a.last)
		h, err := a.apply(d, e)
		if err != nil {
			if errors.Is(err, ErrNotFound) {
				err = damaged("it is missing")
			}
			if IsDamage(err) {
				err = &DamagedError{Object: e.Name(), LastGood: good, Err: err}
			}
			return err
		}
		for _, hash := range h.Hashes {
			if hash.Revision <= a.revision {
				a.compacted = max(a.compacted, hash.Compacted)
			}
		}
		x.End, x.Hash = h.End, hashAt(h, a.revision, x.Hash)
	}
	if a.last != a.revision {
		last := deltas[len(deltas)-1]
		return &DamagedError{Object: last.Name(), LastGood: a.last, Err: damaged("the chain ends at revision %d", a.last)}
	}
	return nil
}

// apply takes in the next delta.
func (a *applier) apply(d *decodeAhead, e Entry) (Header, error) {
	if e.Revision > max(a.last, a.base)+1 {
		return Header{}, damaged("it begins at revision %d, after %d: changes are missing between them", e.Revision, max(a.last, a.base))
	}
	for p := range d.parts {
		if p.leases != nil {
			a.leases.observe(*p.leases, a.base)
		}
		for _, r := range p.records {
			if err := a.record(r); err != nil {
				return Header{}, err
			}
		}
		if p.last {
			return p.header, p.err
		}
	}
	return Header{}, errNoMore // the decoding was ended: ctx has
}

// applier writes changes into an etcd database file, offline: no etcd runs, so no request is too large, no lease
// expires, and every revision, version and lease comes out as it was.
type applier struct {
	db   *bolt.DB
	tx   *bolt.Tx
	keys *bolt.Bucket
	back *writeback

	base, revision int64 // of the full; wanted
	compacted      int64 // newest compaction known by then
	compactedBase  int64
	leases         *leaseBook

	last    int64 // newest main revision applied or passed over
	records int64
	inBatch int
	bytes   int
	key     []byte
}

func newApplier(ctx context.Context, file string, base, revision int64) (_ *applier, err error) {
	defer guard(&err)()
	t, err := walkTree(ctx, file, allPages)
	if err == nil {
		err = t.listFree(file)
	}
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	a := &applier{base: base, revision: revision}
	// Room to grow in the address space avoids mapping the file again and again.
	if a.db, err = openDB(file, false, info.Size()+info.Size()/2+256<<20); err != nil {
		return nil, damaged("open as a database: %w", err)
	}
	err = a.db.View(func(tx *bolt.Tx) error {
		found, err := inspect(tx)
		if err == nil && found.Revision != base {
			err = damaged("the snapshot has revision %d, its header says %d", found.Revision, base)
		}
		if err != nil {
			return err
		}
		known, err := readLeases(tx)
		a.leases, a.compactedBase = newLeaseBook(revision, known), found.Compacted
		return err
	})
	if err != nil {
		return nil, errors.Join(err, a.db.Close())
	}
	return a, nil
}

// record applies one change, unless the full has it already or it is newer than what is wanted.
func (a *applier) record(r Record) error {
	if r.Main > a.revision {
		return nil
	}
	a.last = r.Main
	if r.Main <= a.base {
		return nil
	}
	_, lease, ok := parseKeyValue(r.Value)
	if !ok {
		return damaged("the change of revision %d.%d cannot be read", r.Main, r.Sub)
	}
	a.leases.refer(lease, r.Main)
	if a.tx == nil {
		var err error
		if a.tx, err = a.db.Begin(true); err != nil {
			return err
		}
		a.keys = a.tx.Bucket(bucketKey)
		a.keys.FillPercent = fillPercent
	}
	a.key = r.AppendKey(a.key[:0])
	if err := a.keys.Put(a.key, r.Value); err != nil {
		return fmt.Errorf("put revision %d.%d: %w", r.Main, r.Sub, err)
	}
	a.records++
	a.inBatch++
	a.bytes += len(r.Value)
	if a.inBatch >= batchRecords || a.bytes >= batchBytes {
		return a.commit()
	}
	return nil
}

func (a *applier) commit() error {
	if a.tx == nil {
		return nil
	}
	err := a.tx.Commit()
	a.back.wrote(a.bytes)
	a.tx, a.inBatch, a.bytes = nil, 0, 0
	if err != nil {
		return fmt.Errorf("write the database: %w", err)
	}
	return nil
}

// close ends the work; with keep it writes what has to be known of leases and compaction.
func (a *applier) close(keep bool) (err error) {
	defer func() { err = errors.Join(err, a.back.Close()) }()
	if !keep {
		if a.tx != nil {
			err = a.tx.Rollback()
		}
		return errors.Join(err, a.db.Close())
	}
	if err = a.commit(); err == nil {
		a.db.NoFreelistSync = false // who opens the file next to write need not look for its free pages
		err = a.db.Update(a.finish)
	}
	return errors.Join(err, a.db.Close())
}

func (a *applier) finish(tx *bolt.Tx) error {
	if leases := a.leases.settle(); a.leases.changed {
		if err := writeLeases(tx, leases); err != nil {
			return err
		}
	}
	if err := dropAlarms(tx); err != nil {
		return err
	}
	// A compaction that etcd did after the full: order it again, so that etcd does it as soon as it starts on the file.
	// HashKV counts by what is ordered, so it is right at once.
	if a.compacted > a.compactedBase && a.compacted <= a.revision {
		return setCompacted(tx, a.compacted, false)
	}
	return nil
}
