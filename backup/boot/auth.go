package boot

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"

	"go.etcd.io/bbolt"
)

// Where etcd keeps whether authentication is on. Source: etcd, server/storage/schema/auth.go.
var (
	authBucket  = []byte("auth")
	authEnabled = []byte("authEnabled")
)

// withoutAuth turns authentication off in a snapshot: with it on, an etcd without TLS computes no hash for any client. What is
// hashed does not change by it. The snapshot is a scratch copy; its digest is made again.
func withoutAuth(snapshot string) error {
	on, err := authOn(snapshot)
	if err != nil || !on {
		return err
	}
	info, err := os.Stat(snapshot)
	if err != nil {
		return err
	}
	if info.Size()%512 == sha256.Size {
		if err := os.Truncate(snapshot, info.Size()-sha256.Size); err != nil {
			return err
		}
	}
	db, err := bbolt.Open(snapshot, 0o600, nil)
	if err != nil {
		return fmt.Errorf("turn authentication off in the scratch copy: %w", err)
	}
	err = db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(authBucket).Put(authEnabled, []byte{0}) })
	if closed := db.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("turn authentication off in the scratch copy: %w", err)
	}
	f, err := os.OpenFile(snapshot, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err
	}
	_, err = f.Write(sum.Sum(nil))
	return err
}

func authOn(snapshot string) (on bool, err error) {
	db, err := bbolt.Open(snapshot, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		return false, fmt.Errorf("open the scratch copy: %w", err)
	}
	defer db.Close()
	err = db.View(func(tx *bbolt.Tx) error {
		if b := tx.Bucket(authBucket); b != nil {
			v := b.Get(authEnabled)
			on = len(v) == 1 && v[0] == 1
		}
		return nil
	})
	return on, err
}
