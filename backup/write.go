package backup

import (
	"encoding/binary"
	"maps"
	"os"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// A database is written here as bbolt would: what comes in the order of its keys fills one page after the other, and no page
// is read or written twice.
//
// Source of the layout: bbolt, internal/common (page.go, meta.go, bucket.go).

const (
	// pagesBuffered is how many bytes of pages are written to the file at once.
	pagesBuffered = 1 << 20
)

// pageWriter appends pages to a database file.
type pageWriter struct {
	f    *os.File
	size int
	next uint64 // number of the next page
	buf  []byte // the last pages before it, not written yet
	// wrote is told how many bytes were written to the file; nil: nobody wants to know.
	wrote func(n int)
}

// newPageWriter appends to a file from a page on.
func newPageWriter(f *os.File, size int, next uint64) *pageWriter {
	return &pageWriter{f: f, size: size, next: next}
}

// add appends n pages, all zero, which may be filled until the next call.
func (w *pageWriter) add(n int) (id uint64, data []byte, err error) {
	if len(w.buf) >= pagesBuffered {
		if err := w.flush(); err != nil {
			return 0, nil, err
		}
	}
	at, n64 := len(w.buf), uint64(n)
	w.buf = slices.Grow(w.buf, n*w.size)[:at+n*w.size]
	clear(w.buf[at:])
	id, w.next = w.next, w.next+n64
	return id, w.buf[at:], nil
}

func (w *pageWriter) flush() error {
	_, err := w.f.WriteAt(w.buf, int64(w.next)*int64(w.size)-int64(len(w.buf)))
	if w.wrote != nil {
		w.wrote(len(w.buf))
	}
	w.buf = w.buf[:0]
	return err
}

// writePage appends a page of items; it goes on over as many pages as it needs.
func (w *pageWriter) writePage(flags uint16, items []item) (id uint64, err error) {
	id, data, err := w.add((pageBytes(items) + w.size - 1) / w.size)
	if err == nil {
		fillPage(data, w.size, id, flags, items)
	}
	return id, err
}

// bucketsPages is how many pages a database's buckets are entered in, with room for all that etcd has.
func bucketsPages(size int) int { return max(1, 4096/size) }

// writeBuckets writes the root of a database to pages of that number that were left for it: its buckets, each with the
// number of its own root and its sequence.
func (w *pageWriter) writeBuckets(id uint64, buckets []item) error {
	slices.SortFunc(buckets, func(a, b item) int { return slices.Compare(a.key, b.key) })
	data := make([]byte, bucketsPages(w.size)*w.size)
	if bytes := pageBytes(buckets); bytes > len(data) {
		return damaged("its %d buckets take %d bytes", len(buckets), bytes)
	}
	fillPage(data, w.size, id, leafPage, buckets)
	_, err := w.f.WriteAt(data, int64(id)*int64(w.size))
	return err
}

// completeDB makes a database of its own of all that was added from page 2 on. No page of it is free.
func (w *pageWriter) completeDB(buckets []item) error {
	m := dbMeta{tx: 2}
	var err error
	if m.root, _, err = w.add(bucketsPages(w.size)); err != nil {
		return err
	}
	var list []byte
	if m.free, list, err = w.add(1); err != nil {
		return err
	}
	copy(list, freePages(m.free, nil, w.size, w.size))
	if err := w.flush(); err != nil {
		return err
	}
	if err := w.writeBuckets(m.root, buckets); err != nil {
		return err
	}
	m.pages = w.next
	for range 2 {
		at, page := m.page(w.size)
		if _, err := w.f.WriteAt(page, at); err != nil {
			return err
		}
		m.tx++
	}
	return nil
}

// bucketItem enters a bucket.
func bucketItem(name []byte, root, sequence uint64) item {
	value := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, root), sequence)
	return item{key: slices.Clone(name), value: value, flags: nestedBucket}
}

// copyBucket loads a bucket anew, with some of its values changed, and others on top; nil leaves a key out. It returns where
// the copy begins.
func (w *pageWriter) copyBucket(b *bolt.Bucket, change map[string][]byte) (root uint64, err error) {
	t := newLoader(w)
	keys := slices.Sorted(maps.Keys(change))
	upTo := func(k []byte) error {
		for len(keys) > 0 && (k == nil || keys[0] <= string(k)) {
			if v := change[keys[0]]; v != nil {
				if err := t.add([]byte(keys[0]), v); err != nil {
					return err
				}
			}
			keys = keys[1:]
		}
		return nil
	}
	err = b.ForEach(func(k, v []byte) error {
		if v == nil {
			return damaged("a bucket within a bucket")
		}
		if err := upTo(k); err != nil {
			return err
		}
		if _, changed := change[string(k)]; changed {
			return nil
		}
		return t.add(k, v)
	})
	if err == nil {
		err = upTo(nil)
	}
	if err != nil {
		return 0, err
	}
	return t.bucketRoot()
}
