package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strings"
	"time"
)

// FileKind names the objects that lie beside the backups.
type FileKind string

// Kinds of files.
const (
	FileSpec     FileKind = "spec"     // the cluster file
	FileIdentity FileKind = "identity" // incarnation and CAs, sealed by who gives it
	fileVerified FileKind = "verified"
)

// maxFile bounds such a file.
const maxFile = 16 << 20

// A file is CLUSTER/LINEAGE/KIND/TIME-SHA256; the digest in its name is that of its bytes.
func (s *Store) fileName(lineage string, kind FileKind, t time.Time, data []byte) string {
	return fmt.Sprintf("%s/%s/%s/%s-%x", s.Cluster, lineage, kind, t.UTC().Format(timeLayout), sha256.Sum256(data))
}

// PutFile stores a file beside a lineage's backups, unless the newest of its kind has the same content. The bytes are
// stored as they are: who wants them sealed seals them.
func (s *Store) PutFile(ctx context.Context, lineage string, kind FileKind, data []byte) error {
	if err := CheckNames(s.Cluster, lineage); err != nil {
		return err
	}
	if len(data) > maxFile {
		return fmt.Errorf("a %s of %d bytes: %w", kind, len(data), ErrLimit)
	}
	newest, err := s.newestFile(ctx, lineage, kind)
	if err != nil {
		return err
	}
	name := s.fileName(lineage, kind, s.now(), data)
	if _, sum, _ := strings.Cut(path.Base(newest), "-"); newest != "" && strings.HasSuffix(name, "-"+sum) {
		return nil
	}
	return s.Retry.Put(ctx, s.Bucket, name, Content{Head: data}, nil)
}

// File returns the newest file of a kind; ErrNotFound if there is none.
func (s *Store) File(ctx context.Context, lineage string, kind FileKind) ([]byte, error) {
	name, err := s.newestFile(ctx, lineage, kind)
	if err != nil {
		return nil, err
	}
	if name == "" {
		return nil, fmt.Errorf("%s of cluster %s, lineage %s: %w", kind, s.Cluster, lineage, ErrNotFound)
	}
	return s.readFile(ctx, name)
}

func (s *Store) newestFile(ctx context.Context, lineage string, kind FileKind) (string, error) {
	objects, err := s.Bucket.List(ctx, fmt.Sprintf("%s/%s/%s/", s.Cluster, lineage, kind))
	if err != nil || len(objects) == 0 {
		return "", err
	}
	return objects[len(objects)-1].Name, nil // names begin with the time
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
	if _, sum, _ := strings.Cut(path.Base(name), "-"); sum != fmt.Sprintf("%x", sha256.Sum256(data)) {
		return nil, &DamagedError{Object: name, Err: damaged("it does not match the digest in its name")}
	}
	return data, nil
}

// Verified is a mark that a backup was restored to scratch and found right.
type Verified struct {
	Full     string    `json:"full"` // ID
	Revision int64     `json:"revision"`
	At       time.Time `json:"at"`
	// HashChecked: also etcd's own hash was equal.
	HashChecked bool `json:"hashChecked"`
	// Booted is the version of an etcd that started on it and answered; empty: none did.
	Booted string `json:"booted,omitempty"`
}

func (s *Store) markVerified(ctx context.Context, lineage string, v Verified) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.Retry.Put(ctx, s.Bucket, s.fileName(lineage, fileVerified, v.At, data), Content{Head: data}, nil)
}

// LastVerified returns the newest mark of a lineage; nil without one.
func (s *Store) LastVerified(ctx context.Context, lineage string) (*Verified, error) {
	data, err := s.File(ctx, lineage, fileVerified)
	if err != nil {
		return nil, ignoreMissingObject(err)
	}
	var v Verified
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&v); err != nil {
		return nil, fmt.Errorf("mark of verification: %w", err)
	}
	return &v, nil
}
