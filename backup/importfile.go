package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"cke/backup/internal/pages"
)

// ImportKind is what an operator names to import an etcd's data.
type ImportKind string

// Kinds.
const (
	// ImportSnapshot is a file of `etcdctl snapshot save`: a database and its SHA-256.
	ImportSnapshot ImportKind = "snapshot"
	// ImportDatabase is a database without a digest: a copied member/snap/db.
	ImportDatabase ImportKind = "database"
	// ImportDirectory is the data directory of a stopped member.
	ImportDirectory ImportKind = "data directory"
)

// ImportFile is a database of etcd that cke did not take. It is locked until Close, so that no etcd starts on it.
type ImportFile struct {
	// Path is the database.
	Path string
	Kind ImportKind
	ImportInfo
	// Size and Digest (SHA-256) are of the database, without what follows it.
	Size   int64
	Digest [sha256.Size]byte
	held   *os.File
}

// ImportRefusal reports that a file is not imported although it may be sound: something would be lost, or is not known.
type ImportRefusal struct{ What, Try string }

func (e *ImportRefusal) Error() string { return e.What }

// OpenImport reads and checks a file or data directory whole. unproved accepts a database without a digest. Data that is
// damaged is reported as damage, what must not be imported as an *ImportRefusal.
func OpenImport(ctx context.Context, path string, unproved bool) (*ImportFile, error) {
	f := &ImportFile{Path: path}
	if err := f.open(ctx, path, unproved); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *ImportFile) open(ctx context.Context, path string, unproved bool) error {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		f.Kind, f.Path = ImportDirectory, filepath.Join(path, "member", "snap", "db")
		if info, err = os.Stat(f.Path); errors.Is(err, fs.ErrNotExist) {
			return &ImportRefusal{What: path + " has no member/snap/db, so it is no data directory of etcd 3",
				Try: "name the directory that etcd has in --data-dir, on the node that holds it"}
		}
	}
	if err == nil && !info.Mode().IsRegular() {
		err = &ImportRefusal{What: f.Path + " is not a regular file"}
	}
	if err != nil {
		return err
	}
	if f.held, err = holdImport(f.Path); err != nil {
		return err
	}
	if err := f.measure(ctx, unproved); err != nil {
		return err
	}
	if err := checkTree(ctx, f.Path, pages.AllPages); err != nil {
		return err
	}
	if f.ImportInfo, err = readImport(ctx, f.Path); err != nil {
		return err
	}
	if f.Kind == ImportDirectory {
		return checkMember(ctx, filepath.Join(path, "member"), f.Index)
	}
	return nil
}

// Close releases the file.
func (f *ImportFile) Close() error {
	if f == nil || f.held == nil {
		return nil
	}
	return f.held.Close()
}

// Incarnation is what the data is called in a target: the same data has the same name.
func (f *ImportFile) Incarnation() string { return hex.EncodeToString(f.Digest[:6]) }

// holdImport locks a database as bbolt does for reading. etcd has its own locked as a whole while it runs.
func holdImport(path string) (*os.File, error) {
	held, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err = unix.Flock(int(held.Fd()), unix.LOCK_SH|unix.LOCK_NB); err == nil {
		return held, nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = &ImportRefusal{What: "an etcd runs on " + path, Try: "stop it, or take a snapshot from it: etcdctl snapshot save FILE"}
	} else {
		err = &os.PathError{Op: "lock", Path: path, Err: err}
	}
	return nil, errors.Join(err, held.Close())
}

// measure finds out what the file is, and digests it.
func (f *ImportFile) measure(ctx context.Context, unproved bool) error {
	info, err := f.held.Stat()
	if err != nil {
		return err
	}
	f.Size = info.Size()
	proved := f.Size%snapshotBlock == sha256.Size && f.Kind == ""
	switch {
	case f.Size == 0:
		return damaged("%s is empty", f.Path)
	case proved:
		f.Kind, f.Size = ImportSnapshot, f.Size-sha256.Size
	case f.Size%snapshotBlock != 0:
		return damaged("%s is truncated: a database of %d bytes does not end with a whole page, and no SHA-256 follows it", f.Path, f.Size)
	case f.Kind == "" && !unproved:
		return &ImportRefusal{What: f.Path + " has no hash at its end, so nothing shows that it is whole", Try: "take it with `etcdctl snapshot save`, " +
			"or name the data directory of the stopped member; --skip-hash-check accepts a member/snap/db that was copied from a stopped etcd, without what only the write-ahead log has"}
	case f.Kind == "":
		f.Kind = ImportDatabase
	}
	h := sha256.New()
	if err := digestFile(ctx, h, f.held, 0, f.Size); err != nil {
		return err
	}
	f.Digest = [sha256.Size]byte(h.Sum(nil))
	if !proved {
		return nil
	}
	var end [sha256.Size]byte
	if _, err := f.held.ReadAt(end[:], f.Size); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if !bytes.Equal(end[:], f.Digest[:]) {
		return damaged("%s does not match the SHA-256 at its end", f.Path)
	}
	return nil
}

// importSuffix follows the name of a cluster in a target where data is stored that was imported into it. No cluster's name has a dot.
const importSuffix = ".import"

// ImportName is the name under which a target has what was imported into a cluster.
func ImportName(cluster string) string { return cluster + importSuffix }

// IsImport reports whether ImportName made a name.
func IsImport(name string) bool { return strings.HasSuffix(name, importSuffix) }

// noLog is the way out where a log is not as it should be.
func noLog(member, why string) error {
	return &ImportRefusal{What: fmt.Sprintf("%s: %s", member, why), Try: "start its etcd once with its other members, so that its database has all of its log, and stop it; " +
		"if they are gone for good, start it on a copy of its directory with --force-new-cluster; or take a snapshot: etcdctl snapshot save FILE"}
}
