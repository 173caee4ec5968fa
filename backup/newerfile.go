package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"cke"
)

// FoundFile is a file that lies beside the backups.
type FoundFile struct {
	Data []byte
	// Sum is the digest of Data, in hexadecimal.
	Sum string
	// Trusted: it is signed by a trusted key.
	Trusted bool
	// Newer is the damage of a newer file, which may have said something else; nil: this is the newest. A file that is not signed, beside
	// others that are, counts as damaged.
	Newer error
	// Doubts are the newer files that do not count, the newest one first, and this one if others judge signatures and it has none.
	Doubts []Doubt
}

// Doubt is a file that does not count.
type Doubt struct {
	Object string
	// Data is what it says; nil: it cannot be read. What is not signed, any client of the target can have written.
	Data []byte
	// Err is why it does not count: damage.
	Err error
}

// Sum is the digest that it had when it was written, in hexadecimal.
func (d Doubt) Sum() string { return sumOf(d.Object) }

// Doubted is why it is not known whether an identity has all that newer ones of an incarnation name which do not count; nil: it has. Of one that is
// damaged that is known if the store once had all of it, by its digest, and of one that is not signed
// if it can be read.
func (f FoundFile) Doubted(id cke.Identity, lineage string, had func(sum string) bool) error {
	for _, d := range f.Doubts {
		if had(d.Sum()) {
			continue
		}
		if d.Data != nil {
			if there, err := cke.ParseEscrow(d.Data); err == nil && id.Lacks(there.Identity, lineage) == nil {
				continue
			}
		}
		return d.Err
	}
	return nil
}

// mostUnsigned bounds what is read of files that no trusted key signed, of which anybody can put many there: as many as are kept, and so much of
// them. Of signatures by others as many are read, too.
const mostUnsigned = maxFile

// File returns the newest file of a kind, or ErrNotFound. Once one is signed by a trusted key, only such files count.
func (s *Store) File(ctx context.Context, lineage string, kind FileKind) ([]byte, error) {
	f, err := s.TrustedFile(ctx, lineage, kind)
	return f.Data, err
}

// TrustedFile also reports whether the file is signed by a trusted key, and which newer ones do not count. If the newest file is damaged, it
// returns the one before it and that damage.
func (s *Store) TrustedFile(ctx context.Context, lineage string, kind FileKind) (f FoundFile, err error) {
	all, err := s.filesOf(ctx, lineage, kind)
	if err != nil {
		return f, err
	}
	if s.judges() {
		if f, err = s.signedOf(ctx, all); err != nil || f.Trusted {
			return f, err
		}
	}
	for _, o := range slices.Backward(all) {
		if !o.there || o.farAhead() {
			continue
		}
		d, err := s.readTwice(ctx, o.Name)
		if err != nil {
			return f, err
		}
		if d.Err == nil {
			f.Data, f.Sum = d.Data, d.Sum()
			f.Doubts = slices.DeleteFunc(f.Doubts, func(d Doubt) bool { return d.Object < o.Name })
			return f, nil
		}
		f.Newer = cmp.Or(f.Newer, d.Err)
		if !s.judges() {
			f.Doubts = append(f.Doubts, d)
		}
	}
	return f, cmp.Or(f.Newer, fmt.Errorf("%s of cluster %s, incarnation %s: %w", kind, s.Cluster, lineage, ErrNotFound))
}

// signedOf finds the newest file with a trusted signature, and those in doubt that are newer. Trusted without an error: it is there; with damage:
// there are such signatures, and none of their files can be read, or so many by others that it is not known.
func (s *Store) signedOf(ctx context.Context, all []listedFile) (f FoundFile, err error) {
	room, signatures := int64(mostUnsigned), keptFiles
	unknown := false
	for _, o := range slices.Backward(all) {
		trusted, unread := false, o.signature && signatures == 0
		if o.signature && !unread {
			if trusted, err = s.signedTwice(ctx, o); err != nil {
				return f, err
			}
			if !trusted {
				signatures--
			}
		}
		if !trusted && (f.Trusted || !unread && (!o.there || o.farAhead())) { // older than what is trusted, or anybody's
			continue
		}
		if !trusted && !unread {
			room -= max(o.Size, mostUnsigned/keptFiles)
		}
		unknown = unknown || unread
		d := Doubt{o.Name, nil, fmt.Errorf("%s: %w", o.Name, damaged("it is one of too many that no trusted key signed"))}
		if trusted || !unread && room >= 0 {
			if d, err = s.readTwice(ctx, o.Name); err != nil {
				return f, err
			}
		}
		switch {
		case trusted && d.Err == nil:
			f.Data, f.Sum, f.Trusted, f.Newer = d.Data, d.Sum(), true, nil
			f.Doubts = slices.DeleteFunc(f.Doubts, func(d Doubt) bool { return d.Sum() == f.Sum }) // says the same
			if len(f.Doubts) > 0 {
				f.Newer = f.Doubts[0].Err
			}
			return f, nil
		case d.Err == nil:
			d.Err = fmt.Errorf("%s: %w", o.Name, damaged("no trusted key signed it"))
		case !o.signature && room >= 0: // the name alone says nothing
			continue
		}
		f.Doubts, f.Newer, f.Trusted = append(f.Doubts, d), cmp.Or(f.Newer, d.Err), f.Trusted || trusted
	}
	if f.Trusted = f.Trusted || unknown; f.Trusted {
		return f, f.Newer
	}
	f.Newer = nil
	return f, nil
}

// listedFile is a file that is there, or that has a signature.
type listedFile struct {
	Object
	there, signature bool
}

// farAhead: who wrote it had another clock than anybody has.
func (o listedFile) farAhead() bool { return !timeOf(o.Name).Before(o.ModTime.Add(farFuture)) }

// filesOf are the files of a kind, the newest one last. Where signatures are judged, those count that are there without their file.
func (s *Store) filesOf(ctx context.Context, lineage string, kind FileKind) (all []listedFile, err error) {
	folder := fmt.Sprintf("%s/%s/%s/", s.Cluster, lineage, kind)
	objects, err := s.Bucket.List(ctx, folder)
	if err != nil {
		return nil, err
	}
	var signatures map[string]bool
	if s.judges() {
		if signatures, err = s.signatures(ctx, folder+"-"); err != nil {
			return nil, err
		}
	}
	for _, o := range objects {
		name := signatureOf(o.Name)
		all = append(all, listedFile{o, true, signatures[name]})
		delete(signatures, name)
	}
	for name := range signatures {
		_, file, _ := strings.Cut(path.Base(name), "-")
		all = append(all, listedFile{Object: Object{Name: folder + file}, signature: true})
	}
	slices.SortFunc(all, func(a, b listedFile) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// newestLost is the newest file that has a trusted signature and is not there, if it is newer than another one.
func (s *Store) newestLost(ctx context.Context, all []listedFile, than string) (string, error) {
	for _, o := range slices.Backward(all) {
		if o.Name <= than {
			break
		}
		if o.there {
			continue
		}
		if trusted, err := s.signedTwice(ctx, o); err != nil || trusted {
			return o.Name, err
		}
	}
	return "", nil
}

// signedTwice is signedFile, twice where that is not so: once may be a fault on the way.
func (s *Store) signedTwice(ctx context.Context, o listedFile) (trusted bool, err error) {
	for range 2 {
		if trusted || err != nil || !o.signature {
			break
		}
		trusted, err = s.signedFile(ctx, o.Name)
	}
	return trusted, err
}

// readTwice is readFile, twice where it is damaged or missing. The error is one of access.
func (s *Store) readTwice(ctx context.Context, name string) (d Doubt, err error) {
	d.Object = name
	for range 2 {
		d.Data, d.Err = s.readFile(ctx, name)
		switch {
		case d.Err == nil:
			return d, nil
		case errors.Is(d.Err, ErrNotFound):
			d.Err = fmt.Errorf("%s: %w", name, damaged("%w", errMissing))
		case !IsDamage(d.Err):
			return d, d.Err
		}
	}
	return d, nil
}
