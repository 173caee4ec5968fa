package pages

import (
	"encoding/binary"
	"maps"
	"os"
	"slices"

	bolt "go.etcd.io/bbolt"

	"cke/backup/internal/damage"
)

// A database is written here as bbolt would: what comes in the order of its keys fills one page after the other, and no page
// is read or written twice.
//
// Source of the layout: bbolt, internal/common (page.go, meta.go, bucket.go).

// pagesBuffered is how many bytes of pages are written to the file at once.
const pagesBuffered = 1 << 20

// Writer appends pages to a database file.
type Writer struct {
	f    *os.File
	Size int
	Next uint64 // number of the next page
	buf  []byte // the last pages before it, not written yet
	// Wrote is called with the number of bytes written to the file; nil means no call.
	Wrote func(n int)
}

// NewWriter returns a writer that appends to a file from page next on.
func NewWriter(f *os.File, size int, next uint64) *Writer {
	return &Writer{f: f, Size: size, Next: next}
}

// add appends n pages, all zero, which may be filled until the next call.
func (w *Writer) add(n int) (id uint64, data []byte, err error) {
	if len(w.buf) >= pagesBuffered {
		if err := w.Flush(); err != nil {
			return 0, nil, err
		}
	}
	at, n64 := len(w.buf), uint64(n)
	w.buf = slices.Grow(w.buf, n*w.Size)[:at+n*w.Size]
	clear(w.buf[at:])
	id, w.Next = w.Next, w.Next+n64
	return id, w.buf[at:], nil
}

// Flush writes the pages that are still in memory.
func (w *Writer) Flush() error {
	_, err := w.f.WriteAt(w.buf, int64(w.Next)*int64(w.Size)-int64(len(w.buf)))
	if w.Wrote != nil {
		w.Wrote(len(w.buf))
	}
	w.buf = w.buf[:0]
	return err
}

// WritePage appends a page of items, with as many overflow pages as it needs.
func (w *Writer) WritePage(flags uint16, items []Item) (id uint64, err error) {
	id, data, err := w.add((pageBytes(items) + w.Size - 1) / w.Size)
	if err == nil {
		fillPage(data, w.Size, id, flags, items)
	}
	return id, err
}

// BucketsPages is how many pages the list of a database's buckets takes, with room for all that etcd has.
func BucketsPages(size int) int { return max(1, 4096/size) }

// WriteBuckets writes the root of a database to pages that were reserved for it: its buckets, each with the number of its
// own root and its sequence.
func (w *Writer) WriteBuckets(id uint64, buckets []Item) error {
	slices.SortFunc(buckets, func(a, b Item) int { return slices.Compare(a.Key, b.Key) })
	data := make([]byte, BucketsPages(w.Size)*w.Size)
	if bytes := pageBytes(buckets); bytes > len(data) {
		return damage.Errorf("its %d buckets take %d bytes", len(buckets), bytes)
	}
	fillPage(data, w.Size, id, LeafPage, buckets)
	_, err := w.f.WriteAt(data, int64(id)*int64(w.Size))
	return err
}

// Complete makes a complete database of all pages that were added from page 2 on. No page of it is free.
func (w *Writer) Complete(buckets []Item) error {
	m := Meta{Tx: 2}
	var err error
	if m.Root, _, err = w.add(BucketsPages(w.Size)); err != nil {
		return err
	}
	var list []byte
	if m.Free, list, err = w.add(1); err != nil {
		return err
	}
	copy(list, FreeList(m.Free, nil, w.Size, w.Size))
	if err := w.Flush(); err != nil {
		return err
	}
	if err := w.WriteBuckets(m.Root, buckets); err != nil {
		return err
	}
	m.Pages = w.Next
	for range 2 {
		at, page := m.Page(w.Size)
		if _, err := w.f.WriteAt(page, at); err != nil {
			return err
		}
		m.Tx++
	}
	return nil
}

// BucketItem returns the entry of a bucket.
func BucketItem(name []byte, root, sequence uint64) Item {
	value := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, root), sequence)
	return Item{Key: slices.Clone(name), Value: value, Flags: nestedBucket}
}

// CopyBucket copies a bucket, with some of its values changed, and others added; nil leaves a key out. It returns where
// the copy starts.
func (w *Writer) CopyBucket(b *bolt.Bucket, change map[string][]byte) (root uint64, err error) {
	t := NewLoader(w)
	keys := slices.Sorted(maps.Keys(change))
	upTo := func(k []byte) error {
		for len(keys) > 0 && (k == nil || keys[0] <= string(k)) {
			if v := change[keys[0]]; v != nil {
				if err := t.Add([]byte(keys[0]), v); err != nil {
					return err
				}
			}
			keys = keys[1:]
		}
		return nil
	}
	err = b.ForEach(func(k, v []byte) error {
		if v == nil {
			return damage.Errorf("a bucket within a bucket")
		}
		if err := upTo(k); err != nil {
			return err
		}
		if _, changed := change[string(k)]; changed {
			return nil
		}
		return t.Add(k, v)
	})
	if err == nil {
		err = upTo(nil)
	}
	if err != nil {
		return 0, err
	}
	return t.BucketRoot()
}
