package backup

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"time"
)

// FileKind names the objects that lie beside the backups.
type FileKind string

// Kinds of files.
const (
	FileSpec     FileKind = "spec"     // the cluster file
	FileIdentity FileKind = "identity" // incarnation and CAs, sealed by who gives it
	fileVerified FileKind = "verified"
	fileFailed   FileKind = "failed"
)

const (
	// maxFile bounds such a file.
	maxFile = 16 << 20
	// keptFiles is how many files of a kind are kept; forgottenAtOnce bounds what one write removes of those that are more.
	keptFiles, forgottenAtOnce = 100, 10
)

// PutFile stores a file beside the backups of an incarnation, unless the newest valid one of its kind has the same
// content. The bytes are stored as they are; the caller encrypts them if needed. Where files are signed, one with the same content that is newer and
// has no signature is signed, unless its name is of a later time than it would get here: any client can have put it there.
func (s *Store) PutFile(ctx context.Context, lineage string, kind FileKind, data []byte) error {
	if err := CheckNames(s.Cluster, lineage); err != nil {
		return err
	}
	if len(data) > maxFile {
		return fmt.Errorf("a %s of %d bytes: %w", kind, len(data), errLimit)
	}
	name, newest, signed, err := s.nextFile(ctx, lineage, kind, s.now(), data)
	if err != nil {
		return err
	}
	if newest != "" && sumOf(newest) == sumOf(name) && (signed || s.Signer == nil) {
		if _, err := s.readFile(ctx, newest); err == nil || !IsDamage(err) && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	if s.Signer == nil || !s.judges() {
		return s.put(ctx, name, data)
	}
	f, err := s.TrustedFile(ctx, lineage, kind)
	if err != nil && !IsDamage(err) && !errors.Is(err, ErrNotFound) {
		return err
	}
	for _, d := range f.Doubts {
		if s.farAhead(d.Object) {
			continue
		}
		if d.Data != nil && d.Sum() == sumOf(name) && !timeOf(d.Object).After(timeOf(name)) { // what a write left that was broken off, as a rule
			if err := s.signNewest(ctx, d.Object); !errors.Is(err, ErrExists) && !IsDamage(err) {
				return err
			}
		}
		name = s.fileName(lineage, kind, after(d.Object, timeOf(name)), data)
		break
	}
	return s.put(ctx, name, data)
}

// nextFile is the name for a file that is newer than the newest one that counts. Where files are signed, one that is lost and whose signature is
// there is one of them.
func (s *Store) nextFile(ctx context.Context, lineage string, kind FileKind, t time.Time, data []byte) (name, newest string, signed bool, err error) {
	all, err := s.filesOf(ctx, lineage, kind)
	if err != nil {
		return "", "", false, err
	}
	var there []Object
	for _, o := range all {
		if o.there {
			there = append(there, o.Object)
		}
	}
	if newest, signed, err = s.newestOf(ctx, there); err != nil {
		return "", "", false, err
	}
	than := newest
	if !signed {
		than = ""
	}
	lost, err := s.newestLost(ctx, all, than)
	if err != nil {
		return "", "", false, err
	}
	if lost != "" {
		newest, signed = lost, true
	}
	return s.fileName(lineage, kind, s.afterFile(newest, signed, t), data), newest, signed, nil
}

// afterFile is after, but where files are signed only those that are have a time that can be trusted.
func (s *Store) afterFile(newest string, signed bool, t time.Time) time.Time {
	if s.Signer != nil && !signed {
		return t
	}
	return after(newest, t)
}

// put writes a file and then its signature, and removes what is old. Of a write that is broken off the file is left: what it says can be compared.
func (s *Store) put(ctx context.Context, name string, data []byte) error {
	if !s.isFile(name) {
		return fmt.Errorf("%s would never be read: the clock of this host, or a file beside the backups, is centuries ahead", name)
	}
	if err := s.Retry.Put(ctx, s.Bucket, name, Content{Head: data}, s.Guard); err != nil {
		return err
	}
	return s.signNewest(ctx, name)
}

// signNewest signs a file that is the newest from then on, and removes what is old.
func (s *Store) signNewest(ctx context.Context, name string) error {
	if err := s.signFile(ctx, name); err != nil {
		return err
	}
	s.forget(ctx, name)
	return nil
}

// forget removes the oldest files of the kind of one that was written and signed a moment ago, the newest, with their signatures.
// Nothing reads them; where they cannot be removed, as under a lock of the bucket, they stay until the next one is written.
func (s *Store) forget(ctx context.Context, newest string) {
	if s.Signer == nil {
		return // a signed one counts for more than the newest
	}
	objects, err := s.Bucket.List(ctx, path.Dir(newest)+"/")
	objects = slices.DeleteFunc(slices.Clone(objects), func(o Object) bool { return !s.isFile(o.Name) || o.Name > newest }) // anybody's
	if err != nil || len(objects) <= keptFiles {
		return
	}
	for _, o := range objects[:min(len(objects)-keptFiles, forgottenAtOnce)] {
		// The signature first: one without its file would never be found again.
		if s.Bucket.Delete(ctx, signatureOf(o.Name)) != nil || s.Bucket.Delete(ctx, o.Name) != nil {
			return
		}
	}
}

// after is the time for the name of a file that is newer than another: the newest by name has to be the one that was written last,
// also if one was written under a clock that was ahead.
func after(newest string, now time.Time) time.Time {
	if t := timeOf(newest); newest != "" && !now.Truncate(time.Millisecond).After(t) {
		return t.Add(time.Millisecond)
	}
	return now
}

func (s *Store) readFile(ctx context.Context, name string) ([]byte, error) {
	r, err := s.Bucket.Open(ctx, name, 0, maxFile+1)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if sumOf(name) != fmt.Sprintf("%x", sha256.Sum256(data)) {
		return nil, fmt.Errorf("%s: %w", name, damaged("it does not match the digest in its name"))
	}
	return data, nil
}
