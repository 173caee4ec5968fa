package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"cke/backup/internal/pages"
)

// Whatever is applied by way of pages is what bbolt itself makes of it: the same buckets, keys and values, and so the same hash as
// etcd computes. So is what becomes of it when it is compacted.
func TestPlain_BboltMakesTheSameOfIt(t *testing.T) {
	real := realDatabases(t)
	rounds := 60
	if testing.Short() {
		rounds = 6
	}
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 21)) //nolint:gosec // to be repeated
		var full []byte
		if n := int(seed) % (len(real) + 3); n < len(real) {
			sum := sha256.Sum256(real[n])
			full = append(bytes.Clone(real[n]), sum[:]...)
		} else {
			full = randomDatabase(t, r)
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) { comparePlain(t, r, full) })
	}
}

// comparePlain brings a full forward by random deltas both ways, and compacts it both ways.
func comparePlain(t *testing.T, r *rand.Rand, full []byte) {
	file := filepath.Join(t.TempDir(), "full")
	if err := os.WriteFile(file, full, 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := InspectSnapshot(file)
	if err != nil {
		t.Fatal(err)
	}
	n := int64(1 + r.IntN(20))
	compacted := int64(0) // by the cluster, after the full
	if r.IntN(2) == 0 {
		compacted = info.Revision + r.Int64N(n+1)
	}
	c := newChain(t, full, info.Revision, n, compacted)
	for seq := int64(1); seq <= int64(r.IntN(4)); seq++ {
		c.randomDelta(t, r, seq)
	}
	plain := *c.store
	plain.Plain = true
	for _, at := range []At{{}, {Revision: info.Revision + 1 + r.Int64N(c.last-info.Revision)}} {
		ours, x := extractedBy(t, c.store, at)
		theirs, y := extractedBy(t, &plain, at)
		x.Size, x.Digest, y.Size, y.Digest = 0, "", 0, "" // pages may lie elsewhere
		if fmt.Sprintf("%+v", tellable(x)) != fmt.Sprintf("%+v", tellable(y)) {
			t.Errorf("extracted %+v, by bbolt %+v", tellable(x), tellable(y))
		}
		sameDatabase(t, ours, theirs, x.Revision)
	}
	// Each way makes a full in a store of its own.
	other := t.TempDir()
	if err := os.CopyFS(other, os.DirFS(string(c.store.Bucket.(Dir)))); err != nil {
		t.Fatal(err)
	}
	plain.Bucket = Dir(other)
	var made [2]string
	for i, s := range []*Store{c.store, &plain} {
		p, err := s.Compact(t.Context(), At{}, CompactOptions{})
		if err != nil {
			t.Fatal(err)
		}
		made[i], _ = extractedBy(t, s, At{Full: p.ID()})
	}
	// A full that was sealed on the way leaves it to etcd to do a compaction that was ordered before it.
	if pending, err := hasSuperseded(made[0]); err != nil {
		t.Fatal(err)
	} else if pending {
		done := filepath.Join(t.TempDir(), "done")
		if err := rewrite(t.Context(), made[0], done); err != nil {
			t.Fatal(err)
		}
		made[0] = done
	}
	sameDatabase(t, made[0], made[1], c.last)
}

// tellable is what a person is told of an extract.
func tellable(x Extracted) []any {
	return []any{x.Lineage, x.Revision, x.Full, x.Deltas, x.Records, x.End, x.through, x.EtcdVersion, x.Notes, x.hashes, x.history, x.users}
}

func extractedBy(t *testing.T, s *Store, at At) (string, Extracted) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	x, err := s.Extract(t.Context(), at, out, ExtractOptions{CheckHash: true})
	if err != nil {
		t.Fatalf("by bbolt alone: %v: %v", s.Plain, err)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if is := fmt.Sprintf("%x", sha256.Sum256(data)); x.Digest != "" && is != x.Digest {
		t.Errorf("by bbolt alone: %v: the digest of the file is %s, said was %s", s.Plain, is, x.Digest)
	}
	return out, x
}

// sameDatabase compares two snapshots: what they say of themselves, all that is in them, and the hashes that etcd would compute.
func sameDatabase(t *testing.T, a, b string, revision int64) {
	t.Helper()
	var infos [2]SnapshotInfo
	var all [2][]byte
	for i, path := range []string{a, b} {
		if err := checkTree(t.Context(), path, pages.AllRules); err != nil {
			t.Fatal(err)
		}
		info, err := InspectSnapshot(path)
		if err != nil {
			t.Fatal(err)
		}
		infos[i], all[i] = info, contents(t, path)
	}
	if infos[0] != infos[1] {
		t.Errorf("%+v, by bbolt %+v", infos[0], infos[1])
	}
	if !bytes.Equal(all[0], all[1]) {
		t.Errorf("the contents differ: %d bytes, by bbolt %d", len(all[0]), len(all[1]))
	}
	for _, compacted := range []int64{-1, infos[0].Compacted, revision} {
		ours, err := HashSnapshot(t.Context(), a, revision, compacted)
		if err != nil {
			t.Fatal(err)
		}
		if theirs, err := HashSnapshot(t.Context(), b, revision, compacted); err != nil || theirs != ours {
			t.Errorf("hash %+v, by bbolt %+v, %v", ours, theirs, err)
		}
	}
}

// contents is all that a database holds, bucket by bucket, with what these are and how long.
func contents(t *testing.T, path string) (all []byte) {
	t.Helper()
	db, err := pages.Open(path, true)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	field := func(b []byte) { all = append(binary.AppendUvarint(all, uint64(len(b))), b...) }
	var walk func(b *bolt.Bucket) error
	walk = func(b *bolt.Bucket) error {
		all = binary.AppendUvarint(all, b.Sequence())
		return b.ForEach(func(k, v []byte) error {
			field(k)
			if v == nil {
				all = append(all, 'B')
				return walk(b.Bucket(k))
			}
			all = append(all, 'V')
			field(v)
			return nil
		})
	}
	err = db.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
			field(name)
			return walk(b)
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// randomDatabase is a snapshot with records, leases, users, alarms and maybe a compaction.
func randomDatabase(t *testing.T, r *rand.Rand) []byte {
	return database(t, 512<<r.IntN(6), func(db *bolt.DB) {
		value := appendKeyValue(nil, &Change{Key: []byte("old"), Value: make([]byte, r.IntN(3000))})
		last := 2 + r.Int64N(1<<r.IntN(12))
		putRecords(t, db, 2, last, value)
		update(t, db, func(tx *bolt.Tx) error {
			b, err := tx.CreateBucket(bucketAlarm)
			for n := byte(0); err == nil && n < byte(r.IntN(3)); n++ {
				err = b.Put([]byte{8, n}, []byte{})
			}
			if err == nil {
				err = tx.Bucket(bucketAuth).SetSequence(r.Uint64N(3))
			}
			leases := map[int64]int64{}
			for id := range r.Int64N(30) {
				leases[id+1] = 1 + r.Int64N(100)
			}
			if err == nil {
				err = putLeases(tx, leases)
			}
			if err == nil && r.IntN(3) == 0 {
				err = setCompacted(tx, last-r.Int64N(last), r.IntN(2) == 0)
			}
			return err
		})
	})
}

// randomDelta stores one of random changes and lists of leases behind a chain.
func (c *chain) randomDelta(t *testing.T, r *rand.Rand, sequence int64) {
	t.Helper()
	h := Header{Place: DeltaPlace("prod", "l", c.store.stream(t), sequence, c.last+1)}
	w, err := NewDeltaWriter(c.last+1, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 1 + r.IntN(300) {
		c.last++
		var txn []Change
		for i := range 1 + r.IntN(3) {
			x := Change{Key: fmt.Appendf(nil, "%d/%d", i, r.IntN(40)), ModRevision: c.last, Delete: r.IntN(4) == 0}
			if !x.Delete {
				x.Value, x.CreateRevision, x.Version, x.Lease = make([]byte, r.IntN(1<<r.IntN(14))), c.last, 1, r.Int64N(40)
			}
			txn = append(txn, x)
		}
		if err := w.Add(txn, h0.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if r.IntN(50) == 0 {
			l := LeaseChange{Low: c.last - 1, High: c.last, Reset: r.IntN(2) == 0, Gone: []int64{1 + r.Int64N(40)}}
			for range r.IntN(20) {
				l.Granted = append(l.Granted, Lease{ID: 1 + r.Int64N(40), TTL: 1 + r.Int64N(100)})
			}
			if err := w.AddLeases(l); err != nil {
				t.Fatal(err)
			}
		}
	}
	content, h, err := w.Seal(h)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.store.Bucket.Create(t.Context(), h.Place.Name(), content); err != nil {
		t.Fatal(err)
	}
}

// stream is the name of the only stream of deltas in a store.
func (s *Store) stream(t *testing.T) int64 {
	t.Helper()
	l, err := s.Lineage(t.Context(), "l")
	if err != nil || len(l.Streams) != 1 {
		t.Fatalf("%d streams, %v", len(l.Streams), err)
	}
	return l.Streams[0].Stream
}
