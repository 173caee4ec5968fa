package backup

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke/backup/internal/etcdtest"
	"cke/backup/internal/pages"
)

// realDatabases are snapshots of an etcd, without the digest at their end: one of a single change; one with branch pages,
// values over several pages, leases and a compaction; and that one as bbolt writes it when it keeps its list of free pages.
func realDatabases(t testing.TB) [][]byte {
	t.Helper()
	s := etcdtest.Start(t, etcdtest.Options{})
	ctx := etcdtest.Context(t)
	put := func(key, value string, opts ...clientv3.OpOption) int64 {
		r, err := s.Client.Put(ctx, key, value, opts...)
		if err != nil {
			t.Fatal(err)
		}
		return r.Header.Revision
	}
	save := func(name string) []byte {
		file := filepath.Join(t.TempDir(), name)
		r, err := s.Client.SnapshotWithVersion(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Snapshot.Close()
		f, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.ReadFrom(r.Snapshot); err != nil {
			t.Fatal(err)
		}
		if err := trimDigest(file); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	put("a", "1")
	all := [][]byte{save("small")}
	lease, err := s.Client.Grant(ctx, 3600)
	if err != nil {
		t.Fatal(err)
	}
	var last int64
	for i := range 120 {
		last = put(fmt.Sprintf("key/%03d", i%40), strings.Repeat("v", i*9), clientv3.WithLease(lease.ID*clientv3.LeaseID(i%2)))
		if i%40 == 7 {
			last = put("large", strings.Repeat("L", 9000))
		}
	}
	if _, err := s.Client.Compact(ctx, last-30, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Client.Delete(ctx, "key/01", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	all = append(all, save("large"))
	// The list of free pages is written by who does not leave it out.
	file := filepath.Join(t.TempDir(), "free")
	if err := os.WriteFile(file, all[1], 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(file, 0o600, nil)
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return append(all, data)
}

// resum makes the meta pages' own checksums right, so that what is wrong in them is believed.
func resum(data []byte) {
	for _, at := range []int{pages.HeaderSize, os.Getpagesize() + pages.HeaderSize} {
		if at+64 <= len(data) {
			h := fnv.New64a()
			h.Write(data[at : at+56])
			binary.LittleEndian.PutUint64(data[at+56:], h.Sum64())
		}
	}
}

// readEverywhere reads a database in all ways there are, and writes to it. It reports what took too long.
func readEverywhere(t testing.TB, file string) {
	t.Helper()
	begun := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	info, _ := InspectSnapshot(file)
	_, unreadable := HashSnapshot(ctx, file, info.Revision, info.Compacted)
	_, _ = HashRestored(ctx, file, 1000)
	if err := mergeOne(ctx, file, info.Revision); err != nil {
		t.Logf("written: %v", err)
	} else if _, err := HashSnapshot(ctx, file, info.Revision+1, 0); err != nil && unreadable == nil {
		// What could be read before can be read afterwards.
		t.Errorf("cannot be read once it was written to: %v", err)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("took %s", took)
	}
}

// mergeOne brings a database forward by one change, as a full is that has just been fetched.
func mergeOne(ctx context.Context, file string, revision int64) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	m, err := mergeInto(ctx, file, data, revision, []Record{{Main: revision + 1, Value: appendKeyValue(nil, &Change{Key: []byte("k"), Lease: 7})}}, true)
	if m != nil {
		m.close()
	}
	return err
}

// FuzzDatabase: whatever became of a database on a bad disk, it is read or refused: nobody dies and nobody waits for ever.
// edits are runs of: place (3 bytes), length (1 byte), bytes.
func FuzzDatabase(f *testing.F) {
	all := realDatabases(f)
	dir := f.TempDir()
	f.Add(uint8(0), []byte{}, 0, false)
	f.Add(uint8(1), []byte{0x00, 0x30, 0x08, 2, 1, 0}, 0, false)
	f.Add(uint8(2), []byte{0x00, 0x00, 0x30, 8, 2, 0, 0, 0, 0, 0, 0, 0}, 0, true)
	for page := range uint8(12) { // pages that refer to others
		f.Add(uint8(1), []byte{0, page << 4, 24, 8, 3, 0, 0, 0, 0, 0, 0, 0}, 0, false)
		f.Add(uint8(2), []byte{0, page << 4, 8, 8, 16, 0, 255, 255, 255, 255, 255, 127}, 0, true)
	}
	f.Fuzz(func(t *testing.T, which uint8, edits []byte, cut int, sums bool) {
		data := append([]byte(nil), all[int(which)%len(all)]...)
		for len(edits) > 4 {
			at := int(edits[0])<<16 | int(edits[1])<<8 | int(edits[2])
			n := min(int(edits[3]), len(edits)-4)
			copy(data[at%len(data):], edits[4:4+n])
			edits = edits[4+n:]
		}
		if cut > 0 {
			data = data[:len(data)-cut%len(data)]
		}
		if sums {
			resum(data)
		}
		file := filepath.Join(dir, fmt.Sprint(os.Getpid()))
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		readEverywhere(t, file)
	})
}
