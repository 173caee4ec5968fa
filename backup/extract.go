package backup

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"filippo.io/age"
)

// ExtractOptions change how a backup is extracted.
type ExtractOptions struct {
	// AllowPartial accepts the last good revision when the one wanted cannot be had because objects are damaged or
	// missing. That is a person's decision, never a default.
	AllowPartial bool
	// CheckHash compares the result with a hash that etcd gave when the backup was taken, if there is one for the
	// revision. It reads the whole database once more.
	CheckHash bool
	// Digest has the digest of the file told also where no delta is applied, which takes digesting the full; with deltas it is
	// known in any case.
	Digest bool
	// scratch: the result is thrown away soon and need not outlive a loss of power. bare: it may lack the digest at its end.
	scratch, bare bool
	// seal begins a new full. If that takes no more than adding pages to the one that is extracted, it is made instead of a file.
	seal func() (*FullWriter, error)
}

// Extracted tells what Extract wrote.
type Extracted struct {
	Lineage  string    `json:"lineage"`
	Revision int64     `json:"revision"`
	Full     string    `json:"full"` // its ID
	Deltas   int       `json:"deltas"`
	Records  int64     `json:"records"` // changes applied on top of the full
	Size     int64     `json:"size"`    // of the file, in bytes
	Digest   string    `json:"-"`       // SHA-256 of the file, in hex; empty: not known
	End      time.Time `json:"end"`     // when the newest change had been received
	// Hash is what etcd's HashKV was for the revision; nil: not recorded. HashChecked: compared, and equal.
	Hash        *Hash `json:"hash,omitempty"`
	HashChecked bool  `json:"hashChecked"`
	// EtcdVersion is that of the etcd that the data is of; empty: not recorded.
	EtcdVersion string `json:"etcdVersion,omitempty"`
	// Booted is the version of an etcd that started on it and answered. Only of Drill.
	Booted string `json:"booted,omitempty"`
	// Damage is what made the result end before what was asked for. Only with AllowPartial.
	Damage *DamagedError `json:"-"`
	// Notes are things that a person should know, as that a damaged full was passed over.
	Notes []string `json:"notes,omitempty"`

	// unequal is what comparing it with Hash found.
	unequal error
	// sealed is what was begun by seal, and info what the database in it says of itself; nil: there is a file.
	sealed *FullWriter
	info   SnapshotInfo
}

// Extract writes the state of the cluster at a revision to a file, which must not be there yet: a snapshot such as etcd
// itself makes, ready for etcdutl. Revisions, versions, leases and hashes are those of the cluster at that revision.
//
// All that is needed is read and checked before out appears. If something is damaged, out does not appear and the error
// is a *DamagedError that names the last good revision. If the newest full is damaged and an older one leads to the same
// revision, that one is used, and Notes tell.
func (s *Store) Extract(ctx context.Context, at At, out string, o ExtractOptions) (Extracted, error) {
	if _, err := os.Lstat(out); err == nil {
		return Extracted{}, fmt.Errorf("%s is there already: name a new file", out)
	}
	stage, err := os.MkdirTemp(filepath.Dir(out), partial)
	if err != nil {
		return Extracted{}, &LocalError{Path: out, Err: err}
	}
	defer os.RemoveAll(stage)
	file := filepath.Join(stage, "db")
	x, err := s.extract(ctx, at, file, o)
	if here := new(os.PathError); errors.As(err, &here) && here.Path == file {
		return Extracted{}, &LocalError{Path: out, Err: err}
	}
	if err != nil {
		return Extracted{}, err
	}
	if err := place(file, out); err != nil {
		return Extracted{}, &LocalError{Path: out, Err: err}
	}
	return x, nil
}

func (s *Store) extract(ctx context.Context, at At, file string, o ExtractOptions) (Extracted, error) {
	t, err := s.resolve(ctx, at, o.AllowPartial)
	if err != nil {
		return Extracted{}, err
	}
	x, err := s.tryChains(ctx, t, file, o)
	var d *DamagedError
	if errors.As(err, &d) && o.AllowPartial && d.LastGood > 0 {
		t.damage, t.revision = d, d.LastGood
		if t.chains, err = t.lineage.choose(d.LastGood); err != nil {
			return Extracted{}, err
		}
		x, err = s.tryChains(ctx, t, file, o)
	}
	if err != nil {
		return Extracted{}, err
	}
	x.Damage, x.Notes = t.damage, append(t.notes, x.Notes...)
	if o.CheckHash && x.Hash != nil && !x.HashChecked && x.unequal == nil {
		x.compare(ctx, file)
	}
	if x.unequal != nil {
		return Extracted{}, x.unequal
	}
	return x, nil
}

// compare compares a database file with etcd's hash of it. What that finds is no fault of one chain: it ends the work.
func (x *Extracted) compare(ctx context.Context, file string) {
	x.unequal = checkHash(ctx, file, *x.Hash)
	x.HashChecked = x.unequal == nil
}

func checkHash(ctx context.Context, file string, want Hash) error {
	got, err := HashSnapshot(ctx, file, want.Revision, want.Compacted)
	if err != nil {
		return err
	}
	if got != want {
		return damaged("the data at revision %d has hash %d; in the cluster it was %d when the backup was taken",
			want.Revision, got.Hash, want.Hash)
	}
	return nil
}

// tryChains restores along the best chain that is sound. The error is that of the chain that got furthest.
func (s *Store) tryChains(ctx context.Context, t target, file string, o ExtractOptions) (Extracted, error) {
	var worst *DamagedError
	var notes []string
	for _, c := range t.chains {
		x, err := s.restore(ctx, c, t.revision, file, o)
		if err == nil {
			x.Lineage, x.Notes = t.lineage.Name, notes
			return x, nil
		}
		var d *DamagedError
		if !errors.As(err, &d) {
			return Extracted{}, err
		}
		if worst == nil || d.LastGood > worst.LastGood {
			worst = d
		}
		notes = append(notes, fmt.Sprintf("full %s was passed over: %v", c.Full.ID(), d.Err))
	}
	if worst == nil {
		return Extracted{}, fmt.Errorf("%w: revision %d", ErrNotCovered, t.revision)
	}
	return Extracted{}, s.lastGood(ctx, t, worst)
}

// lastGood corrects the last good revision of damage in a full: older chains may still lead somewhere. They are read for it, the
// newest first: a person goes by what is said here.
func (s *Store) lastGood(ctx context.Context, t target, d *DamagedError) error {
	if d.LastGood > 0 {
		return d
	}
	for _, c := range slices.Backward(t.lineage.Chains()) {
		if c.Full.Revision < t.revision && c.Full.Name() != d.Object && min(c.Last, t.revision) > d.LastGood {
			d.LastGood = max(d.LastGood, s.soundTo(ctx, c, t.revision))
		}
	}
	return d
}

// soundTo is how far towards a revision a chain leads; 0: nowhere. What cannot be read or opened now is not taken for damaged.
func (s *Store) soundTo(ctx context.Context, c Chain, revision int64) int64 {
	sound := func(e Entry) bool {
		_, _, err := s.checkObject(ctx, e)
		return !IsDamage(err) && !errors.Is(err, ErrNotFound)
	}
	if !sound(c.Full) {
		return 0
	}
	for _, d := range c.upTo(revision) {
		if !sound(d) {
			return max(c.Full.Revision, d.Revision-1)
		}
	}
	return min(c.Last, revision)
}

// restore writes a full and the deltas after it to file.
func (s *Store) restore(ctx context.Context, c Chain, revision int64, file string, o ExtractOptions) (Extracted, error) {
	deltas := c.upTo(revision)
	x := Extracted{Revision: revision, Full: c.Full.ID(), Deltas: len(deltas)}
	var err error
	if len(deltas) > 0 {
		err = s.merge(ctx, c.Full.Place, deltas, revision, file, o, &x)
	} else {
		err = s.copyFull(ctx, c.Full.Place, revision, file, o, &x)
	}
	if err != nil {
		return Extracted{}, err
	}
	if x.sealed != nil {
		return x, nil
	}
	info, err := os.Stat(file)
	if err != nil {
		return Extracted{}, err
	}
	x.Size = info.Size()
	return x, nil
}

// copyFull writes a full to a file, as it is.
func (s *Store) copyFull(ctx context.Context, p Place, revision int64, file string, o ExtractOptions, x *Extracted) error {
	var sum *digestGuard
	if o.Digest {
		sum = newDigestGuard()
	}
	h, err := s.saveFull(ctx, p, file, sum, !o.scratch)
	if IsDamage(err) {
		return &DamagedError{Object: p.Name(), Err: err}
	}
	if err != nil {
		return err
	}
	x.End, x.Hash, x.EtcdVersion = h.End, hashAt(h, revision, nil), h.EtcdVersion
	x.Digest, err = s.finishFull(ctx, h, file, o)
	if x.Digest == "" && sum != nil {
		x.Digest = sum.whole()
	}
	return err
}

// finishFull makes a full ready that no delta is applied to. digest: of the file, if it had to be changed.
func (s *Store) finishFull(ctx context.Context, h Header, file string, o ExtractOptions) (digest string, err error) {
	digest, err = forgetAlarms(ctx, file, !o.scratch)
	if IsDamage(err) {
		return "", &DamagedError{Object: h.Place.Name(), Err: err}
	}
	if err != nil || o.scratch {
		return digest, err
	}
	return digest, syncFile(file)
}

// hashAt returns the hash that a header has for a revision, or else the one there was.
func hashAt(h Header, revision int64, or *Hash) *Hash {
	for _, x := range h.Hashes {
		if x.Revision == revision && x.IsOf(h) {
			return &x
		}
	}
	return or
}

// saveFull writes the snapshot in a full to a file, checked. sum digests it on the way, unless it is nil. durable: the file
// is to be synced later.
func (s *Store) saveFull(ctx context.Context, p Place, file string, sum *digestGuard, durable bool) (h Header, err error) {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	to := writtenBack{File: f}
	if durable {
		if to.back, err = newWriteback(file); err != nil {
			return h, err
		}
		defer func() { err = errors.Join(err, to.back.Close()) }()
	}
	if sum == nil {
		return s.fetchFull(ctx, p, to)
	}
	if h, err = s.fetchFull(ctx, p, to, sum); err == nil {
		err = sum.done()
	}
	return h, err
}

// fetchFull hands the snapshot in a full to writers. It is checked, but only in the end.
func (s *Store) fetchFull(ctx context.Context, p Place, to ...io.Writer) (Header, error) {
	o, err := s.openFull(ctx, p)
	if err != nil {
		return Header{}, err
	}
	defer o.Close()
	fan := newFanout(to...)
	_, err = o.WriteTo(&contextWriter{ctx, fan})
	if err = cmp.Or(fan.Close(), err); err != nil && !IsDamage(err) {
		err = fmt.Errorf("copy %s: %w", p.Name(), err)
	}
	if err == nil {
		err = o.Finish()
	}
	return o.head, err
}

// openFull begins to read a full.
func (s *Store) openFull(ctx context.Context, p Place) (*opener, error) {
	body, err := s.Bucket.Open(ctx, p.Name(), 0, -1)
	if errors.Is(err, ErrNotFound) {
		return nil, damaged("it is missing")
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", p.Name(), err)
	}
	o, err := newFullOpener(p, body, s.Identities)
	if err != nil {
		return nil, errors.Join(err, body.Close())
	}
	return o, nil
}

func newFullOpener(p Place, body io.ReadCloser, ids []age.Identity) (*opener, error) {
	h, _, err := readHeader(body)
	if err == nil {
		err = h.at(p)
	}
	if err == nil && h.Content%snapshotBlock != sha256.Size {
		err = damaged("a snapshot of %d bytes has no digest at its end", h.Content)
	}
	if err != nil {
		return nil, err
	}
	o, err := newOpener(h, body, ids)
	if err == nil {
		o.body = body
	}
	return o, err
}

type contextWriter struct {
	ctx context.Context
	w   io.Writer
}

func (c *contextWriter) Write(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.w.Write(p)
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	return f.Close()
}
