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
	// strays are newer files that are damaged and have no signature, where others do: anybody may have made them.
	strays []Doubt
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
			if there, err := cke.ParseEscrow(d.Data); err == nil && id.LacksBeside(cke.Beside{Incarnation: lineage, Identity: there.Identity}) == nil {
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
		if !o.there || s.farAhead(o.Name) {
			continue
		}
		d, err := s.readTwice(ctx, o.Name)
		if err != nil {
			return f, err
		}
		if d.Err == nil {
			f.found(d)
			f.Doubts = slices.DeleteFunc(f.Doubts, func(d Doubt) bool { return d.Object < o.Name })
			f.sortDoubts()
			return f, nil
		}
		f.Newer = cmp.Or(f.Newer, d.Err)
		if !slices.ContainsFunc(f.Doubts, func(is Doubt) bool { return is.Object == o.Name }) {
			f.Doubts = append(f.Doubts, d)
		}
	}
	f.sortDoubts()
	return f, cmp.Or(f.Newer, fmt.Errorf("%s of cluster %s, incarnation %s: %w", kind, s.Cluster, lineage, ErrNotFound))
}

// signedOf finds the newest file with a trusted signature, and those in doubt that are newer. Trusted without an error: it is there; with damage:
// there are such signatures, and none of their files can be read, or so many by others that it is not known.
func (s *Store) signedOf(ctx context.Context, all []listedFile) (f FoundFile, err error) {
	base, known, err := s.signedThere(ctx, all, &f)
	if err != nil {
		return f, err
	}
	// Signatures without files are read after that: anybody can put there so many that no more is read, and what is there is read anyway.
	left, last := keptFiles, ""
	for _, o := range slices.Backward(all) {
		if o.there || o.Name <= base {
			continue
		}
		if left == 0 {
			f.Doubts, known = append(f.Doubts, tooMany(o.Name, "the %d newest signatures of files that are missing, down to %s, are of no trusted key, and no more are read: delete these", keptFiles, last)), known && base != ""
			continue
		}
		trusted, err := s.signedTwice(ctx, o)
		if err != nil {
			return f, err
		}
		if !trusted {
			left, last = left-1, signatureOf(o.Name)
			continue
		}
		d, err := s.readTwice(ctx, o.Name)
		if err != nil {
			return f, err
		}
		if f.Trusted = true; d.Err == nil { // written since the listing
			f.found(d)
			base = o.Name
			break
		}
		f.Doubts = append(f.Doubts, d)
	}
	older := func(d Doubt) bool { return d.Object <= base || base != "" && d.Sum() == f.Sum } // or says the same
	f.Doubts, f.strays = slices.DeleteFunc(f.Doubts, older), slices.DeleteFunc(f.strays, older)
	f.sortDoubts()
	if f.Trusted = f.Trusted || !known; f.Trusted && len(f.Doubts) > 0 {
		f.Newer = f.Doubts[0].Err
	}
	if base == "" && f.Trusted {
		if last := f.Doubts[len(f.Doubts)-1]; last.Data == nil && len(f.Doubts) > 1 { // why no older one is read
			f.Newer = fmt.Errorf("%w; %v", f.Newer, last.Err)
		}
		return f, f.Newer
	}
	return f, nil
}

// signedThere is signedOf, of files that are there: base is the newest one that is trusted. known: all that may be trusted was read.
func (s *Store) signedThere(ctx context.Context, all []listedFile, f *FoundFile) (base string, known bool, err error) {
	room, left, last := int64(mostUnsigned), keptFiles, ""
	known = true
	for _, o := range slices.Backward(all) {
		if !o.there {
			continue
		}
		trusted := false
		if o.signature && left > 0 {
			if trusted, err = s.signedTwice(ctx, o); err != nil {
				return "", false, err
			}
			if !trusted {
				left, last = left-1, o.Name
			}
		} else if o.signature {
			known = known && f.Trusted
			f.Doubts = append(f.Doubts, tooMany(o.Name, "the %d newest files with signatures, down to %s, are signed by no trusted key, and no more are read: delete these, and their signatures", keptFiles, last))
			continue
		}
		if !trusted && (f.Trusted || s.farAhead(o.Name)) { // older than what is trusted, or anybody's
			continue
		}
		if !trusted {
			if room -= max(o.Size, mostUnsigned/keptFiles); room < 0 {
				f.Doubts = append(f.Doubts, tooMany(o.Name, "more than %d files or %d MiB lie in %s that no trusted key signed, and no more are read: delete them", keptFiles, mostUnsigned>>20, path.Dir(o.Name)))
				continue
			}
		}
		d, err := s.readTwice(ctx, o.Name)
		switch {
		case err != nil:
			return "", false, err
		case trusted && d.Err == nil:
			f.Trusted = true
			f.found(d)
			return o.Name, true, nil
		case d.Err == nil:
			d.Err = fmt.Errorf("%s: %w", o.Name, damaged("no trusted key signed it"))
		case !o.signature: // the name alone says nothing
			f.strays = append(f.strays, d)
			continue
		}
		f.Doubts, f.Trusted = append(f.Doubts, d), f.Trusted || trusted
	}
	return "", known, nil
}

// tooMany is a file that may be trusted, and is not read.
func tooMany(object, format string, args ...any) Doubt {
	return Doubt{Object: object, Err: fmt.Errorf("%s: %w", object, damaged(format, args...))}
}

// found takes in the newest file that counts.
func (f *FoundFile) found(d Doubt) { f.Data, f.Sum = d.Data, d.Sum() }

func (f *FoundFile) sortDoubts() {
	slices.SortFunc(f.Doubts, func(a, b Doubt) int { return strings.Compare(b.Object, a.Object) })
}

// listedFile is a file that is there, or that has a signature.
type listedFile struct {
	Object
	there, signature bool
}

// filesOf are the files of a kind, the newest one last. Where signatures are judged, those count that are there without their file.
func (s *Store) filesOf(ctx context.Context, lineage string, kind FileKind) (all []listedFile, err error) {
	objects, err := s.files(ctx, lineage, kind)
	if err != nil {
		return nil, err
	}
	var signatures map[string]bool
	if s.judges() {
		if signatures, err = s.signatures(ctx, s.folder(lineage, kind)+"-"); err != nil {
			return nil, err
		}
	}
	for _, o := range objects {
		name := signatureOf(o.Name)
		all = append(all, listedFile{o, true, signatures[name]})
		delete(signatures, name)
	}
	for name := range signatures {
		if file := signedBy(name); s.isFile(file) {
			all = append(all, listedFile{Object: Object{Name: file}, signature: true})
		}
	}
	slices.SortFunc(all, func(a, b listedFile) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// newestLost is the newest file that has a trusted signature and is not there, if it is newer than another one and not one of too many by others.
func (s *Store) newestLost(ctx context.Context, all []listedFile, than string) (string, error) {
	left := keptFiles
	for _, o := range slices.Backward(all) {
		if o.Name <= than || left == 0 {
			break
		}
		if o.there {
			continue
		}
		if trusted, err := s.signedTwice(ctx, o); err != nil || trusted {
			return o.Name, err
		}
		left--
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
