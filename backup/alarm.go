package backup

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"

	"cke/backup/internal/pages"
)

// bucketAlarm holds etcd's alarms, by the members that raised them.
// Source: etcd server, storage/schema/alarm.go.
var bucketAlarm = []byte("alarm")

// ForgetAlarms removes the alarms from a snapshot or database file: they name members that a restored cluster does not
// have, would keep it from accepting writes, and are left in place by etcdutl. etcd raises an alarm again if its cause
// remains.
func ForgetAlarms(ctx context.Context, path string) error {
	_, err := forgetAlarms(ctx, path, true)
	return err
}

// forgetAlarms returns the SHA-256 of a snapshot that it changed, in hex.
func forgetAlarms(ctx context.Context, path string, durable bool) (digest string, err error) {
	defer pages.Guard(&err)()
	if there, err := hasAlarms(ctx, path); err != nil || !there {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	snapshot := info.Size()%snapshotBlock == sha256.Size
	if snapshot {
		if err := trimDigest(path); err != nil {
			return "", err
		}
	}
	if err := checkTree(ctx, path, pages.AllPages); err != nil {
		return "", err
	}
	db, err := pages.Open(path, false)
	if err != nil {
		return "", fmt.Errorf("open %s as a database: %w", path, err)
	}
	defer db.Close()
	if err := db.Update(dropAlarms); err != nil {
		return "", fmt.Errorf("remove the alarms from %s: %w", path, err)
	}
	if err := db.Close(); err != nil || !snapshot {
		return "", err
	}
	return appendDigest(ctx, path, durable)
}

func hasAlarms(ctx context.Context, path string) (there bool, err error) {
	if err := checkTree(ctx, path, pages.Edge); err != nil {
		return false, err
	}
	db, err := pages.Open(path, true)
	if err != nil {
		return false, fmt.Errorf("open %s as a database: %w", path, err)
	}
	defer db.Close()
	err = db.View(func(tx *bolt.Tx) error {
		if b := tx.Bucket(bucketAlarm); b != nil {
			k, _ := b.Cursor().First()
			there = k != nil
		}
		return nil
	})
	return there, err
}

// dropAlarms leaves the bucket there, as etcd does.
func dropAlarms(tx *bolt.Tx) error {
	b := tx.Bucket(bucketAlarm)
	if b == nil {
		return nil
	}
	if k, _ := b.Cursor().First(); k == nil {
		return nil
	}
	if err := tx.DeleteBucket(bucketAlarm); err != nil {
		return err
	}
	_, err := tx.CreateBucket(bucketAlarm)
	return err
}
