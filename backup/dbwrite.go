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
	metaPage = 4
	// pagesBuffered is how many bytes of pages are written to the file at once.
	pagesBuffered = 1 << 20
	// branchLeast is how many pages bbolt wants below a branch, however long their keys are.
	branchLeast = 2
)

// pageWriter appends pages to a database file.
type pageWriter struct {
	f    *os.File
	size int
	next uint64 // number of the next page
	buf  []byte // the last pages before it, not written yet
	back *writeback
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
	w.back.wrote(len(w.buf))
	w.buf = w.buf[:0]
	return err
}

// item is what a page has: a key with its value in a leaf, or with the page below that begins with it in a branch.
type item struct {
	key, value []byte
	flags      uint32
	child      uint64
}

func (i item) bytes() int { return pageElement + len(i.key) + len(i.value) }

// pageBytes is how much of a page items take, with its header.
func pageBytes(items []item) int {
	bytes := pageHeader
	for _, i := range items {
		bytes += i.bytes()
	}
	return bytes
}

// writePage appends a page of items; it goes on over as many pages as it needs.
func (w *pageWriter) writePage(flags uint16, items []item) (id uint64, err error) {
	id, data, err := w.add((pageBytes(items) + w.size - 1) / w.size)
	if err == nil {
		fillPage(data, w.size, id, flags, items)
	}
	return id, err
}

func fillPage(data []byte, size int, id uint64, flags uint16, items []item) {
	binary.LittleEndian.PutUint64(data, id)
	binary.LittleEndian.PutUint16(data[8:], flags)
	binary.LittleEndian.PutUint16(data[10:], uint16(len(items)))
	binary.LittleEndian.PutUint32(data[12:], uint32(len(data)/size-1))
	at := pageHeader + len(items)*pageElement
	for n, i := range items {
		e := data[pageHeader+n*pageElement:]
		pos := uint32(at - pageHeader - n*pageElement)
		if flags == branchPage {
			binary.LittleEndian.PutUint32(e, pos)
			binary.LittleEndian.PutUint32(e[4:], uint32(len(i.key)))
			binary.LittleEndian.PutUint64(e[8:], i.child)
		} else {
			binary.LittleEndian.PutUint32(e, i.flags)
			binary.LittleEndian.PutUint32(e[4:], pos)
			binary.LittleEndian.PutUint32(e[8:], uint32(len(i.key)))
			binary.LittleEndian.PutUint32(e[12:], uint32(len(i.value)))
		}
		at += copy(data[at:], i.key)
		at += copy(data[at:], i.value)
	}
}

// subtree is a page and all below: height 1 is a leaf, 0 nothing at all.
type subtree struct {
	root   uint64
	height int
	first  []byte // its first key
	// edge are the branches on one side of it, the root first.
	edge [][]item
}

func (s subtree) item() item { return item{key: s.first, child: s.root} }

// treeLoader makes a tree of what comes in the order of its keys. Memory: two pages of each level.
type treeLoader struct {
	w      *pageWriter
	levels []treeLevel // the leaves first
	edge   [][]item    // the first branch of each level, the root last
}

// treeLevel is the page that is being filled on one level.
type treeLevel struct {
	items []item
	keys  []byte // memory of the items' keys
	bytes int
}

// add takes the next element of a leaf. The value has to stay as it is until a few pages more have come.
func (t *treeLoader) add(key, value []byte) error {
	return t.addTo(0, item{key: key, value: value})
}

func (t *treeLoader) addTo(level int, i item) error {
	if level == len(t.levels) {
		t.levels = append(t.levels, treeLevel{})
	}
	l := &t.levels[level]
	least := 1
	if level > 0 {
		least = branchLeast + 1 // and one for the next page
	}
	if len(l.items) >= least && (pageHeader+l.bytes+i.bytes() > t.w.size || len(l.items) == 1<<16-2) {
		if err := t.flush(level, level > 0); err != nil {
			return err
		}
		l = &t.levels[level]
	}
	l.take(i)
	return nil
}

func (l *treeLevel) take(i item) {
	at := len(l.keys)
	l.keys = append(l.keys, i.key...)
	i.key = l.keys[at:len(l.keys):len(l.keys)]
	l.items, l.bytes = append(l.items, i), l.bytes+i.bytes()
}

// flush writes the page of a level and enters it in the one above. keep leaves its last item for the next page, which will have
// branchLeast with it.
func (t *treeLoader) flush(level int, keep bool) error {
	l := &t.levels[level]
	items := l.items
	if keep {
		items = items[:len(items)-1]
	}
	flags := uint16(branchPage)
	if level == 0 {
		flags = leafPage
	}
	id, err := t.w.writePage(flags, items)
	if err != nil {
		return err
	}
	if level == len(t.edge)+1 {
		t.edge = append(t.edge, cloneItems(items))
	}
	err = t.addTo(level+1, item{key: items[0].key, child: id})
	l = &t.levels[level] // addTo may have moved it
	kept := cloneItems(l.items[len(items):])
	clear(l.items)
	l.items, l.keys, l.bytes = l.items[:0], l.keys[:0], 0
	for _, i := range kept {
		l.take(i)
	}
	return err
}

func cloneItems(items []item) []item {
	items = slices.Clone(items)
	for n := range items {
		items[n].key = slices.Clone(items[n].key)
	}
	return items
}

// finish writes what is left and returns the tree, with its left edge.
func (t *treeLoader) finish() (subtree, error) {
	for level := 0; level < len(t.levels); level++ {
		l := &t.levels[level]
		if level == len(t.levels)-1 && level > 0 && len(l.items) == 1 {
			slices.Reverse(t.edge)
			return subtree{root: l.items[0].child, height: level, first: slices.Clone(l.items[0].key), edge: t.edge}, nil
		}
		if err := t.flush(level, false); err != nil {
			return subtree{}, err
		}
	}
	return subtree{}, nil
}

// bucketRoot is finish for a bucket, which has a page even if it is empty.
func (t *treeLoader) bucketRoot() (uint64, error) {
	s, err := t.finish()
	if err == nil && s.height == 0 {
		return t.w.writePage(leafPage, nil)
	}
	return s.root, err
}

// dbMeta is what a meta page says.
type dbMeta struct {
	root, free, pages, tx uint64
}

// page encodes a meta page of its own size, in the place that its transaction gives it.
func (m dbMeta) page(size int) (at int64, data []byte) {
	data = make([]byte, size)
	binary.LittleEndian.PutUint64(data, m.tx%2)
	binary.LittleEndian.PutUint16(data[8:], metaPage)
	d := data[pageHeader:]
	binary.LittleEndian.PutUint32(d, dbMagic)
	binary.LittleEndian.PutUint32(d[4:], metaVersion)
	binary.LittleEndian.PutUint32(d[8:], uint32(size))
	binary.LittleEndian.PutUint64(d[16:], m.root)
	binary.LittleEndian.PutUint64(d[32:], m.free)
	binary.LittleEndian.PutUint64(d[40:], m.pages)
	binary.LittleEndian.PutUint64(d[48:], m.tx)
	binary.LittleEndian.PutUint64(d[metaSize-8:], metaSum(d))
	return int64(m.tx%2) * int64(size), data
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
	t := &treeLoader{w: w}
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
