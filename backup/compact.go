package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"filippo.io/age"
	bolt "go.etcd.io/bbolt"

	"cke/backup/internal/pages"
)

// CompactOptions change how a chain is merged.
type CompactOptions struct {
	Recipients []age.Recipient
	// Guard is called before the result is written; nil means no guard.
	Guard  func() error
	Writer string
	Term   int64
}

// Compact merges a full and the deltas up to a point into a new full, offline. What is superseded and was compacted away
// in the cluster is left out, so HashKV stays what it was. The source objects stay until Prune removes them. Repeating it
// writes nothing new.
// If a source is not signed by a trusted key, it returns ErrUntrusted unless AllowUntrusted is set and no source has a
// signature; the result is then not signed. ErrOlderUsers: the result would be the newest full, with users and roles that
// are not the newest.
func (s *Store) Compact(ctx context.Context, at At, o CompactOptions) (Place, error) {
	dir, err := NewScratch(s.Scratch, ScratchCompact)
	if err != nil {
		return Place{}, err
	}
	defer dir.Remove()
	body := filepath.Join(dir.Path, "body")
	merged := filepath.Join(dir.Path, "merged")
	x, err := s.extract(ctx, at, merged, ExtractOptions{scratch: true, bare: true, CheckHash: true, signs: s.Signer != nil && s.judges(), seal: func() (*FullWriter, error) {
		return beginFull(body, s.Bucket, o.Recipients)
	}})
	if err != nil {
		return Place{}, err
	}
	if x.Deltas == 0 {
		p, _ := s.placeOf(ctx, x)
		return p, nil
	}
	signer := s.Signer
	if x.witness.unsigned > 0 {
		signer = nil
	}
	if signer == nil && x.witness.anySigned() {
		return Place{}, fmt.Errorf("%w: the merged full would have no signature, although some of its sources have one; compact on a management host, without --trust any", ErrUntrusted)
	}
	h := Header{Place: FullPlace(s.Cluster, x.Lineage, x.Revision, x.End), Merged: true, Begin: x.End, End: x.through, Signer: signer, SignedTip: x.witness.tip,
		Writer: o.Writer, Term: o.Term, EtcdVersion: x.EtcdVersion}
	x.history.describe(&h)
	if x.Hash != nil {
		h.Hashes = []Hash{*x.Hash}
	}
	var c Content
	if x.sealed != nil {
		c, h, err = x.sealed.describe(h, x.info)
		err = errors.Join(err, x.sealed.Close())
	} else {
		c, h, err = s.sealCompacted(ctx, merged, body, h, o.Recipients)
	}
	if err != nil {
		return Place{}, err
	}
	for range lookAgain {
		err = s.Retry.Put(ctx, s.Bucket, h.Place.Name(), c, o.Guard)
		occupied := IsDamage(err) // by something that is of no use
		if !occupied && !errors.Is(err, ErrExists) {
			break
		}
		if !occupied && !slices.Contains(x.wrong, h.Place.ID()) {
			there, _, bad := s.checkObject(ctx, Entry{Place: h.Place})
			if bad == nil && there.Merged && (!s.judges() || s.trusts(there.Signature)) {
				return h.Place, nil // made before, from the same changes
			}
		}
		h.Place.Time = h.Place.Time.Add(time.Millisecond) // somebody else's
		var bad error
		if c, bad = c.WithHeader(h); bad != nil {
			return Place{}, bad
		}
	}
	return h.Place, err
}

// received is when the newest change of a full had come. One that was merged within a delta ends with that.
func (h Header) received() time.Time {
	if h.Merged {
		return h.Begin
	}
	return h.End
}

// history is what objects tell of the cluster's history: without it a full might be continued with that of another cluster.
type history struct {
	last   int64
	mark   string // of revision last
	index  uint64
	origin *Origin
}

func (y *history) add(h Header) {
	if h.Last > y.last || h.Last == y.last && h.Mark != "" {
		y.last, y.mark = h.Last, h.Mark
	}
	y.index, y.origin = max(y.index, h.RaftIndex), cmp.Or(h.Origin, y.origin)
}

// describe enters it into the header of a full that is made of the objects. Only the mark of the full's own revision is one of the full.
func (y *history) describe(h *Header) {
	if h.RaftIndex, h.Origin = y.index, y.origin; y.last == h.Place.Revision {
		h.Mark = y.mark
	}
}

// sealCompacted makes a full of a database, without what its ordered compaction leaves out.
func (s *Store) sealCompacted(ctx context.Context, merged, body string, h Header, recipients []age.Recipient) (Content, Header, error) {
	superseded, err := hasSuperseded(merged)
	if err != nil {
		return Content{}, h, fmt.Errorf("merge backups: %w", err)
	}
	if superseded {
		small := merged + ".small"
		write := rewrite
		if s.Plain {
			write = rewritePlain
		}
		if err := write(ctx, merged, small); err != nil {
			return Content{}, h, fmt.Errorf("merge backups: %w", err)
		}
		if err := os.Remove(merged); err != nil {
			return Content{}, h, err
		}
		merged = small
	}
	return SealFull(ctx, merged, body, s.Bucket, h, recipients)
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

// hasSuperseded reports whether a compaction is ordered in a database that was not done.
func hasSuperseded(file string) (yes bool, err error) {
	defer pages.Guard(&err)()
	db, err := pages.Open(file, true)
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
	defer pages.Guard(&err)()
	src, err := pages.Open(from, true)
	if err != nil {
		return err
	}
	defer src.Close()
	f, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	w := pages.NewWriter(f, src.Info().PageSize, 2)
	err = src.View(func(tx *bolt.Tx) error { return compacted(ctx, w, tx) })
	return errors.Join(err, f.Close())
}

// compacted fills a new database with what is to be kept of another.
func compacted(ctx context.Context, w *pages.Writer, tx *bolt.Tx) error {
	info, err := inspect(tx)
	if err != nil {
		return err
	}
	done := compactionDone(info)
	var all []pages.Item
	err = tx.ForEach(func(name []byte, b *bolt.Bucket) (err error) {
		var root uint64
		switch string(name) {
		case string(bucketKey):
			root, err = copySurvivors(ctx, w, b, info.Compacted)
		case string(bucketMeta):
			root, err = w.CopyBucket(b, done)
		default:
			root, err = w.CopyBucket(b, nil)
		}
		all = append(all, pages.BucketItem(name, root, b.Sequence()))
		return err
	})
	if err != nil {
		return err
	}
	return w.Complete(all)
}

// compactionDone is what the bucket "meta" says once an ordered compaction is done.
func compactionDone(info SnapshotInfo) map[string][]byte {
	if info.Compacted < 1 {
		return nil
	}
	at := Record{Main: info.Compacted}.AppendKey(nil)
	return map[string][]byte{string(scheduledCompact): at, string(finishedCompact): at}
}

// copySurvivors copies the records that a compaction leaves.
func copySurvivors(ctx context.Context, w *pages.Writer, b *bolt.Bucket, compacted int64) (root uint64, err error) {
	if compacted < 1 {
		return w.CopyBucket(b, nil)
	}
	t := pages.NewLoader(w)
	if err := eachSurvivor(ctx, b, compacted, t.Add); err != nil {
		return 0, err
	}
	return t.BucketRoot()
}

// eachSurvivor hands on the records that a compaction leaves; compacted < 1: all.
func eachSurvivor(ctx context.Context, b *bolt.Bucket, compacted int64, add func(key, value []byte) error) error {
	if compacted < 1 {
		return b.ForEach(add)
	}
	keep, _, err := survivors(ctx, b, compacted, compacted)
	if err != nil {
		return err
	}
	i := -1
	return b.ForEach(func(k, v []byte) error {
		r, _ := parseRecordKey(k)
		if r.Main <= compacted {
			i++
			// etcd keeps a tombstone of the very revision that it compacts to.
			if !keep.Has(i) && !(r.Tombstone && r.Main == compacted) {
				return nil
			}
		}
		return add(k, v)
	})
}
