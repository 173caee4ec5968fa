package backup

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"os"

	bolt "go.etcd.io/bbolt"

	"cke/backup/internal/pages"
	"cke/backup/internal/stream"
	"cke/internal/contain"
)

// A full and the deltas after it become one database without a page of the full being changed, but for a meta page: what the
// deltas bring is written behind the full, as a tree of its own, before the full is fetched. Then it is known how large the
// result is and where its root will be, which is all that the meta page says. So the digest of the result, which starts with that
// page, is made while the full streams in, and nothing has to be read twice for it but what stands behind the full.

const (
	// edgeRoom is how many pages are left for what joins the two, beside the leases.
	edgeRoom = 32
	// leaseBytes is more than a lease takes in a page.
	leaseBytes = 64
)

// merger writes a full and what follows it to a file.
type merger struct {
	f    *os.File
	full Header
	old  pages.Head
	w    *pages.Writer
	back *writeback
	keys *pages.Loader // of the records
	a    *applier
	// meta is what the result is expected to say of itself, and freePages how many pages its list of free pages has.
	meta      pages.Meta
	freePages int
	sum       hash.Hash // nil: of no use
	// passed are leaves of the full that are not in the file, but were found sound; nil: all of it is there.
	passed passedLeaves
	// hash compares a full that streams by with what etcd said of it; nil: that is not known.
	hash *keyHash
	// found is what the full says of itself, with the leases of the result.
	found SnapshotInfo
}

// merge writes a full and the deltas after it to a file.
func (s *Store) merge(ctx context.Context, full Place, deltas []Entry, revision int64, file string, o ExtractOptions, x *Extracted) (err error) {
	if s.Plain {
		return s.mergePlain(ctx, full, deltas, revision, file, o, x)
	}
	defer pages.Guard(&err)()
	ofFull := full.blame
	h, head, err := s.fullHead(ctx, full)
	if err != nil {
		return ofFull(err)
	}
	if err := errors.Join(s.seeFull(ctx, x.witness, h), s.roomFor(h, file)); err != nil {
		return ofFull(err)
	}
	m, err := newMerger(file, h, head, revision)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	if !o.scratch {
		if m.back, err = newWriteback(file); err != nil {
			return err
		}
		m.w.Wrote = m.back.wrote
	}
	x.start(h)
	if err := s.applyAll(ctx, m.a, deltas, x); err != nil {
		if IsDamage(err) {
			// What it says of the last good revision is true only if the full is sound.
			err = cmp.Or(ofFull(s.checkFull(ctx, full, m.f)), err)
		}
		return err
	}
	x.Records = m.a.records
	if o.CheckHash {
		x.knowOthers(ctx, h)
	}
	if o.seal != nil && x.users.changed() {
		return ErrOlderUsers
	}
	if o.seal != nil && m.a.compacted <= h.Compacted && x.onlyHashOf(h) {
		err := m.sealed(ctx, s, full, o.seal, x)
		if !IsDamage(err) && !errors.Is(err, ErrNeedsWhole) {
			return err
		}
		o.seal = nil // the whole file tells more
		return s.merge(ctx, full, deltas, revision, file, o, x)
	}
	added, err := m.plan(!o.bare, true)
	if err != nil {
		return err
	}
	if err := m.same(s.fetchFull(ctx, full, m.receivers()...)); err != nil {
		return ofFull(err)
	}
	if x.Digest, err = m.complete(ctx, added, !o.scratch); err != nil {
		return ofFull(err)
	}
	return nil
}

// blame has damage be of the object at a place, unless it is of another one.
func (p Place) blame(err error) error {
	if d := new(DamagedError); IsDamage(err) && !errors.As(err, &d) {
		return &DamagedError{Object: p.Name(), Err: err}
	}
	return err
}

// start takes in the full to which deltas will be applied.
func (x *Extracted) start(h Header) {
	x.End, x.EtcdVersion = h.received(), h.EtcdVersion
	x.Hash, x.hashes, x.history, x.users.full = nil, nil, history{}, h.Users()
	x.knowHashes(h, h, 0)
	x.history.add(h)
}

// fullHead reads the header of a full and the first pages of its database.
func (s *Store) fullHead(ctx context.Context, p Place) (Header, pages.Head, error) {
	o, err := s.openFull(ctx, p)
	if err != nil {
		return Header{}, pages.Head{}, err
	}
	defer o.Close()
	data := make([]byte, min(o.head.Content, 2*pages.MaxPageSize))
	if _, err := io.ReadFull(o, data); err != nil {
		return o.head, pages.Head{}, stream.Short(err, "its database")
	}
	head, err := pages.ParseHead(data, o.head.Content-sha256.Size)
	return o.head, head, err
}

// checkFull searches for damage in a full, by way of a file that is of no use any more.
func (s *Store) checkFull(ctx context.Context, p Place, f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	if _, err := s.fetchFull(ctx, p, io.NewOffsetWriter(f, 0)); err != nil {
		return err
	}
	return checkDatabase(ctx, f.Name(), p.Revision, pages.Reachable)
}

// checkDatabase searches for damage in the database of a full of some revision.
func checkDatabase(ctx context.Context, path string, revision int64, e pages.Extent) error {
	info, err := InspectSnapshot(path)
	if err == nil && info.Revision != revision {
		err = wrongRevision(info.Revision, revision)
	}
	if err == nil {
		err = checkTree(ctx, path, e)
	}
	return err
}

// same refuses a full that is another one than at the first look, when it was judged.
func (m *merger) same(h Header, err error) error {
	if err == nil && h.BodySum != m.full.BodySum {
		return damaged("it changed while it was read")
	}
	return err
}

func wrongRevision(is, said int64) error {
	return damaged("the snapshot has revision %d, its header says %d", is, said)
}

func newMerger(file string, full Header, head pages.Head, revision int64) (*merger, error) {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	w := pages.NewWriter(f, head.Size, head.Pages)
	keys := pages.NewLoader(w)
	return &merger{f: f, full: full, old: head, w: w, keys: keys, a: newApplier(keys.Add, full, revision)}, nil
}

func (m *merger) close() error { return errors.Join(m.back.Close(), m.f.Close()) }

// plan completes what follows the full, and decides where all else will be. list: the free pages will be listed.
func (m *merger) plan(digest, list bool) (added pages.Subtree, err error) {
	if added, err = m.keys.Finish(); err != nil {
		return added, err
	}
	if err := m.w.Flush(); err != nil {
		return added, err
	}
	size := uint64(m.old.Size)
	m.meta = pages.Meta{Root: m.w.Next, Free: pages.NoFreeList, Tx: m.old.Tx + 1}
	m.w.Next += uint64(pages.BucketsPages(m.old.Size))
	room := edgeRoom + uint64(m.a.leases.most(m.full.Leases))*leaseBytes/size
	if list {
		m.freePages = pages.FreeListPages(m.w.Next+room, size)
		m.meta.Free = m.w.Next
		m.w.Next += uint64(m.freePages)
	}
	m.meta.Pages = m.w.Next + room
	if digest {
		m.sum = sha256.New()
		m.sum.Write(m.metas())
	}
	return added, nil
}

// metas are both meta pages of the result: the old one that is not replaced stays.
func (m *merger) metas() []byte {
	metas := bytes.Clone(m.old.Metas)
	at, page := m.meta.Page(m.old.Size)
	copy(metas[at:], page)
	return metas
}

// receivers take the stream of the full.
func (m *merger) receivers() []io.Writer {
	to := []io.Writer{&window{w: writtenBack{m.f, m.back}, left: m.full.Content - sha256.Size}}
	if m.sum != nil {
		to = append(to, m.afterMetas(m.sum))
	}
	return to
}

// afterMetas hands on the database of the full from its third page on.
func (m *merger) afterMetas(w io.Writer) io.Writer {
	metas := int64(len(m.old.Metas))
	return &window{w: w, skip: metas, left: m.full.Content - sha256.Size - metas}
}

// window hands on a part of what is written to it.
type window struct {
	w          io.Writer
	skip, left int64
}

func (w *window) Write(p []byte) (int, error) {
	n := len(p)
	skip := min(w.skip, int64(n))
	w.skip, p = w.skip-skip, p[skip:]
	p = p[:min(w.left, int64(len(p)))]
	w.left -= int64(len(p))
	if len(p) == 0 {
		return n, nil
	}
	m, err := w.w.Write(p)
	if err != nil {
		return m, err
	}
	return n, nil
}

// complete makes one database of the full, which is in the file now, and what was added behind it. It returns the SHA-256 of the
// result in hex, if that is wanted.
func (m *merger) complete(ctx context.Context, added pages.Subtree, durable bool) (digest string, err error) {
	size := int64(m.old.Size)
	begin := m.full.Content - sha256.Size // of what has not been digested yet
	expected, middle := m.meta, int64(m.meta.Root)*size
	summed := make(chan error, 1)
	go contain.Work(func() { summed <- m.digest(ctx, begin, middle) }, func(err error) { summed <- err })()
	if err = m.assemble(ctx, added); err == nil {
		err = m.list(ctx)
	}
	if err := errors.Join(err, <-summed); err != nil {
		return "", err
	}
	if m.sum == nil {
		return "", nil
	}
	if m.meta != expected { // it took more room
		m.sum.Reset()
		middle = 0
	}
	return putDigest(m.f, durable, func() (hash.Hash, int64, error) {
		end := int64(m.meta.Pages) * size
		return m.sum, end, m.digest(ctx, middle, end)
	})
}

// digest takes a part of the file into the digest.
func (m *merger) digest(ctx context.Context, from, to int64) error {
	if m.sum == nil {
		return nil
	}
	return digestFile(ctx, m.sum, m.f, from, to)
}

// assemble writes what leads to both trees, and how the result differs from the full beside its keys.
func (m *merger) assemble(ctx context.Context, added pages.Subtree) (err error) {
	defer pages.Guard(&err)()
	l := pages.Look{Extent: pages.Edge, Bucket: bucketKey} // the rest is looked at in the end
	if m.passed != nil {
		l.Extent, l.Known = pages.AllRules, m.passed.keys
	}
	if m.hash != nil {
		l.Next = m.hash.next
	}
	if _, err := pages.Walk(ctx, m.f.Name(), l); err != nil {
		return err
	}
	db, err := pages.Open(m.f.Name(), true)
	if err != nil {
		return damaged("open as a database: %w", err)
	}
	err = db.View(func(tx *bolt.Tx) error { return m.buckets(ctx, tx, added) })
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	m.meta.Pages = max(m.meta.Pages, m.w.Next)
	return m.f.Truncate(int64(m.meta.Pages) * int64(m.old.Size))
}

// list makes the file say what it holds, checks all of it, and lists its free pages.
func (m *merger) list(ctx context.Context) error {
	if err := m.writeFree(nil); err != nil {
		return err
	}
	if _, err := m.f.WriteAt(m.metas(), 0); err != nil {
		return err
	}
	t, err := pages.Walk(ctx, m.f.Name(), pages.Look{Extent: pages.AllRules})
	if err != nil {
		return err
	}
	return m.writeFree(t.Unseen())
}

// writeFree writes the list of free pages, so that who opens the file to write need not search for them in all of it.
func (m *merger) writeFree(ids []uint64) error {
	list := pages.FreeList(m.meta.Free, ids, m.freePages*m.old.Size, m.old.Size)
	_, err := m.f.WriteAt(list, int64(m.meta.Free)*int64(m.old.Size))
	return err
}
