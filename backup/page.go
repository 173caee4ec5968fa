package backup

import (
	"bytes"
	"encoding/binary"
	"iter"
)

// Source of the layout: bbolt, internal/common (page.go, meta.go, bucket.go).
const (
	pageHeader   = 16
	pageElement  = 16
	bucketHeader = 16
	nestedBucket = 1

	branchPage = 0x01
	leafPage   = 0x02
	metaPage   = 0x04
	freePage   = 0x10

	// leastPage and maxPageSize are the sizes of the smallest and the largest page.
	leastPage   = 512
	maxPageSize = 64 << 10
)

// page is one page with what continues it.
type page struct {
	id    uint64
	flags uint16
	count int
	data  []byte
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

// elements returns all of a page, and ends with the first that is not in it.
func (p page) elements() iter.Seq2[element, error] {
	return func(yield func(element, error) bool) {
		after := pageHeader + p.count*pageElement
		for i := range p.count {
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
func (p page) items() (items []item, err error) {
	if p.flags != branchPage || p.count < 2 {
		return nil, damaged("page %d is no branch", p.id)
	}
	for e, err := range p.elements() {
		if err != nil {
			return nil, err
		}
		items = append(items, item{key: e.key, child: e.child})
	}
	return items, nil
}

// elementKey returns the key of the i-th element of a leaf; nil if it is not in this page, or names a bucket.
func elementKey(p []byte, i int) []byte {
	at := pageHeader + i*pageElement
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

// fillPage writes items to memory that is zero.
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
