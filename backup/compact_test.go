package backup

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
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
	w, err := NewDeltaWriter(last+1, nil)
	if err != nil {
		t.Fatal(err)
	}
	for rev := last + 1; rev <= last+n; rev++ {
		c := Change{Key: []byte("key"), Value: []byte("new"), CreateRevision: 2, ModRevision: rev, Version: rev}
		if err := w.Add([]Change{c}, h0.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	dh := Header{Place: DeltaPlace("prod", "l", last+1, 0, last+1)}
	if compacted > 0 {
		dh.Hashes = []Hash{{Revision: last + n, Compacted: compacted}}
	}
	c, dh, err := w.Seal(dh)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Bucket.Create(t.Context(), dh.Place.Name(), c); err != nil {
		t.Fatal(err)
	}
	return &chain{s, last + n}
}

// records extracts the newest state of a chain and returns what is in it, in order.
func (c *chain) records(t *testing.T) (all []Record, x Extracted) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	x, err := c.store.Extract(t.Context(), At{}, out, ExtractOptions{})
	if err != nil {
		t.Fatal(err)
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
		for range 3 {
			update(t, db, func(tx *bolt.Tx) error {
				b := tx.Bucket(bucketKey)
				for range 40 {
					k, _ := b.Cursor().Last()
					if err := b.Delete(bytes.Clone(k)); err != nil {
						return err
					}
				}
				return nil
			})
		}
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
