package pages

import (
	"bytes"
	"encoding/binary"
	"iter"

	"cke/backup/internal/damage"
)

// Source of the layout: bbolt, internal/common (page.go, meta.go, bucket.go).
const (
	// HeaderSize is the number of bytes at the start of a page.
	HeaderSize   = 16
	pageElement  = 16
	bucketHeader = 16
	nestedBucket = 1

	// BranchPage and LeafPage are types of pages.
	BranchPage = 0x01
	LeafPage   = 0x02
	metaPage   = 0x04
	freePage   = 0x10

	leastPage = 512
	// MaxPageSize is the size of the largest page.
	MaxPageSize = 64 << 10
)

// Page is one page, with its overflow pages.
type Page struct {
	ID    uint64
	flags uint16
	Count int
	Data  []byte
}

func parsePage(id uint64, data []byte) (Page, error) {
	p := Page{ID: id, Data: data, flags: binary.LittleEndian.Uint16(data[8:]), Count: int(binary.LittleEndian.Uint16(data[10:]))}
	if p.flags != freePage && HeaderSize+p.Count*pageElement > len(data) {
		return p, damage.Errorf("page %d has no room for %d elements", id, p.Count)
	}
	return p, nil
}

// Element is one element of a branch or a leaf.
type Element struct {
	Flags      uint32
	Key, Value []byte
	Child      uint64
}

// element reads the i-th one, which has to start where the one before ended, or later, and returns where it ends.
func (p Page) element(i, after int) (e Element, end int, err error) {
	at := HeaderSize + i*pageElement
	d := p.Data[at:]
	pos, key, value := uint64(binary.LittleEndian.Uint32(d)), uint64(binary.LittleEndian.Uint32(d[4:])), uint64(0)
	if p.flags == LeafPage {
		e.Flags, pos, key = uint32(pos), key, uint64(binary.LittleEndian.Uint32(d[8:]))
		value = uint64(binary.LittleEndian.Uint32(d[12:]))
	} else {
		e.Child = binary.LittleEndian.Uint64(d[8:])
	}
	begin := uint64(at) + pos
	if begin < uint64(after) || key == 0 || begin+key+value > uint64(len(p.Data)) {
		return e, 0, damage.Errorf("element %d of page %d lies outside of it", i, p.ID)
	}
	e.Key, e.Value = p.Data[begin:begin+key], p.Data[begin+key:begin+key+value]
	return e, int(begin + key + value), nil
}

// Elements yields all elements of a page, and stops at the first that is not in it.
func (p Page) Elements() iter.Seq2[Element, error] {
	return func(yield func(Element, error) bool) {
		after := HeaderSize + p.Count*pageElement
		for i := range p.Count {
			e, end, err := p.element(i, after)
			if !yield(e, err) || err != nil {
				return
			}
			after = end
		}
	}
}

// limits are those of the keys in a page: from the first on, less than the other; nil: none.
type limits struct{ from, to []byte }

func (l limits) admit(key []byte) bool {
	return bytes.Compare(key, l.from) >= 0 && (l.to == nil || bytes.Compare(key, l.to) < 0)
}

// items returns what a branch page holds.
func (p Page) items() (items []Item, err error) {
	if p.flags != BranchPage || p.Count < 2 {
		return nil, damage.Errorf("page %d is not a branch", p.ID)
	}
	for e, err := range p.Elements() {
		if err != nil {
			return nil, err
		}
		items = append(items, Item{Key: e.Key, Child: e.Child})
	}
	return items, nil
}

// ElementKey returns the key of the i-th element of a leaf; nil if it is not in this page, or names a bucket.
func ElementKey(p []byte, i int) []byte {
	at := HeaderSize + i*pageElement
	if i < 0 || at+pageElement > len(p) {
		return nil
	}
	e := p[at:]
	pos, size := uint64(binary.LittleEndian.Uint32(e[4:])), uint64(binary.LittleEndian.Uint32(e[8:]))
	if binary.LittleEndian.Uint32(e)&nestedBucket != 0 || pos+size > uint64(len(e)) {
		return nil
	}
	return e[pos : pos+size]
}

// Item is an entry of a page: a key with its value in a leaf, or with the page below that starts with it in a branch.
type Item struct {
	Key, Value []byte
	Flags      uint32
	Child      uint64
}

func (i Item) bytes() int { return pageElement + len(i.Key) + len(i.Value) }

// pageBytes is how much of a page items take, with its header.
func pageBytes(items []Item) int {
	bytes := HeaderSize
	for _, i := range items {
		bytes += i.bytes()
	}
	return bytes
}

// fillPage writes items to memory that is zero.
func fillPage(data []byte, size int, id uint64, flags uint16, items []Item) {
	binary.LittleEndian.PutUint64(data, id)
	binary.LittleEndian.PutUint16(data[8:], flags)
	binary.LittleEndian.PutUint16(data[10:], uint16(len(items)))
	binary.LittleEndian.PutUint32(data[12:], uint32(len(data)/size-1))
	at := HeaderSize + len(items)*pageElement
	for n, i := range items {
		e := data[HeaderSize+n*pageElement:]
		pos := uint32(at - HeaderSize - n*pageElement)
		if flags == BranchPage {
			binary.LittleEndian.PutUint32(e, pos)
			binary.LittleEndian.PutUint32(e[4:], uint32(len(i.Key)))
			binary.LittleEndian.PutUint64(e[8:], i.Child)
		} else {
			binary.LittleEndian.PutUint32(e, i.Flags)
			binary.LittleEndian.PutUint32(e[4:], pos)
			binary.LittleEndian.PutUint32(e[8:], uint32(len(i.Key)))
			binary.LittleEndian.PutUint32(e[12:], uint32(len(i.Value)))
		}
		at += copy(data[at:], i.Key)
		at += copy(data[at:], i.Value)
	}
}
