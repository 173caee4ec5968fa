package backup

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
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
	// theEdge is of one bucket the way to its last key, and of all others everything.
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
	noFreeList = 1<<64 - 1
	// maxDepth: a tree of 16 levels has more pages than a file can.
	maxDepth = 16
	// pagesAtOnce are looked at between two looks at the context.
	pagesAtOnce = 1 << 12
)

// look says how a database is walked.
type look struct {
	extent extent
	// bucket is the one of which theEdge is the way to the last key, and to which known and next belong.
	bucket []byte
	// known returns the first and the last key of a page that was found to be a sound leaf before; such pages may be missing in
	// the file. nil: none, and the file is whole.
	known func(id uint64) (first, last []byte, ok bool)
	// next takes the leaves, in order; those that are known have no data. nil: nothing does.
	next func(p page)
}

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
	look   look
	inside bool // the leaves of look.bucket are walked now
	looked int
	leaves int // depth + 1 of the leaves of the bucket that is walked; 0: none was met
}

// walkTree walks a database file, with or without the digest at its end, and returns what it learnt of pages. Their data is out
// of reach then.
func walkTree(ctx context.Context, path string, l look) (t *tree, err error) {
	defer guard(&err)()
	if t, err = openTree(ctx, path); err != nil {
		return t, err
	}
	t.look = l
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.walk(t.root, limits{}, 0, false); err != nil {
		return t, err
	}
	if l.extent >= allPages && l.known == nil && t.free != noFreeList {
		return t, t.freeList()
	}
	return t, nil
}

// openTree maps a database file into memory until it is closed.
func openTree(ctx context.Context, path string) (*tree, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() < 2*leastPage {
		return nil, damaged("no database: it has %d bytes", info.Size())
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, &os.PathError{Op: "map", Path: path, Err: err}
	}
	t := &tree{ctx: ctx, data: data}
	if err := t.meta(); err != nil {
		return nil, errors.Join(err, t.close())
	}
	t.seen = newBitmap(int(t.pages))
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

// walk checks a page and all below; last: of its children only the last one.
func (t *tree) walk(id uint64, within limits, depth int, last bool) error {
	if depth > maxDepth {
		return damaged("its tree is too deep")
	}
	if t.look.known != nil && id < t.pages {
		if first, last, ok := t.look.known(id); ok {
			return t.knownLeaf(id, first, last, within, depth)
		}
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
		if t.inside {
			t.look.next(p)
		}
		return t.leaf(p, within, depth)
	case p.flags == branchPage && (p.count > 1 || p.count > 0 && t.look.extent != allRules):
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
	if t.look.extent == allRules && t.leaves != 0 && t.leaves != depth+1 {
		return damaged("page %d is a leaf at another depth than those before", id)
	}
	t.leaves = depth + 1
	return nil
}

// knownLeaf checks that a leaf which was found to be sound before is where it belongs.
func (t *tree) knownLeaf(id uint64, first, last []byte, within limits, depth int) error {
	if err := errors.Join(t.level(id, depth), t.enter(id, 0)); err != nil {
		return err
	}
	if !within.admit(first) || !within.admit(last) {
		return damaged("the keys of page %d are not in order", id)
	}
	if t.inside {
		t.look.next(page{id: id})
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
		named := bytes.Equal(e.key, t.look.bucket)
		t.inside = t.look.next != nil && named
		defer func() { t.inside = false }()
		return t.walk(root, limits{}, depth+1, t.look.extent == theEdge && named)
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
