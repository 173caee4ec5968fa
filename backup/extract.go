package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ExtractOptions change how a backup is extracted.
type ExtractOptions struct {
	// AllowPartial accepts the last good revision if the requested one is not available because objects are damaged or
	// missing. Only the operator may decide that; it is never a default.
	AllowPartial bool
	// CheckHash compares the result with a hash that etcd gave when the backup was taken, if there is one for the
	// revision. It reads the whole database once more.
	CheckHash bool
	// IgnoreHash restores a state whose hash differs from etcd's, if no full leads to it with an equal one: the member
	// that gave the hash may have been wrong. Only the operator may decide that, and it is refused if the fulls that lead
	// to the state differ.
	IgnoreHash bool
	// Digest requests the digest of the file even if no delta is applied, which requires digesting the full; with deltas
	// it is known in any case.
	Digest bool
	// scratch: the result is thrown away soon and need not outlive a loss of power. bare: it may lack the digest at its end.
	scratch, bare bool
	// drill: fulls that drills found wrong are tried again.
	drill bool
	// signs: what deltas are applied to is to be signed, so all of it has to be.
	signs bool
	// seal starts a new full. If that takes no more than adding pages to the one that is extracted, it is made instead of a file.
	seal func() (*FullWriter, error)
}

// Extracted describes what Extract wrote.
type Extracted struct {
	Lineage  string    `json:"lineage"`
	Revision int64     `json:"revision"`
	Full     string    `json:"full"` // its ID
	Deltas   int       `json:"deltas"`
	Records  int64     `json:"records"` // changes applied on top of the full
	Size     int64     `json:"size"`    // of the file, in bytes
	Digest   string    `json:"-"`       // SHA-256 of the file, in hex; empty: not known
	End      time.Time `json:"end"`     // when the newest change had been received
	// Hash is etcd's HashKV for the revision, or nil if not recorded. HashChecked: it was compared, and equal.
	Hash        *Hash `json:"hash,omitempty"`
	HashChecked bool  `json:"hashChecked"`
	// Compared is the hash that was compared, and equal: if none was recorded for the revision, the newest one before.
	Compared *Hash `json:"compared,omitempty"`
	// HashIgnored is set if the hash was compared and differed, and the operator accepted the state anyway.
	HashIgnored bool `json:"hashIgnored,omitempty"`
	// EtcdVersion is the version of the etcd that the data is from; empty if not recorded.
	EtcdVersion string `json:"etcdVersion,omitempty"`
	// Booted is the version of an etcd that started on the data and answered. Only Drill sets it.
	Booted string `json:"booted,omitempty"`
	// Damage is why the result ends before the requested state. Only with AllowPartial.
	Damage *DamagedError `json:"-"`
	// Notes are what the operator should know, for example that a damaged full was skipped.
	Notes []string `json:"notes,omitempty"`

	// hashes are those known of revisions up to the one restored, by revision. wrong are fulls that were passed over, by ID; where nothing could be
	// restored, those of them in which the fault certainly lies. damaged are those of wrong whose bytes are damaged.
	hashes         []knownHash
	wrong, damaged []string
	// through is when the last delta that was read had been received whole, of which what follows the revision was left out.
	through time.Time
	users   users
	leading *leading
	// witness judges who wrote what is read, and history is what that shows of the cluster's.
	witness *witness
	history history
	// sealed is what was started by seal, and info what the database in it says of itself; nil: there is a file.
	sealed *FullWriter
	info   SnapshotInfo
}

// Extract writes the state of the cluster at a revision to a new file: a snapshot like etcd's own, ready for etcdutl.
// Revisions, versions, leases and hashes are those of the cluster at that revision.
//
// All sources are read and checked before out appears. If one is damaged, out does not appear and the error is a
// *DamagedError with the last good revision. If the newest full is damaged and an older one leads to the same revision,
// the older one is used, and Notes say so.
func (s *Store) Extract(ctx context.Context, at At, out string, o ExtractOptions) (Extracted, error) {
	if _, err := os.Lstat(out); err == nil {
		return Extracted{}, fmt.Errorf("%s already exists: name a new file", out)
	}
	stage, err := NewScratch(filepath.Dir(out), ScratchExtract)
	if err != nil {
		return Extracted{}, &LocalError{Path: out, Err: err}
	}
	defer stage.Remove()
	file := filepath.Join(stage.Path, "db")
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

// extract reads under a lock.
func (s *Store) extract(ctx context.Context, at At, file string, o ExtractOptions) (Extracted, error) {
	release, notes, err := s.reading(ctx, "read a state of "+s.Cluster)
	if err != nil {
		return Extracted{}, err
	}
	defer release()
	return s.extractHeld(ctx, at, file, o, notes)
}

// extractHeld reads under a lock that the caller holds; notes are those of the lock. Where a process that does not respect it deletes what is
// read, it reads what remains.
func (s *Store) extractHeld(ctx context.Context, at At, file string, o ExtractOptions, notes []string) (Extracted, error) {
	for range lookAgain {
		x, err := s.extractOnce(ctx, at, file, o)
		lost := s.deletedMeanwhile(ctx, err)
		if lost == "" {
			x.Notes = append(x.Notes, notes...)
			if err != nil && len(notes) > 0 {
				err = fmt.Errorf("%w (%s)", err, strings.Join(notes, "; "))
			}
			return x, err
		}
		if note := lost + " was deleted while it was read"; !slices.Contains(notes, note) {
			notes = append(notes, note)
		}
	}
	return s.extractOnce(ctx, at, file, o)
}

// deletedMeanwhile is the object that an error says is missing, if listings do not have it any more.
func (s *Store) deletedMeanwhile(ctx context.Context, err error) string {
	var d *DamagedError
	if !errors.Is(err, errMissing) || !errors.As(err, &d) {
		return ""
	}
	if listed, err := s.lists(ctx, d.Object); err != nil || listed {
		return ""
	}
	return d.Object
}

func (s *Store) extractOnce(ctx context.Context, at At, file string, o ExtractOptions) (Extracted, error) {
	t, err := s.resolve(ctx, at, o.AllowPartial)
	if err != nil {
		return Extracted{}, err
	}
	if err := s.mistrust(ctx, &t, at, o); err != nil {
		return Extracted{}, err
	}
	x, err := s.tryChains(ctx, t, file, o)
	if IsDamage(err) && s.judges() {
		// Older chains were tried whose deltas were not read.
		if again := s.vetted(ctx, &t.lineage, (*Lineage).entries); again != nil {
			return Extracted{}, again
		}
		if chains, none := t.lineage.choose(t.revision); none == nil && !slices.EqualFunc(chains, t.chains, sameChain) {
			t.chains = chains
			x, err = s.tryChains(ctx, t, file, o)
		}
	}
	var d *DamagedError
	if errors.As(err, &d) && o.AllowPartial && d.LastGood > 0 {
		t.damage, t.revision = d, d.LastGood
		if t.chains, err = t.lineage.choose(d.LastGood); err != nil {
			return Extracted{}, err
		}
		x, err = s.tryChains(ctx, t, file, o)
	}
	if err != nil {
		return x, err
	}
	x.Damage, x.Notes = t.damage, append(t.notes, x.Notes...)
	if !at.Time.IsZero() && x.End.After(at.Time) {
		x.End = at.Time // the rest of the last delta came later
	}
	return x, nil
}

// Verified returns the mark of a drill that completed at a time.
func (x Extracted) Verified(at time.Time) Verified {
	v := Verified{Full: x.Full, Revision: x.Revision, At: at, HashChecked: x.Compared != nil, Booted: x.Booted, Wrong: x.wrong, Damaged: x.damaged}
	if v.HashChecked {
		v.HashRevision = x.Compared.Revision
	}
	return v
}

// PassedOver describes the newer full that was skipped, if a state was restored from an older one; empty if none was.
func (x Extracted) PassedOver() string {
	return ofNoUse(x.Verified(time.Time{}).PassedOver())
}

func ofNoUse(full string) string {
	if full == "" {
		return ""
	}
	return fmt.Sprintf("full backup %s was skipped: it is damaged, or its data differs from the cluster's", full)
}

// tryChains restores along the best chain that is sound. The error is that of the chain that got furthest.
func (s *Store) tryChains(ctx context.Context, t target, file string, o ExtractOptions) (Extracted, error) {
	var worst *DamagedError
	var notes, left []string
	var wrong, certain, damaged []string
	var others []otherHash
	var disputed *Chain // the first one that leads to data with one of two hashes of a revision that differ
	var own string      // the note of passing that over
	k, err := s.byUsers(ctx, &t)
	if err != nil {
		return Extracted{}, err
	}
	for _, c := range t.inOrder(k.chains) {
		if (len(others) > 0 || disputed != nil) && t.foundWrong(c) && t.accepts {
			left = append(left, passNote(c, errFoundWrong)) // what leads there without it is what can be accepted
			continue
		}
		var x Extracted
		var err error
		if t.foundWrong(c) && !t.accepts {
			err = &DamagedError{Object: c.Full.Name(), Err: errFoundWrong}
		} else {
			x, err = s.restore(ctx, c, t.revision, k, file, o)
		}
		alone := err != nil || x.Deltas == 0 // else a delta may be what makes the result another one
		if err == nil && o.CheckHash && x.sealed == nil {
			err = x.compare(ctx, c.Full, file)
		}
		if err == nil {
			x.Lineage, x.Notes, x.wrong = t.lineage.Name, slices.Concat(notes, x.Notes, t.acceptedWrong(c), x.witness.notes(), x.users.notes(c)), wrong
			x.damaged = damaged
			return x, nil
		}
		var d *DamagedError
		if !errors.As(err, &d) {
			return Extracted{}, err
		}
		if worst == nil || d.LastGood > worst.LastGood || d.LastGood == worst.LastGood && errors.Is(d, ErrHash) && !errors.Is(worst, ErrHash) {
			worst = d
		}
		if d.Object == c.Full.Name() {
			if wrong = append(wrong, c.Full.ID()); alone && !errors.As(err, new(*disputedHash)) {
				certain = append(certain, c.Full.ID())
			}
			if !errors.Is(err, ErrHash) && !errors.Is(err, ErrUntrusted) && !errors.Is(err, errNotThat) {
				damaged = append(damaged, c.Full.ID())
			}
		}
		if h := new(wrongHash); errors.As(err, &h) {
			others = append(others, otherHash{c, *h})
		}
		if disputed == nil && errors.As(err, new(*disputedHash)) {
			disputed, own = &c, passNote(c, d.Err)
		}
		notes = append(notes, passNote(c, d.Err))
	}
	if worst == nil {
		return Extracted{}, fmt.Errorf("%w: revision %d", ErrNotCovered, t.revision)
	}
	if disputed != nil && !o.drill && o.seal == nil { // no chain leads to data that is not
		x, err := s.restore(ctx, *disputed, t.revision, k, file, o)
		if err == nil {
			err = x.compare(ctx, disputed.Full, file)
		}
		if h := new(disputedHash); errors.As(err, &h) {
			x.equalTo(h.knownHash)
			err = nil
		}
		notes = slices.DeleteFunc(notes, func(n string) bool { return n == own })
		x.Lineage, x.Notes = t.lineage.Name, slices.Concat(notes, x.Notes, t.acceptedWrong(*disputed), left, x.witness.notes(), x.users.notes(*disputed))
		return x, err
	}
	if o.IgnoreHash && sameData(others) {
		c := others[0].Chain
		x, err := s.restore(ctx, c, t.revision, k, file, o)
		x.Lineage, x.HashIgnored, x.Notes = t.lineage.Name, true, slices.Concat([]string{ignored(others)}, left, x.witness.notes(), x.users.notes(c))
		return x, err
	}
	damaged = slices.DeleteFunc(damaged, func(id string) bool { return !slices.Contains(certain, id) })
	return Extracted{Lineage: t.lineage.Name, wrong: certain, damaged: damaged}, s.lastGood(ctx, t, advised(worst), append(wrong, t.wrong...))
}

func sameChain(a, b Chain) bool {
	return a.Full == b.Full && slices.Equal(a.Deltas, b.Deltas)
}

// lastGood corrects the last good revision of damage in a full: older chains may still lead somewhere. They are read for it, the
// newest first: the operator goes by what is said here. wrong are fulls that lead nowhere, by ID.
func (s *Store) lastGood(ctx context.Context, t target, d *DamagedError, wrong []string) error {
	if d.LastGood > 0 {
		return d
	}
	for _, c := range slices.Backward(t.lineage.Chains()) {
		if c.Full.Revision < t.revision && !slices.Contains(wrong, c.Full.ID()) && min(c.Last, t.revision) > d.LastGood {
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

// restore writes a full and the deltas after it to file. k is what the fulls say that lead to the state.
func (s *Store) restore(ctx context.Context, c Chain, revision int64, k *leading, file string, o ExtractOptions) (Extracted, error) {
	deltas := c.upTo(revision)
	x := Extracted{Revision: revision, Full: c.Full.ID(), Deltas: len(deltas), users: k.users(c), leading: k}
	x.witness = &witness{s: s, signing: o.signs && len(deltas) > 0}
	var err error
	if len(deltas) > 0 {
		err = s.merge(ctx, c.Full.Place, deltas, revision, file, o, &x)
	} else {
		err = s.copyFull(ctx, c.Full.Place, file, o, &x)
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
func (s *Store) copyFull(ctx context.Context, p Place, file string, o ExtractOptions, x *Extracted) error {
	var sum *digestGuard
	if o.Digest {
		sum = newDigestGuard()
	}
	h, err := s.saveFull(ctx, p, file, sum, !o.scratch, x.witness)
	if IsDamage(err) {
		return &DamagedError{Object: p.Name(), Err: err}
	}
	if err != nil {
		return err
	}
	x.End, x.EtcdVersion, x.users.full = h.received(), h.EtcdVersion, h.Users()
	x.knowHashes(h, h, 0)
	if o.CheckHash {
		x.knowOthers(ctx, h)
	}
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

// hashAt returns the hash that a header has for a revision; nil: none.
func hashAt(h Header, revision int64) *Hash {
	for _, x := range h.Hashes {
		if x.Revision == revision && x.IsOf(h) {
			return &x
		}
	}
	return nil
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
