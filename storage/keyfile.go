package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// sealedWith is the store's marker: what all its secrets are sealed for.
type sealedWith struct {
	// Recipient is the public key, "age1…".
	Recipient string    `json:"recipient"`
	Since     time.Time `json:"since"`
}

// OpenSecrets checks that this process can unseal the secrets in the store. A daemon calls it once when it starts;
// nothing else ever creates a key. The first daemon on a store without secrets creates the key file.
//
// CodeSecret, as a *cke.Error: the key file is missing, wrong or unprotected.
func (s *Store) OpenSecrets(ctx context.Context) error {
	marker, err := s.marker(ctx)
	if s.keyFile == "" {
		return &cke.Error{Code: cke.CodeSecret, What: "no secret_key_file is configured", Unchanged: true}
	}
	if err == nil {
		_, err = s.identityFor(marker)
		return err
	}
	if !errors.Is(err, cke.ErrNotFound) {
		return s.fail("read what the store is sealed with", err)
	}
	id, err := readKeyFile(s.keyFile)
	made := errors.Is(err, fs.ErrNotExist)
	if made {
		id, err = makeKeyFile(s.keyFile)
	}
	if err != nil {
		return err
	}
	return s.mark(ctx, id, made)
}

// mark makes id the store's key, unless another daemon was faster with another one.
func (s *Store) mark(ctx context.Context, id *age.X25519Identity, made bool) error {
	key := s.keys.sealedWith()
	op, err := put(key, sealedWith{Recipient: id.Recipient().String(), Since: time.Now().UTC()})
	if err != nil {
		return err
	}
	first, err := put(s.keys.version(), StoreSchema{Version: SchemaVersion, Since: time.Now().UTC()})
	if err != nil {
		return err
	}
	secrets := under(s.keys.allSecrets())
	none := clientv3.Compare(clientv3.CreateRevision(secrets.start).WithRange(secrets.end), "=", 0)
	resp, err := s.txn(ctx, []clientv3.Cmp{absent(key), absent(s.keys.globalSSHKey()), absent(s.keys.globalBackupCredentials()), none}, []clientv3.Op{op, first})
	if err != nil {
		return s.fail("store the public key of the secrets", err)
	}
	if resp.Succeeded {
		if _, _, err := s.schema(ctx); err != nil {
			return s.fail("read the schema of the store", err)
		}
		s.log.Info("secrets are sealed with a new key; keep a copy of the file in a safe place", "file", s.keyFile, "made", made)
		return nil
	}
	marker, err := s.marker(ctx)
	switch {
	case errors.Is(err, cke.ErrNotFound):
		err = &cke.Error{Code: cke.CodeSecret, What: "the store has secrets, but not the public key that they are sealed with", Unchanged: true,
			Facts: []string{key + " is missing in etcd", "restore it from a backup of that etcd"}}
	case err != nil:
		return s.fail("read what the store is sealed with", err)
	default:
		_, err = s.identityFor(marker)
	}
	if err != nil && made {
		// It sealed nothing, and is in the way of the right one.
		return errors.Join(err, os.Remove(s.keyFile))
	}
	return err
}

func (s *Store) marker(ctx context.Context) (sealedWith, error) {
	var m sealedWith
	_, err := s.get(ctx, s.keys.sealedWith(), &m)
	return m, err
}

// identityFor reads the key file and refuses any other key than the store's.
func (s *Store) identityFor(m sealedWith) (*age.X25519Identity, error) {
	expected := "the store is sealed with the key whose public part is " + m.Recipient
	id, err := readKeyFile(s.keyFile)
	var coded *cke.Error
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &cke.Error{Code: cke.CodeSecret, What: "the secret key file " + s.keyFile + " is missing", Unchanged: true,
			Facts: []string{expected, "copy it from another management host, or from its safe copy, with mode 0600"}}
	case errors.As(err, &coded):
		coded.Facts = append(coded.Facts, expected)
		return nil, err
	case err != nil:
		return nil, err
	case id.Recipient().String() != m.Recipient:
		return nil, &cke.Error{Code: cke.CodeSecret, What: "the secret key file " + s.keyFile + " contains another key than the store's", Unchanged: true,
			Facts: []string{expected, "the file's public part is " + id.Recipient().String(), "copy the right file from another management host, or from its safe copy"}}
	}
	return id, nil
}

// ReadKeyFile reads the key file of management hosts, without a store.
func ReadKeyFile(path string) (age.Identity, error) {
	id, err := readKeyFile(path)
	if err != nil {
		return nil, err
	}
	return id, nil
}

// readKeyFile returns an error that is fs.ErrNotExist when there is no file.
func readKeyFile(path string) (*age.X25519Identity, error) {
	refuse := func(what string, err error, facts ...string) (*age.X25519Identity, error) {
		return nil, &cke.Error{Code: cke.CodeSecret, What: "the secret key file " + path + " " + what, Facts: facts, Unchanged: true, Err: err}
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return refuse("cannot be read", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return refuse("cannot be read", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return refuse(fmt.Sprintf("can be read by others (mode %04o)", mode), nil, "chmod 600 "+path, "if others may have read it, replace the secrets that it sealed")
	}
	ids, err := age.ParseIdentities(f)
	if err != nil {
		return refuse("contains no age identity", nil) // the cause could quote the file
	}
	id, ok := ids[0].(*age.X25519Identity)
	if len(ids) != 1 || !ok {
		return refuse("must contain only one X25519 identity", nil)
	}
	return id, nil
}

// makeKeyFile makes a key and has it on disk, complete, before anything is sealed with it.
func makeKeyFile(path string) (*age.X25519Identity, error) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("# Seals cke's secrets. Every management host needs this same file, mode 0600.\n# public key: %s\n%s\n", id.Recipient(), id)
	if err := writeNew(path, text); err != nil {
		return nil, &cke.Error{Code: cke.CodeSecret, What: "create the secret key file " + path, Err: err}
	}
	return id, nil
}

// writeNew creates path with this content, all or nothing; it never replaces a file.
func writeNew(path, text string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = strings.NewReader(text).WriteTo(f)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
