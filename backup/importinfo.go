package backup

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"

	bolt "go.etcd.io/bbolt"

	"cke"
	"cke/backup/internal/pages"
)

// Buckets and keys of etcd's database that only an import reads. Source: etcd server, storage/schema/bucket.go.
var (
	bucketCluster = []byte("cluster")
	bucketUsers   = []byte("authUsers")
	bucketRoles   = []byte("authRoles")
	bucketMembers = []byte("members")

	storageVersion  = []byte("storageVersion")
	clusterVersion  = []byte("clusterVersion")
	consistentIndex = []byte("consistent_index")
)

// ImportInfo is what a database that cke did not take holds.
type ImportInfo struct {
	SnapshotInfo
	// Keys counts those that are there at the revision.
	Keys int64
	// Users, Roles and Alarms are counted; Admitted: the user that cke is has the role root. Corrupt are the alarms of members
	// whose data etcd found to differ from that of others.
	Users, Roles, Alarms, Corrupt int64
	Admitted                      bool
	// Members counts those of the etcd that the data is of, and Index is the newest entry of their log that it holds.
	Members int64
	Index   uint64
	// Version is the one whose format the data has, as far as it is recorded: "3.6.0".
	Version string
	// Hash is etcd's HashKV at the revision.
	Hash Hash
}

// readImport reads a database whose tree was checked.
func readImport(ctx context.Context, path string) (info ImportInfo, err error) {
	defer pages.Guard(&err)()
	db, err := pages.Open(path, true)
	if err != nil {
		return info, fmt.Errorf("open %s as a database: %w", path, err)
	}
	defer db.Close()
	err = db.View(func(tx *bolt.Tx) (err error) {
		if info.SnapshotInfo, err = inspect(tx); err != nil {
			return err
		}
		info.Hash = Hash{Revision: info.Revision, Compacted: info.Compacted}
		info.Hash.Hash, info.Keys, err = hashKV(ctx, tx.Bucket(bucketKey), info.Revision, info.Compacted, func([]byte) bool { return true })
		info.describe(tx)
		return err
	})
	return info, err
}

// describe reads what is beside the keys.
func (i *ImportInfo) describe(tx *bolt.Tx) {
	if v := tx.Bucket(bucketMeta).Get(consistentIndex); len(v) == 8 {
		i.Index = binary.BigEndian.Uint64(v)
	}
	i.Version = dataVersion(tx)
	count := func(name []byte) (n int64) {
		if b := tx.Bucket(name); b != nil {
			n = int64(b.Stats().KeyN)
		}
		return n
	}
	i.Users, i.Roles, i.Alarms = count(bucketUsers), count(bucketRoles), count(bucketAlarm)
	i.Members = count(bucketMembers)
	if b := tx.Bucket(bucketAlarm); b != nil {
		c := b.Cursor()
		for k, _ := c.First(); k != nil; k, _ = c.Next() {
			if a := alarmOf(k); a.Kind == "CORRUPT" && !a.StopsWrites() {
				i.Corrupt++
			}
		}
	}
	if b := tx.Bucket(bucketUsers); b != nil {
		const roles = 3 // of authpb.User
		eachField(b.Get([]byte(cke.EtcdUser)), func(field, _ uint64, data []byte) {
			i.Admitted = i.Admitted || field == roles && string(data) == "root"
		})
	}
}

// DataVersion returns the version of etcd that the data in a snapshot file is of, such as 3.6.0: no etcd of an earlier minor version starts on it.
// Empty: it does not say so.
func DataVersion(path string) (version string, err error) {
	defer pages.Guard(&err)()
	db, err := pages.Open(path, true)
	if err != nil {
		return "", fmt.Errorf("open %s as a database: %w", path, err)
	}
	defer db.Close()
	err = db.View(func(tx *bolt.Tx) error { version = dataVersion(tx); return nil })
	return version, err
}

// dataVersion is the version of etcd that the data is of; empty: unknown.
func dataVersion(tx *bolt.Tx) (version string) {
	if b := tx.Bucket(bucketMeta); b != nil {
		version = string(b.Get(storageVersion)) // since 3.6
	}
	if b := tx.Bucket(bucketCluster); b != nil && version == "" {
		version = string(b.Get(clusterVersion))
	}
	if _, ok := cke.ParseVersion(version); !ok {
		return ""
	}
	return version
}

// alarmOf reads an alarm, which etcd stores as a key. Source: etcd api, etcdserverpb.AlarmMember.
func alarmOf(key []byte) (a cke.Alarm) {
	const member, kind, corrupt = 1, 2, 2
	eachField(key, func(field, number uint64, _ []byte) {
		switch {
		case field == member:
			a.MemberID = strconv.FormatUint(number, 16)
		case field == kind && number == corrupt:
			a.Kind = "CORRUPT"
		}
	})
	return a
}

// eachField calls visit with the fields of a message of protocol buffers: a number or bytes. It returns false if that is none.
func eachField(b []byte, visit func(field, number uint64, data []byte)) bool {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return false
		}
		b = b[n:]
		size := uint64(0)
		switch tag & 7 {
		case 0, 2:
			v, n := binary.Uvarint(b)
			if n <= 0 {
				return false
			}
			b = b[n:]
			if tag&7 == 0 {
				visit(tag>>3, v, nil)
				continue
			}
			size = v
		case 1:
			size = 8
		case 5:
			size = 4
		default:
			return false
		}
		if size > uint64(len(b)) {
			return false
		}
		if tag&7 == 2 {
			visit(tag>>3, 0, b[:size])
		}
		b = b[size:]
	}
	return true
}
