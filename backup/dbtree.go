package backup

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"os"

	"golang.org/x/sys/unix"
)

// bbolt believes every number in a file: a broken one leads it out of the file, which ends the process, or in a circle,
// which never ends. So a file is walked here first, with everything checked that bbolt will follow.
//
// Source of the layout: bbolt, internal/common (page.go, meta.go, bucket.go); of what its own check looks at: tx_check.go.

// extent is how much of a database is walked.
type extent int

const (
	// theEdge is what InspectSnapshot looks at: of the bucket "key" the way to its last record, of all others everything.
	theEdge extent = iota
	// theTree is all that can be read.
	theTree
	// allPages are also the free ones, on which a writer builds.
	allPages
	// allRules are also those that only a writer needs: bbolt, when it deletes, takes neighbours for pages of one height, and ends
	// the process where a branch has a single page below it.
	allRules
)

const (
	metaSize     = 64
	metaVersion  = 2
	freePage     = 0x10
	bucketHeader = 16
	nestedBucket = 1
	noFreeList   = 1<<64 - 1
	// maxDepth: a tree of 16 levels has more pages than a file can.
	maxDepth = 16
	// pagesAtOnce are looked at between two looks at the context.
	pagesAtOnce = 1 << 12
)

// tree is a database file that is walked.
type tree struct {
	ctx    context.Context
	data   []byte
	size   uint64 // of a page
	pages  uint64
	root   uint64
	free   uint64
	newest [metaSize]byte // what the newest meta page says
	seen   bitmap
	extent extent
	// passed are pages that were found to be sound leaves before; they may be missing in the file. nil: none, and the file is whole.
	passed passedLeaves
	// keys takes the leaves of the bucket "key", in order; nil: nothing does. inKeys: they are walked now.
	keys   *keyHash
	inKeys bool
	looked int
	leaves int // depth + 1 of the leaves of the bucket that is walked; 0: none was met
}

// checkTree walks a database file, with or without the digest at its end.
func checkTree(ctx context.Context, path string, e extent) error {
	_, err := walkTree(ctx, path, e, nil, nil)
	return err
}

// walkTree also returns what it learnt of pages. Their data is out of reach then.
func walkTree(ctx context.Context, path string, e extent, passed passedLeaves, keys *keyHash) (t *tree, err error) {
	defer guard(&err)()
	if t, err = openTree(ctx, path, e); err != nil {
		return t, err
	}
	t.passed, t.keys = passed, keys
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.walk(t.root, limits{}, 0, false); err != nil {
		return t, err
	}
	if e >= allPages && passed == nil && t.free != noFreeList {
		return t, t.freeList()
	}
	return t, nil
}

// openTree maps a database file into memory until it is closed.
func openTree(ctx context.Context, path string, e extent) (*tree, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() < 2*snapshotBlock {
		return nil, damaged("no database: it has %d bytes", info.Size())
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, &os.PathError{Op: "map", Path: path, Err: err}
	}
	t := &tree{ctx: ctx, data: data, extent: e}
	if err := t.meta(); err != nil {
		return nil, errors.Join(err, t.close())
	}
	t.seen = make(bitmap, t.pages/64+1)
	return t, nil
}

func (t *tree) close() error {
	data := t.data
	t.data = nil
	return unix.Munmap(data)
}

// meta reads what bbolt would take for the newest meta page.
func (t *tree) meta() error {
	if err := t.newestMeta(); err != nil {
		return err
	}
	if t.pages > uint64(len(t.data))/t.size {
		return damaged("it says that it has %d pages of %d bytes, and has %d bytes", t.pages, t.size, len(t.data))
	}
	return nil
}

func (t *tree) newestMeta() error {
	read := func(at uint64) []byte {
		if at+pageHeader+metaSize > uint64(len(t.data)) {
			return nil
		}
		m := t.data[at+pageHeader:][:metaSize]
		if binary.LittleEndian.Uint32(m) != dbMagic || binary.LittleEndian.Uint32(m[4:]) != metaVersion || binary.LittleEndian.Uint64(m[metaSize-8:]) != metaSum(m) {
			return nil
		}
		return m
	}
	first := read(0)
	best := first
	for at := uint64(1 << 10); best == nil && at <= 1<<25; at <<= 1 {
		best = read(at)
	}
	if best == nil {
		return damaged("no database: it has no meta page")
	}
	t.size = uint64(binary.LittleEndian.Uint32(best[8:]))
	if t.size < 512 || t.size > maxPageSize || t.size&(t.size-1) != 0 {
		return damaged("pages of %d bytes", t.size)
	}
	if second := read(t.size); second != nil && binary.LittleEndian.Uint64(second[48:]) > binary.LittleEndian.Uint64(best[48:]) {
		best = second
	}
	if uint64(binary.LittleEndian.Uint32(best[8:])) != t.size {
		return damaged("pages of two sizes")
	}
	t.newest = [metaSize]byte(best)
	t.root, t.free = binary.LittleEndian.Uint64(best[16:]), binary.LittleEndian.Uint64(best[32:])
	t.pages = binary.LittleEndian.Uint64(best[40:])
	return nil
}

// metaSum is the checksum that a meta page ends with.
func metaSum(meta []byte) uint64 {
	sum := fnv.New64a()
	sum.Write(meta[:metaSize-8])
	return sum.Sum64()
}

// page is one page with what continues it.
type page struct {
	id    uint64
	flags uint16
	count int
	data  []byte
}

func (t *tree) page(id uint64) (page, error) {
	if t.looked++; t.looked%pagesAtOnce == 0 {
		if err := t.ctx.Err(); err != nil {
			return page{}, err
		}
	}
	if id < 2 || id >= t.pages {
		return page{}, damaged("page %d of %d is referred to", id, t.pages)
	}
	head := t.data[id*t.size:][:pageHeader]
	more := uint64(binary.LittleEndian.Uint32(head[12:]))
	if is := binary.LittleEndian.Uint64(head); is != id {
		return page{}, damaged("page %d says that it is page %d", id, is)
	}
	if more >= t.pages-id {
		return page{}, damaged("page %d goes on beyond the end", id)
	}
	if err := t.enter(id, more); err != nil {
		return page{}, err
	}
	return parsePage(id, t.data[id*t.size:(id+more+1)*t.size])
}

// enter notes that a page is in use, with as many that continue it.
func (t *tree) enter(id, more uint64) error {
	for i := id; i <= id+more; i++ {
		if t.seen.has(int(i)) {
			return damaged("page %d is part of two", i)
		}
		t.seen.set(int(i))
	}
	return nil
}

func parsePage(id uint64, data []byte) (page, error) {
	p := page{id: id, data: data, flags: binary.LittleEndian.Uint16(data[8:]), count: int(binary.LittleEndian.Uint16(data[10:]))}
	if p.flags != freePage && pageHeader+p.count*pageElement > len(data) {
		return p, damaged("page %d has no room for %d elements", id, p.count)
	}
	return p, nil
}

// element is one of a branch or a leaf.
type element struct {
	flags      uint32
	key, value []byte
	child      uint64
}

// element reads the i-th one, which has to begin where the one before ended, or later, and returns where it ends.
func (p page) element(i, after int) (e element, end int, err error) {
	at := pageHeader + i*pageElement
	d := p.data[at:]
	pos, key, value := uint64(binary.LittleEndian.Uint32(d)), uint64(binary.LittleEndian.Uint32(d[4:])), uint64(0)
	if p.flags == leafPage {
		e.flags, pos, key = uint32(pos), key, uint64(binary.LittleEndian.Uint32(d[8:]))
		value = uint64(binary.LittleEndian.Uint32(d[12:]))
	} else {
		e.child = binary.LittleEndian.Uint64(d[8:])
	}
	begin := uint64(at) + pos
	if begin < uint64(after) || key == 0 || begin+key+value > uint64(len(p.data)) {
		return e, 0, damaged("element %d of page %d lies outside of it", i, p.id)
	}
	e.key, e.value = p.data[begin:begin+key], p.data[begin+key:begin+key+value]
	return e, int(begin + key + value), nil
}

// limits are those of the keys in a page: from the first on, less than the other; nil: none.
type limits struct{ from, to []byte }

func (l limits) admit(key []byte) bool {
	return bytes.Compare(key, l.from) >= 0 && (l.to == nil || bytes.Compare(key, l.to) < 0)
}

// walk checks a page and all below; last: of its children only the last one.
func (t *tree) walk(id uint64, within limits, depth int, last bool) error {
	if depth > maxDepth {
		return damaged("its tree is too deep")
	}
	if id < min(t.pages, uint64(len(t.passed))) && t.passed[id].span > 0 {
		return t.passedLeaf(id, within, depth)
	}
	p, err := t.page(id)
	if err != nil {
		return err
	}
	switch {
	case p.flags == leafPage && (p.count > 0 || within.from == nil):
		if err := t.level(id, depth); err != nil {
			return err
		}
		if t.inKeys {
			t.keys.next(p)
		}
		return t.leaf(p, within, depth)
	case p.flags == branchPage && (p.count > 1 || p.count > 0 && t.extent != allRules):
	default:
		return damaged("page %d is of type %x with %d elements", id, p.flags, p.count)
	}
	after := pageHeader + p.count*pageElement
	var now element
	for i := range p.count + 1 {
		var next element
		below := limits{now.key, within.to}
		if i < p.count {
			if next, after, err = p.element(i, after); err != nil {
				return err
			}
			if !within.admit(next.key) || i > 0 && bytes.Compare(now.key, next.key) >= 0 {
				return damaged("the keys of page %d are not in order", id)
			}
			below.to = next.key
		}
		if i > 0 && (!last || i == p.count) {
			if err := t.walk(now.child, below, depth+1, last); err != nil {
				return err
			}
		}
		now = next
	}
	return nil
}

// level notes how deep a leaf is.
func (t *tree) level(id uint64, depth int) error {
	if t.extent == allRules && t.leaves != 0 && t.leaves != depth+1 {
		return damaged("page %d is a leaf at another depth than those before", id)
	}
	t.leaves = depth + 1
	return nil
}

// passedLeaf checks that a leaf which passed before is where it belongs.
func (t *tree) passedLeaf(id uint64, within limits, depth int) error {
	if err := errors.Join(t.level(id, depth), t.enter(id, 0)); err != nil {
		return err
	}
	if first, last := t.passed[id].keys(); !within.admit(first) || !within.admit(last) {
		return damaged("the keys of page %d are not in order", id)
	}
	if t.inKeys {
		t.keys.next(page{id: id})
	}
	return nil
}

func (t *tree) leaf(p page, within limits, depth int) error {
	after := pageHeader + p.count*pageElement
	var before []byte
	for i := range p.count {
		e, end, err := p.element(i, after)
		if err != nil {
			return err
		}
		if !within.admit(e.key) || i > 0 && bytes.Compare(before, e.key) >= 0 {
			return damaged("the keys of page %d are not in order", p.id)
		}
		before, after = e.key, end
		if e.flags&nestedBucket != 0 {
			if err := t.bucket(p, e, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// bucket checks one that is an element of a leaf: in pages of its own, or in the element.
func (t *tree) bucket(p page, e element, depth int) error {
	if p.id == 0 || len(e.value) < bucketHeader {
		return damaged("page %d has half a bucket, or one too many", p.id)
	}
	if root := binary.LittleEndian.Uint64(e.value); root != 0 {
		defer func(leaves int) { t.leaves = leaves }(t.leaves)
		t.leaves = 0
		t.inKeys = t.keys != nil && bytes.Equal(e.key, bucketKey)
		defer func() { t.inKeys = false }()
		return t.walk(root, limits{}, depth+1, t.extent == theEdge && bytes.Equal(e.key, bucketKey))
	}
	if len(e.value) < bucketHeader+pageHeader {
		return damaged("page %d has half a bucket", p.id)
	}
	inline, err := parsePage(p.id, e.value[bucketHeader:])
	if err != nil {
		return err
	}
	if inline.flags != leafPage {
		return damaged("page %d has a bucket of type %x within", p.id, inline.flags)
	}
	inline.id = 0 // in it there can be none
	return t.leaf(inline, limits{}, depth+1)
}

// freeList checks that no page is free and in use, or free twice.
func (t *tree) freeList() error {
	p, err := t.page(t.free)
	if err != nil {
		return err
	}
	if p.flags != freePage {
		return damaged("page %d is no list of free pages", t.free)
	}
	ids, count := p.data[pageHeader:], uint64(p.count)
	if count == 0xFFFF {
		count, ids = binary.LittleEndian.Uint64(ids), ids[8:]
	}
	if count > uint64(len(ids))/8 {
		return damaged("a list of %d free pages in %d bytes", count, len(ids))
	}
	for ; count > 0; count-- {
		id := binary.LittleEndian.Uint64(ids)
		if id < 2 || id >= t.pages || t.seen.has(int(id)) {
			return damaged("page %d is free and in use", id)
		}
		t.seen.set(int(id))
		ids = ids[8:]
	}
	return nil
}

// rightEdge returns a tree with the branches on its right; height 0: it is empty. All of it is valid until the file is closed.
func (t *tree) rightEdge(root uint64) (s subtree, err error) {
	s.root = root
	for id := root; ; {
		p, err := t.page(id)
		if err != nil {
			return s, err
		}
		if id == root && p.count > 0 {
			e, _, err := p.element(0, pageHeader+p.count*pageElement)
			if err != nil {
				return s, err
			}
			s.first = e.key
		}
		if p.count > 0 {
			s.height++
		}
		if p.flags != branchPage {
			return s, nil
		}
		items, err := p.items()
		if err != nil {
			return s, err
		}
		s.edge = append(s.edge, items)
		id = items[len(items)-1].child
	}
}

// unseen returns the pages that nothing leads to.
func (t *tree) unseen() (ids []uint64) {
	for id := uint64(2); id < t.pages; id++ {
		if !t.seen.has(int(id)) {
			ids = append(ids, id)
		}
	}
	return ids
}
