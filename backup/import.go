package backup

import (
	"context"
	"fmt"
	"path/filepath"

	"filippo.io/age"
)

// ImportOptions are those of Import.
type ImportOptions struct {
	Recipients []age.Recipient
	Writer     string
}

// Import stores an imported file as a full, from which any daemon restores, and returns its place. Repeating it writes nothing
// new. It fails if the file is another one by now than it was when it was opened.
func (s *Store) Import(ctx context.Context, f *ImportFile, o ImportOptions) (Place, error) {
	now := s.now()
	p := FullPlace(s.Cluster, f.Incarnation(), f.Revision, now)
	if err := CheckNames(p.Cluster, p.Lineage); err != nil {
		return p, err
	}
	if there, err := s.imported(ctx, p, f, o); err != nil || there != (Place{}) {
		return there, err
	}
	dir, err := NewScratch(s.Scratch, ScratchFull)
	if err != nil {
		return p, &LocalError{Path: s.Scratch, Err: err}
	}
	defer dir.Remove()
	body := filepath.Join(dir.Path, "body")
	h := Header{Place: p, Begin: now.UTC(), End: now.UTC(), Signer: s.Signer, Writer: o.Writer, EtcdVersion: f.Version}
	c, h, digest, err := sealFile(ctx, f.Path, body, s.Bucket, h, o.Recipients)
	if err != nil {
		return p, &LocalError{Path: body, Err: err}
	}
	if digest != f.Digest {
		return p, &ImportRefusal{What: fmt.Sprintf("%s was changed since it was read", f.Path), Try: "repeat the command once no other process writes to the file"}
	}
	return h.Place, s.Retry.Put(ctx, s.Bucket, h.Place.Name(), c, nil)
}

// imported returns the place of a sound full that an earlier Import made of the same file for the same readers; the zero value: none.
func (s *Store) imported(ctx context.Context, p Place, f *ImportFile, o ImportOptions) (Place, error) {
	objects, err := s.Bucket.List(ctx, fmt.Sprintf("%s/%s/%s/", p.Cluster, p.Lineage, KindFull))
	if err != nil {
		return Place{}, fmt.Errorf("list what was imported: %w", err)
	}
	for _, is := range objects {
		there, ok := ParsePlace(is.Name)
		if !ok || there.Revision != p.Revision {
			continue
		}
		h, _, err := s.checkObject(ctx, Entry{Place: there})
		switch signed := h.Signature != nil && s.Signer != nil && h.Signature.Key == s.Signer.Public(); {
		case err != nil && !IsDamage(err):
			return Place{}, err
		case err == nil && (signed || s.Signer == nil) && h.Content == f.Size+int64(len(f.Digest)) && h.Recipients == RecipientsID(o.Recipients):
			return there, nil
		}
	}
	return Place{}, nil
}
