package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"cke/backup/internal/pages"
)

// chain is a full and one delta of some changes behind it, in a store.
type chain struct {
	store *Store
	last  int64
}

// newChain stores a snapshot, whose last revision is given, and n changes behind it. compacted is what etcd had compacted to by the
// end; 0: nothing more than before.
func newChain(t *testing.T, snapshot []byte, last, n, compacted int64) *chain {
	t.Helper()
	s := &Store{Bucket: Dir(t.TempDir()), Cluster: "prod", Scratch: t.TempDir()}
	body, seal := sealed(t, snapshot, nil, false)
	h := Header{Place: FullPlace("prod", "l", last, h0), Last: last}
	seal.describe(&h)
	head, err := h.encode(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Bucket.Create(t.Context(), h.Place.Name(), BodyContent(head, body.Bytes())); err != nil {
		t.Fatal(err)
	}
	dh := Header{Place: DeltaPlace("prod", "l", last+1, 0, last+1)}
	c := &chain{s, last + n}
	c.delta(t, dh, c.last)
	if compacted == 0 {
		return c
	}
	out := filepath.Join(t.TempDir(), "out")
	if _, err := s.Extract(t.Context(), At{}, out, ExtractOptions{}); err != nil {
		t.Fatal(err)
	}
	hash, err := HashSnapshot(t.Context(), out, c.last, compacted)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Bucket.Delete(t.Context(), dh.Place.Name()); err != nil {
		t.Fatal(err)
	}
	dh.Hashes = []Hash{hash}
	c.delta(t, dh, c.last)
	return c
}

// delta stores one of changes up to a revision.
func (c *chain) delta(t *testing.T, h Header, last int64) {
	t.Helper()
	first := h.Place.Revision
	w, err := NewDeltaWriter(first, nil)
	if err != nil {
		t.Fatal(err)
	}
	for rev := first; rev <= last; rev++ {
		c := Change{Key: []byte("key"), Value: []byte("new"), CreateRevision: 2, ModRevision: rev, Version: rev}
		if err := w.Add([]Change{c}, h0.Add(time.Second)); err != nil {
			t.Fatal(err)
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

// records extracts the newest state of a chain and returns what is in it, in order.
func (c *chain) records(t *testing.T) (all []Record, x Extracted) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	x, err := c.store.Extract(t.Context(), At{}, out, ExtractOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := checkTree(t.Context(), out, pages.AllRules); err != nil {
		t.Error(err)
	}
	err = viewKeys(t.Context(), out, func(b *bolt.Bucket) error {
		return b.ForEach(func(k, v []byte) error {
			r, _ := parseRecordKey(k)
			r.Value = bytes.Clone(v)
			all = append(all, r)
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return all, x
}

func TestCompact_TakesTheShortestWayThereIs(t *testing.T) {
	plain := func(db *bolt.DB) { putRecords(t, db, 2, 3000, make([]byte, 500)) }
	// The newest changes are gone, as their pages are not.
	stale := func(db *bolt.DB) {
		putRecords(t, db, 2, 3120, make([]byte, 500))
		dropNewest(t, db)
	}
	for name, tc := range map[string]struct {
		full      func(db *bolt.DB)
		compacted int64
		streams   bool
		gone      int // records that the compaction leaves out
	}{
		"pages are added":                          {full: plain, streams: true},
		"more of the full is needed than was kept": {full: stale},
		"the cluster has compacted since":          {full: plain, compacted: 3050, gone: 3099 - 52},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChain(t, database(t, 4096, tc.full), 3000, 100, tc.compacted)
			before, _ := c.records(t)
			seals := 0
			x, err := c.store.extract(t.Context(), At{}, filepath.Join(t.TempDir(), "db"), ExtractOptions{scratch: true, bare: true, seal: func() (*FullWriter, error) {
				seals++
				return beginFull(filepath.Join(t.TempDir(), "body"), c.store.Bucket, nil)
			}})
			if err != nil {
				t.Fatal(err)
			}
			if streams := x.sealed != nil; streams != tc.streams || streams && seals != 1 {
				t.Errorf("made while the full streams by: %v, begun %d times", streams, seals)
			}
			if x.sealed != nil {
				x.sealed.Close()
			}
			if _, err := c.store.Compact(t.Context(), At{}, CompactOptions{}); err != nil {
				t.Fatal(err)
			}
			after, x := c.records(t)
			if x.Deltas != 0 || x.Revision != c.last {
				t.Errorf("extracted: %+v", x)
			}
			if len(after) != len(before)-tc.gone {
				t.Fatalf("%d records became %d", len(before), len(after))
			}
			for i, r := range after[len(after)-50:] { // those that no compaction has reached
				if want := before[len(before)-50+i]; r.Main != want.Main || !bytes.Equal(r.Value, want.Value) {
					t.Fatalf("record %d is of revision %d", i, r.Main)
				}
			}
		})
	}
}

// Deltas overlap where those of two targets, each with bounds of its own, were copied to one.
func TestCompact_DeltasMayOverlap(t *testing.T) {
	c := newChain(t, database(t, 4096, func(db *bolt.DB) { putRecords(t, db, 2, 100, make([]byte, 50)) }), 100, 100, 0)
	for n, d := range [][2]int64{{150, 260}, {200, 230}, {261, 300}} { // the second one holds nothing new
		c.delta(t, Header{Place: DeltaPlace("prod", "l", 101, int64(n)+1, d[0])}, d[1])
	}
	check := func(deltas int) {
		t.Helper()
		all, x := c.records(t)
		if x.Revision != 300 || x.Deltas != deltas || len(all) != 299 {
			t.Fatalf("%d records: %+v", len(all), x)
		}
		for i, r := range all {
			if r.Main != int64(i)+2 {
				t.Fatalf("record %d is of revision %d", i, r.Main)
			}
		}
	}
	check(4)
	if _, err := c.store.Compact(t.Context(), At{}, CompactOptions{}); err != nil {
		t.Fatal(err)
	}
	check(0)
}

// A member may send what its own disk has spoiled. Of most leaves nothing is kept while a full streams by, and yet none that is broken
// gets into another full.
func TestCompact_RefusesAFullWithABrokenLeaf(t *testing.T) {
	for name, spoil := range map[string]func(page []byte){
		"empty":        func(page []byte) { clear(page) },
		"out of order": func(page []byte) { page[bytes.Index(page, Record{Main: 1500}.AppendKey(nil))] = 1 },
		"too long":     func(page []byte) { binary.LittleEndian.PutUint32(page[pages.HeaderSize+12:], 5000) },
	} {
		snapshot := database(t, 4096, func(db *bolt.DB) { putRecords(t, db, 2, 3000, make([]byte, 50)) })
		data := snapshot[:len(snapshot)-sha256.Size]
		wanted := Record{Main: 1500}.AppendKey(nil)
		for at := 2 * 4096; at < len(data); at += 4096 {
			if page := data[at : at+4096]; binary.LittleEndian.Uint16(page[8:]) == pages.LeafPage && bytes.Contains(page, wanted) {
				spoil(page)
			}
		}
		sum := sha256.Sum256(data)
		c := newChain(t, append(data, sum[:]...), 3000, 100, 0)
		_, err := c.store.Compact(t.Context(), At{}, CompactOptions{})
		if d := new(DamagedError); !errors.As(err, &d) || d.Object != FullPlace("prod", "l", 3000, h0).Name() {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What the older of both meta pages says counts for nothing, the size of pages least of all.
func TestCompact_AFullWithOneMetaPage(t *testing.T) {
	snapshot := database(t, 4096, func(db *bolt.DB) {
		putRecords(t, db, 2, 3000, make([]byte, 50))
		for tx := uint64(0); tx%2 == 0; { // the newest is the second one
			update(t, db, func(now *bolt.Tx) error { tx = uint64(now.ID()); return nil })
		}
	})
	data := snapshot[:len(snapshot)-sha256.Size]
	binary.LittleEndian.PutUint32(data[pages.HeaderSize+8:], 512)
	sum := sha256.Sum256(data)
	c := newChain(t, append(data, sum[:]...), 3000, 100, 0)
	if _, err := c.store.Compact(t.Context(), At{}, CompactOptions{}); err != nil {
		t.Fatal(err)
	}
	if all, x := c.records(t); len(all) != 3099 || x.Deltas != 0 {
		t.Errorf("%d records: %+v", len(all), x)
	}
}

// What a damaged delta says of the last good revision holds only if the full is sound.
func TestExtract_DamageInTheFullCountsBeforeDamageBehindIt(t *testing.T) {
	c := newChain(t, database(t, 4096, func(db *bolt.DB) { putRecords(t, db, 2, 3000, make([]byte, 500)) }), 3000, 100, 0)
	damage := func(p Place, at int64) {
		var data bytes.Buffer
		r, err := c.store.Bucket.Open(t.Context(), p.Name(), 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := data.ReadFrom(r); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(r.Close(), c.store.Bucket.Delete(t.Context(), p.Name())); err != nil {
			t.Fatal(err)
		}
		data.Bytes()[int64(data.Len())-at] ^= 1
		if err := c.store.Bucket.Create(t.Context(), p.Name(), BodyContent(nil, data.Bytes())); err != nil {
			t.Fatal(err)
		}
	}
	told := func() *DamagedError {
		_, err := c.store.Extract(t.Context(), At{Revision: c.last}, filepath.Join(t.TempDir(), "out"), ExtractOptions{})
		d := new(DamagedError)
		if !errors.As(err, &d) {
			t.Fatalf("error %v", err)
		}
		return d
	}
	full, delta := FullPlace("prod", "l", 3000, h0), DeltaPlace("prod", "l", 3001, 0, 3001)
	damage(delta, 20)
	if d := told(); d.Object != delta.Name() || d.LastGood != 3000 {
		t.Errorf("a damaged delta: %v", d)
	}
	damage(full, 20)
	if d := told(); d.Object != full.Name() || d.LastGood != 0 {
		t.Errorf("and a damaged full: %v", d)
	}
}

// The hash of a full that streams by is computed from its leaves.
func TestCompact_ComparesTheFullThatStreamsBy(t *testing.T) {
	for name, right := range map[string]bool{"right": true, "wrong": false} {
		t.Run(name, func(t *testing.T) {
			c := newChain(t, database(t, 4096, func(db *bolt.DB) { putRecords(t, db, 2, 3000, make([]byte, 500)) }), 3000, 100, 0)
			l, err := c.store.Lineage(t.Context(), "l")
			if err != nil {
				t.Fatal(err)
			}
			full, out := l.Fulls[0].Place, filepath.Join(t.TempDir(), "full")
			if _, err := c.store.Extract(t.Context(), At{Full: full.ID()}, out, ExtractOptions{}); err != nil {
				t.Fatal(err)
			}
			hash, err := HashSnapshot(t.Context(), out, 3000, -1)
			if err != nil {
				t.Fatal(err)
			}
			if !right {
				hash.Hash++
			}
			h, head, err := readHead(t.Context(), c.store.Bucket, full)
			if err != nil {
				t.Fatal(err)
			}
			r, err := c.store.Bucket.Open(t.Context(), full.Name(), int64(len(head)), -1)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(r)
			if err = errors.Join(err, r.Close()); err != nil {
				t.Fatal(err)
			}
			h.Hashes = []Hash{hash}
			if head, err = h.encode(0); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(c.store.Bucket.Delete(t.Context(), full.Name()), c.store.Bucket.Create(t.Context(), full.Name(), BodyContent(head, body))); err != nil {
				t.Fatal(err)
			}
			x, err := c.store.extract(t.Context(), At{}, filepath.Join(t.TempDir(), "db"), ExtractOptions{scratch: true, bare: true, CheckHash: true, seal: func() (*FullWriter, error) {
				return beginFull(filepath.Join(t.TempDir(), "body"), c.store.Bucket, nil)
			}})
			if right && (err != nil || x.sealed == nil) || !right && !IsDamage(err) {
				t.Errorf("streamed: %v, %v", x.sealed != nil, err)
			}
			if x.sealed != nil {
				x.sealed.Close()
			}
		})
	}
}

// Something damaged under the name of the result, as of an upload that was cut off, is not taken for the result.
func TestCompact_PassesOverSomethingDamagedUnderItsName(t *testing.T) {
	for name, spoil := range map[string]func(data []byte) []byte{
		"empty":        func([]byte) []byte { return nil },
		"a few bytes":  func(data []byte) []byte { return data[:8] },
		"another body": func(data []byte) []byte { data[len(data)-5] ^= 1; return data },
	} {
		t.Run(name, func(t *testing.T) {
			c := newChain(t, database(t, 4096, func(db *bolt.DB) { putRecords(t, db, 2, 100, make([]byte, 50)) }), 100, 100, 0)
			first, err := c.store.Compact(t.Context(), At{}, CompactOptions{})
			if err != nil {
				t.Fatal(err)
			}
			file := c.store.Bucket.(Dir).file(first.Name())
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.Remove(file), os.WriteFile(file, spoil(data), 0o600)); err != nil {
				t.Fatal(err)
			}
			full := FullPlace("prod", "l", 100, h0)
			second, err := c.store.Compact(t.Context(), At{Revision: c.last}, CompactOptions{})
			if err != nil || second == first || second == full {
				t.Fatalf("merged into %s, %v; before into %s", second.Name(), err, first.Name())
			}
			if _, err := c.store.Extract(t.Context(), At{Full: second.ID()}, filepath.Join(t.TempDir(), "db"), ExtractOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
}
