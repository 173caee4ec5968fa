package pages

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"cke/backup/internal/damage"
)

// bbolt believes every number in a file: a broken one leads it out of the file, which ends the process, or in a circle,
// which never ends. So a file is walked here first, with everything checked that bbolt will follow.
//
// Source of the layout: bbolt, internal/common (page.go, meta.go, bucket.go); of what its own check reads: tx_check.go.

// Extent is how much of a database is walked.
type Extent int

const (
	// Edge is the way to the last key of one bucket, and all of the others.
	Edge Extent = iota
	// Reachable is all that can be read.
	Reachable
	// AllPages also includes the free pages, on which a writer builds.
	AllPages
	// AllRules also checks what only a writer needs: when bbolt deletes, it takes adjacent pages for pages of one height,
	// and it stops the process at a branch with a single page below it.
	AllRules
)

const (
	// NoFreeList means that a database does not list its free pages.
	NoFreeList = 1<<64 - 1
	// maxDepth: a tree of 16 levels has more pages than a file can.
	maxDepth = 16
	// pagesAtOnce are read between two checks of the context.
	pagesAtOnce = 1 << 12
)

// Look configures how a database is walked.
type Look struct {
	Extent Extent
	// Bucket is the one of which Edge is the way to the last key, and to which Known and Next belong.
	Bucket []byte
	// Known returns the first and the last key of a page that was found to be a sound leaf before; such pages may be
	// missing in the file. nil: none, and the file is whole.
	Known func(id uint64) (first, last []byte, ok bool)
	// Next receives the leaves, in order; those that are known have no data. nil means that they are not passed on.
	Next func(p Page)
}

// Tree is a database file that is walked.
type Tree struct {
	ctx    context.Context
	data   []byte
	size   uint64 // of a page
	pages  uint64
	root   uint64
	free   uint64
	newest [metaSize]byte // what the newest meta page says
	seen   Bitmap
	look   Look
	inside bool // the leaves of look.Bucket are walked now
	looked int
	leaves int // depth + 1 of the leaves of the bucket that is walked; 0: none was met
}

// Walk checks a database file, with or without the digest at its end, and returns what it learned about its pages. Their
// data cannot be read after that.
func Walk(ctx context.Context, path string, l Look) (t *Tree, err error) {
	defer Guard(&err)()
	if t, err = OpenTree(ctx, path); err != nil {
		return t, err
	}
	t.look = l
	defer func() { err = errors.Join(err, t.Close()) }()
	if err := t.walk(t.root, limits{}, 0, false); err != nil {
		return t, err
	}
	if l.Extent >= AllPages && l.Known == nil && t.free != NoFreeList {
		return t, t.freeList()
	}
	return t, nil
}

// OpenTree maps a database file into memory until it is closed.
func OpenTree(ctx context.Context, path string) (*Tree, error) {
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
		return nil, damage.Errorf("not a database: it has %d bytes", info.Size())
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, &os.PathError{Op: "map", Path: path, Err: err}
	}
	t := &Tree{ctx: ctx, data: data}
	if err := t.meta(); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	t.seen = NewBitmap(int(t.pages))
	return t, nil
}

// Close releases the file and everything that was read from it.
func (t *Tree) Close() error {
	data := t.data
	t.data = nil
	return unix.Munmap(data)
}

// meta reads what bbolt would take for the newest meta page.
func (t *Tree) meta() error {
	if err := t.newestMeta(); err != nil {
		return err
	}
	if t.pages > uint64(len(t.data))/t.size {
		return damage.Errorf("it declares %d pages of %d bytes, but has %d bytes", t.pages, t.size, len(t.data))
	}
	return nil
}

func (t *Tree) page(id uint64) (Page, error) {
	if t.looked++; t.looked%pagesAtOnce == 0 {
		if err := t.ctx.Err(); err != nil {
			return Page{}, err
		}
	}
	if id < 2 || id >= t.pages {
		return Page{}, damage.Errorf("a reference leads to page %d of %d", id, t.pages)
	}
	head := t.data[id*t.size:][:HeaderSize]
	more := uint64(binary.LittleEndian.Uint32(head[12:]))
	if is := binary.LittleEndian.Uint64(head); is != id {
		return Page{}, damage.Errorf("page %d has the number of page %d", id, is)
	}
	if more >= t.pages-id {
		return Page{}, damage.Errorf("page %d extends beyond the end", id)
	}
	if err := t.enter(id, more); err != nil {
		return Page{}, err
	}
	return parsePage(id, t.data[id*t.size:(id+more+1)*t.size])
}

// enter notes that a page is in use, with as many that continue it.
func (t *Tree) enter(id, more uint64) error {
	for i := id; i <= id+more; i++ {
		if t.seen.Has(int(i)) {
			return damage.Errorf("page %d is used twice", i)
		}
		t.seen.Set(int(i))
	}
	return nil
}

// walk checks a page and all below; last: of its children only the last one.
func (t *Tree) walk(id uint64, within limits, depth int, last bool) error {
	if depth > maxDepth {
		return damage.Errorf("its tree is too deep")
	}
	if t.look.Known != nil && id < t.pages {
		if first, last, ok := t.look.Known(id); ok {
			return t.knownLeaf(id, first, last, within, depth)
		}
	}
	p, err := t.page(id)
	if err != nil {
		return err
	}
	switch {
	case p.flags == LeafPage && (p.Count > 0 || within.from == nil):
		if err := t.level(id, depth); err != nil {
			return err
		}
		if t.inside {
			t.look.Next(p)
		}
		return t.leaf(p, within, depth)
	case p.flags == BranchPage && (p.Count > 1 || p.Count > 0 && t.look.Extent != AllRules):
	default:
		return damage.Errorf("page %d is of type %x with %d elements", id, p.flags, p.Count)
	}
	after := HeaderSize + p.Count*pageElement
	var now Element
	for i := range p.Count + 1 {
		var next Element
		below := limits{now.Key, within.to}
		if i < p.Count {
			if next, after, err = p.element(i, after); err != nil {
				return err
			}
			if !within.admit(next.Key) || i > 0 && bytes.Compare(now.Key, next.Key) >= 0 {
				return damage.Errorf("the keys of page %d are not in order", id)
			}
			below.to = next.Key
		}
		if i > 0 && (!last || i == p.Count) {
			if err := t.walk(now.Child, below, depth+1, last); err != nil {
				return err
			}
		}
		now = next
	}
	return nil
}

// level notes how deep a leaf is.
func (t *Tree) level(id uint64, depth int) error {
	if t.look.Extent == AllRules && t.leaves != 0 && t.leaves != depth+1 {
		return damage.Errorf("page %d is a leaf at a different depth than those before it", id)
	}
	t.leaves = depth + 1
	return nil
}

// knownLeaf checks that a leaf which was found to be sound before is where it belongs.
func (t *Tree) knownLeaf(id uint64, first, last []byte, within limits, depth int) error {
	if err := errors.Join(t.level(id, depth), t.enter(id, 0)); err != nil {
		return err
	}
	if !within.admit(first) || !within.admit(last) {
		return damage.Errorf("the keys of page %d are not in order", id)
	}
	if t.inside {
		t.look.Next(Page{ID: id})
	}
	return nil
}

func (t *Tree) leaf(p Page, within limits, depth int) error {
	after := HeaderSize + p.Count*pageElement
	var before []byte
	for i := range p.Count {
		e, end, err := p.element(i, after)
		if err != nil {
			return err
		}
		if !within.admit(e.Key) || i > 0 && bytes.Compare(before, e.Key) >= 0 {
			return damage.Errorf("the keys of page %d are not in order", p.ID)
		}
		before, after = e.Key, end
		if e.Flags&nestedBucket != 0 {
			if err := t.bucket(p, e, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// bucket checks one that is an element of a leaf: in pages of its own, or in the element.
func (t *Tree) bucket(p Page, e Element, depth int) error {
	if p.ID == 0 || len(e.Value) < bucketHeader {
		return damage.Errorf("page %d has an incomplete bucket, or one where none may be", p.ID)
	}
	if root := binary.LittleEndian.Uint64(e.Value); root != 0 {
		defer func(leaves int) { t.leaves = leaves }(t.leaves)
		t.leaves = 0
		named := bytes.Equal(e.Key, t.look.Bucket)
		t.inside = t.look.Next != nil && named
		defer func() { t.inside = false }()
		return t.walk(root, limits{}, depth+1, t.look.Extent == Edge && named)
	}
	if len(e.Value) < bucketHeader+HeaderSize {
		return damage.Errorf("page %d has an incomplete bucket", p.ID)
	}
	inline, err := parsePage(p.ID, e.Value[bucketHeader:])
	if err != nil {
		return err
	}
	if inline.flags != LeafPage {
		return damage.Errorf("page %d has an embedded bucket of type %x", p.ID, inline.flags)
	}
	inline.ID = 0 // in it there can be none
	return t.leaf(inline, limits{}, depth+1)
}

// freeList checks that no page is free and in use, or free twice.
func (t *Tree) freeList() error {
	p, err := t.page(t.free)
	if err != nil {
		return err
	}
	if p.flags != freePage {
		return damage.Errorf("page %d is not a list of free pages", t.free)
	}
	ids, count := p.Data[HeaderSize:], uint64(p.Count)
	if count == 0xFFFF {
		count, ids = binary.LittleEndian.Uint64(ids), ids[8:]
	}
	if count > uint64(len(ids))/8 {
		return damage.Errorf("a list of %d free pages in %d bytes", count, len(ids))
	}
	for ; count > 0; count-- {
		id := binary.LittleEndian.Uint64(ids)
		if id < 2 || id >= t.pages || t.seen.Has(int(id)) {
			return damage.Errorf("page %d is both free and in use", id)
		}
		t.seen.Set(int(id))
		ids = ids[8:]
	}
	return nil
}

// RightEdge returns a tree with the branches on its right; height 0 means that it is empty. All of it is valid until the
// file is closed.
func (t *Tree) RightEdge(root uint64) (s Subtree, err error) {
	s.root = root
	for id := root; ; {
		p, err := t.page(id)
		if err != nil {
			return s, err
		}
		if id == root && p.Count > 0 {
			e, _, err := p.element(0, HeaderSize+p.Count*pageElement)
			if err != nil {
				return s, err
			}
			s.first = e.Key
		}
		if p.Count > 0 {
			s.Height++
		}
		if p.flags != BranchPage {
			return s, nil
		}
		items, err := p.items()
		if err != nil {
			return s, err
		}
		s.edge = append(s.edge, items)
		id = items[len(items)-1].Child
	}
}

// Unseen returns the pages that no reference leads to.
func (t *Tree) Unseen() (ids []uint64) {
	for id := uint64(2); id < t.pages; id++ {
		if !t.seen.Has(int(id)) {
			ids = append(ids, id)
		}
	}
	return ids
}
