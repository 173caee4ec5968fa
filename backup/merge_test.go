package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"cke/backup/internal/pages"
)

// grown is a database of etcd's, and what is to be added to its records.
type grown struct {
	page    int // size
	records int // that it has
	value   int // bytes of each
	gone    int // bytes that are there no more
	added   int
	values  func(i int) int // bytes of each
}

func same(n int) func(int) int { return func(int) int { return n } }

// What is merged is a database that bbolt finds nothing wrong with, in which all is as if bbolt had put it there: the records,
// the free pages, and the room for more.
func TestMerge_IsWhatBboltWouldRead(t *testing.T) {
	for name, g := range map[string]grown{
		"a few to none":                   {page: 4096, added: 3, values: same(10)},
		"a few to a few":                  {page: 4096, records: 3, value: 10, added: 3, values: same(10)},
		"a leaf to a leaf":                {page: 4096, records: 20, value: 100, added: 20, values: same(100)},
		"a tree to none":                  {page: 4096, added: 50_000, values: same(10)},
		"a tall tree to a leaf":           {page: 4096, records: 10, value: 300, added: 50_000, values: same(100)},
		"a leaf to a tall tree":           {page: 4096, records: 50_000, value: 100, added: 1, values: same(10)},
		"as tall":                         {page: 4096, records: 30_000, value: 100, added: 30_000, values: same(100)},
		"small pages":                     {page: 512, records: 9000, value: 50, added: 20_000, values: same(20)},
		"small pages, a taller tree":      {page: 512, records: 40, value: 50, added: 20_000, values: same(20)},
		"large pages":                     {page: 64 << 10, records: 30_000, value: 50, added: 30_000, values: same(20)},
		"values larger than a page":       {page: 4096, records: 50, value: 20_000, added: 50, values: same(100_000)},
		"values of every size":            {page: 4096, records: 3000, value: 40, added: 3000, values: func(i int) int { return i * 7 % 9000 }},
		"nothing":                         {page: 4096, records: 3000, value: 40, values: same(1)},
		"nothing to nothing":              {page: 4096, values: same(1)},
		"free pages":                      {page: 4096, records: 300, value: 40, gone: 100_000, added: 300, values: same(100)},
		"more free pages than are few":    {page: 512, records: 300, value: 40, gone: 34 << 20, added: 300, values: same(100)},
		"free pages of 64KiB":             {page: 64 << 10, records: 300, value: 40, gone: 8 << 20, added: 300, values: same(100)},
		"as many as the last branch will": {page: 4096, records: 122 * 36, value: 64, added: 122 * 36, values: same(64)},
	} {
		t.Run(name, func(t *testing.T) { g.check(t) })
	}
}

// Whatever the sizes are.
func TestMerge_IsWhatBboltWouldReadWhateverTheSizes(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 1))
		size := func() int { return 1 << r.IntN(15) }
		g := grown{page: 512 << r.IntN(6), records: r.IntN(size() + 1), value: r.IntN(400), added: r.IntN(size() + 1), gone: r.IntN(4) * 50_000}
		most := 1 + r.IntN(2000)
		g.values = func(int) int { return r.IntN(most) }
		t.Run(fmt.Sprintf("%d: %d and %d in pages of %d", seed, g.records, g.added, g.page), func(t *testing.T) { g.check(t) })
	}
}

func (g grown) check(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	last := g.make(t, path)
	_, before := openedDB(t, path, false)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var wanted []Record
	for i := range g.added {
		wanted = append(wanted, Record{Main: last + 1 + int64(i), Value: appendKeyValue(nil, &Change{Key: []byte("k"), Value: make([]byte, g.values(i)), Lease: int64(i % 3)})})
	}
	m := mergedFile(t, path, data, last, wanted)
	for _, r := range wanted {
		before = append(append(before, r.AppendKey(nil)...), r.Value...)
	}
	// What the file tells is what bbolt finds by itself.
	listed, records := openedDB(t, path, false)
	if !bytes.Equal(records, before) {
		t.Errorf("%d bytes of records, wanted %d", len(records), len(before))
	}
	meta := m.meta
	meta.Free, meta.Tx = pages.NoFreeList, meta.Tx+1
	at, page := meta.Page(m.old.Size)
	if _, err := m.f.WriteAt(page, at); err != nil {
		t.Fatal(err)
	}
	if found, _ := openedDB(t, path, true); found != listed+m.freePages { // without a list its own pages are free
		t.Errorf("%d free pages and %d of their list, bbolt finds %d", listed, m.freePages, found)
	}
}

// mergedFile brings a database forward, and leaves it without a digest at its end.
func mergedFile(t *testing.T, path string, data []byte, last int64, records []Record) *merger {
	t.Helper()
	m, err := mergeInto(t.Context(), path, data, last, records, false)
	if m != nil {
		t.Cleanup(func() { m.close() })
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// mergeInto writes a database, whose last revision is given, and the records after it to a file. The merger, if there is one, is
// to be closed.
func mergeInto(ctx context.Context, path string, data []byte, last int64, records []Record, digest bool) (*merger, error) {
	head, err := pages.ParseHead(data[:min(len(data), 2*pages.MaxPageSize)], int64(len(data)))
	if err != nil {
		return nil, err
	}
	m, err := newMerger(path, Header{Last: last, Content: int64(len(data)) + sha256.Size}, head, last+int64(len(records)))
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		if err := m.a.record(r); err != nil {
			return m, err
		}
	}
	added, err := m.plan(digest, true)
	if err != nil {
		return m, err
	}
	for _, w := range m.receivers() {
		if _, err := w.Write(data); err != nil {
			return m, err
		}
	}
	_, err = m.complete(ctx, added, false)
	return m, err
}

// make makes a database such as etcd has, without a list of free pages, and returns its last revision.
func (g grown) make(t *testing.T, path string) (last int64) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{PageSize: g.page, NoFreelistSync: true, NoSync: true, NoGrowSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, name := range []string{"alarm", "auth", "cluster", "key", "lease", "members", "meta"} {
		update(t, db, func(tx *bolt.Tx) error {
			_, err := tx.CreateBucket([]byte(name))
			return err
		})
	}
	if g.records > 0 {
		putRecords(t, db, 2, int64(g.records)+1, make([]byte, g.value))
	}
	if g.gone > 0 {
		gone := []byte("gone")
		update(t, db, func(tx *bolt.Tx) error { return tx.Bucket([]byte("cluster")).Put(gone, make([]byte, g.gone)) })
		update(t, db, func(tx *bolt.Tx) error { return tx.Bucket([]byte("cluster")).Delete(gone) })
	}
	return int64(g.records) + 1
}

// openedDB lets bbolt look at a database that it opens to write: how many pages are free, and what it holds. With written, it
// also writes to it.
func openedDB(t *testing.T, path string, written bool) (free int, records []byte) {
	t.Helper()
	db, err := pages.Open(path, false)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	free = db.Stats().FreePageN
	err = db.View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			t.Error(err)
		}
		return tx.Bucket(bucketKey).ForEach(func(k, v []byte) error {
			records = append(append(records, k...), v...)
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if !written {
		return free, records
	}
	// As etcd does when it compacts: nearly all goes, and neighbours become one. Then more comes.
	for round := range int64(3) {
		update(t, db, func(tx *bolt.Tx) error {
			b, i := tx.Bucket(bucketKey), 0
			c := b.Cursor()
			for k, _ := c.First(); k != nil; k, _ = c.Next() {
				if i++; i%7 != int(round) {
					if err := c.Delete(); err != nil {
						return err
					}
				}
			}
			return nil
		})
		putRecords(t, db, (round+1)<<40, (round+1)<<40+500, make([]byte, 300))
	}
	if err := checkTree(t.Context(), path, pages.Reachable); err != nil {
		t.Error(err)
	}
	return free, records
}
