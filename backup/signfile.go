package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"cke/internal/contain"
)

// fileSignatures holds the signatures of the files that lie beside backups, each under the kind and the name of its file.
const fileSignatures FileKind = "signatures"

// maxSignature bounds what is read of one.
const maxSignature = 4 << 10

// signFile signs a file by its name, which has its digest.
func (s *Store) signFile(ctx context.Context, file string) error {
	if s.Signer == nil {
		return nil
	}
	data, err := json.Marshal(s.Signer.sign(signedFile, []byte(file)))
	if err != nil {
		return err
	}
	return s.Retry.Put(ctx, s.Bucket, signatureOf(file), Content{Head: data}, s.Guard)
}

// newestOf chooses, of the files of a kind, the newest that is signed by a key that is trusted; without such, the newest that is not of the
// far future. Empty: there is none.
func (s *Store) newestOf(ctx context.Context, files []Object) (name string, trusted bool, err error) {
	if s.judges() {
		var there map[string]bool // signatures; nil: not listed
		for i, o := range slices.Backward(files) {
			if i < len(files)-1 && there == nil { // anybody can put many files there: those that have no signature are not to cost a request each
				if there, err = s.signatures(ctx, o.Name); err != nil {
					return "", false, err
				}
			}
			if there != nil && !there[signatureOf(o.Name)] {
				continue
			}
			if trusted, err = s.signedTwice(ctx, listedFile{o, true, true}); err != nil || trusted {
				return o.Name, trusted, err
			}
		}
	}
	for _, o := range slices.Backward(files) { // names begin with the time
		if !s.farAhead(o.Name) {
			return o.Name, false, nil
		}
	}
	return "", false, nil
}

// record returns the newest file of a kind that shows the state of the backups, and decides what is done with them; "": there is none. Once a
// backup of the lineage is signed by a key that is trusted, only files count that are, too: who signed that backup signs all that follows.
// trusted: this one is.
func (s *Store) record(ctx context.Context, lineage string, kind FileKind) (name string, trusted bool, err error) {
	files, err := s.files(ctx, lineage, kind)
	if err != nil {
		return "", false, err
	}
	return s.recordOf(ctx, lineage, files)
}

// recordOf is record, of files that may count.
func (s *Store) recordOf(ctx context.Context, lineage string, files []Object) (name string, trusted bool, err error) {
	name, trusted, err = s.newestOf(ctx, files)
	if err != nil || name == "" || trusted || !s.judges() {
		return name, trusted, err
	}
	if signed, err := s.signedLineage(ctx, lineage); err != nil || signed {
		return "", false, err
	}
	return name, false, nil
}

// signedLineage reports whether a backup of a lineage is signed by a key that is trusted.
func (s *Store) signedLineage(ctx context.Context, lineage string) (bool, error) {
	for _, kind := range []Kind{KindDelta, KindFull} {
		objects, err := s.Bucket.List(ctx, fmt.Sprintf("%s/%s/%s/", s.Cluster, lineage, kind))
		if err != nil {
			return false, err
		}
		for n := 1; len(objects) > 0; n = 8 * parallel { // as a rule the newest is; anybody can put many there that are not
			rest := max(0, len(objects)-n)
			if signed, err := s.anySigned(ctx, objects[rest:]); err != nil || signed {
				return signed, err
			}
			objects = objects[:rest]
		}
	}
	return false, nil
}

// anySigned reads the headers of backups, and reports whether one is signed by a key that is trusted.
func (s *Store) anySigned(ctx context.Context, objects []Object) (bool, error) {
	var signed atomic.Bool
	g, reading := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, o := range objects {
		p, ok := ParsePlace(o.Name)
		if !ok {
			continue
		}
		g.Go(contain.Err(func() error {
			h, err := ReadHeader(reading, s.Bucket, p)
			err = s.judgeFormat(err)
			if err != nil && !IsDamage(err) && !errors.Is(err, ErrNotFound) {
				return err
			}
			if err == nil && s.trusts(h.Signature) {
				signed.Store(true)
			}
			return nil
		}))
	}
	if err := g.Wait(); err != nil && !signed.Load() {
		return false, err
	}
	return signed.Load(), nil
}

// signatures are the names of the signatures that files of a file's kind have.
func (s *Store) signatures(ctx context.Context, file string) (map[string]bool, error) {
	kind, _ := strings.CutSuffix(signatureOf(file), path.Base(file))
	objects, err := s.Bucket.List(ctx, kind)
	there := make(map[string]bool, len(objects))
	for _, o := range objects {
		there[o.Name] = true
	}
	return there, err
}

// signedFile reports whether a file is signed by a key that is trusted.
func (s *Store) signedFile(ctx context.Context, file string) (bool, error) {
	r, err := s.Bucket.Open(ctx, signatureOf(file), 0, maxSignature)
	if err != nil {
		return false, ignoreMissingObject(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return false, fmt.Errorf("read the signature of %s: %w", file, err)
	}
	var g Signature
	return json.Unmarshal(data, &g) == nil && s.trusts(&g) && g.verify(signedFile, []byte(file)) == nil, nil
}
