package backup

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A file is CLUSTER/LINEAGE/KIND/TIME-SHA256; the digest in its name is that of its bytes.
func (s *Store) fileName(lineage string, kind FileKind, t time.Time, data []byte) string {
	return fmt.Sprintf("%s/%s/%s/%s-%x", s.Cluster, lineage, kind, t.UTC().Format(timeLayout), sha256.Sum256(data))
}

var fileForm = regexp.MustCompile(`^[^/]+/[^/]+/[^/]+/(\d{8}T\d{6}\.\d{3}Z)-([0-9a-f]{64})$`)

// parseFile parses the name of a file. false: it is no name that fileName makes, so anybody's. It has no place in the order of files, whoever signed it.
func parseFile(name string) (at time.Time, sum string, ok bool) {
	m := fileForm.FindStringSubmatch(name)
	if m == nil {
		return time.Time{}, "", false
	}
	at, err := time.Parse(timeLayout, m[1])
	return at, m[2], err == nil && at.Format(timeLayout) == m[1]
}

// timeOf is the time in the name of a file, sumOf the digest.
func timeOf(name string) time.Time { at, _, _ := parseFile(name); return at }
func sumOf(name string) string     { _, sum, _ := parseFile(name); return sum }

// farFuture is how far ahead of this host's clock the time of a file that is not signed may be; the target's clock, and its times of objects, are
// anybody's. A signed one may be twice as far: it counts on every host where one that is not made it so late.
const farFuture = 100 * 365 * 24 * time.Hour

// farAhead reports whether a file that is not signed is of a time that no clock shows.
func (s *Store) farAhead(name string) bool { return !timeOf(name).Before(s.now().Add(farFuture)) }

// isFile reports whether a file may count if it is signed.
func (s *Store) isFile(name string) bool {
	at, _, ok := parseFile(name)
	return ok && at.Before(s.now().Add(2*farFuture))
}

// files are the objects of a kind that may count, the newest one last.
func (s *Store) files(ctx context.Context, lineage string, kind FileKind) ([]Object, error) {
	objects, err := s.Bucket.List(ctx, s.folder(lineage, kind))
	return slices.DeleteFunc(slices.Clone(objects), func(o Object) bool { return !s.isFile(o.Name) }), err
}

func (s *Store) folder(lineage string, kind FileKind) string {
	return fmt.Sprintf("%s/%s/%s/", s.Cluster, lineage, kind)
}

// isOf reports whether an object lies in the folder of a kind.
func (k FileKind) isOf(name string) bool { return path.Base(path.Dir(name)) == string(k) }

func signatureOf(file string) string {
	folder, kind := path.Split(path.Dir(file))
	return fmt.Sprintf("%s%s/%s-%s", folder, fileSignatures, kind, path.Base(file))
}

// signedBy is the file whose signature has a name.
func signedBy(signature string) string {
	kind, base, _ := strings.Cut(path.Base(signature), "-")
	return path.Join(path.Dir(path.Dir(signature)), kind, base)
}
