package pages

import (
	"encoding/binary"
	"hash/fnv"

	"cke/backup/internal/damage"
)

const (
	dbMagic     = 0xED0CDAED
	metaSize    = 64
	metaVersion = 2
)

// newestMeta takes over what the newest meta page says.
func (t *Tree) newestMeta() error {
	read := func(at uint64) []byte {
		if at+HeaderSize+metaSize > uint64(len(t.data)) {
			return nil
		}
		m := t.data[at+HeaderSize:][:metaSize]
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
		return damage.Errorf("not a database: it has no meta page")
	}
	t.size = uint64(binary.LittleEndian.Uint32(best[8:]))
	if t.size < leastPage || t.size > MaxPageSize || t.size&(t.size-1) != 0 {
		return damage.Errorf("invalid page size: %d bytes", t.size)
	}
	if second := read(t.size); second != nil && binary.LittleEndian.Uint64(second[48:]) > binary.LittleEndian.Uint64(best[48:]) {
		best = second
	}
	if uint64(binary.LittleEndian.Uint32(best[8:])) != t.size {
		return damage.Errorf("meta pages with different page sizes")
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

// Meta is the content of a meta page.
type Meta struct {
	Root, Free, Pages, Tx uint64
}

// Page encodes a meta page of its own size, in the place that its transaction determines.
func (m Meta) Page(size int) (at int64, data []byte) {
	data = make([]byte, size)
	binary.LittleEndian.PutUint64(data, m.Tx%2)
	binary.LittleEndian.PutUint16(data[8:], metaPage)
	d := data[HeaderSize:]
	binary.LittleEndian.PutUint32(d, dbMagic)
	binary.LittleEndian.PutUint32(d[4:], metaVersion)
	binary.LittleEndian.PutUint32(d[8:], uint32(size))
	binary.LittleEndian.PutUint64(d[16:], m.Root)
	binary.LittleEndian.PutUint64(d[32:], m.Free)
	binary.LittleEndian.PutUint64(d[40:], m.Pages)
	binary.LittleEndian.PutUint64(d[48:], m.Tx)
	binary.LittleEndian.PutUint64(d[metaSize-8:], metaSum(d))
	return int64(m.Tx%2) * int64(size), data
}

// Head is the content of the first two pages of a database.
type Head struct {
	Size  int    // of a page
	Pages uint64 // of the file
	Tx    uint64
	Metas []byte // both pages
}

// ParseHead reads the first two pages of a database whose file has content bytes.
func ParseHead(data []byte, content int64) (Head, error) {
	t := &Tree{data: data}
	if err := t.newestMeta(); err != nil {
		return Head{}, err
	}
	if uint64(len(data)) < 2*t.size || uint64(content) < 2*t.size {
		return Head{}, damage.Errorf("not a database: it has %d bytes", content)
	}
	return Head{
		Size: int(t.size), Pages: (uint64(content) + t.size - 1) / t.size,
		Tx: binary.LittleEndian.Uint64(t.newest[48:]), Metas: data[:2*t.size],
	}, nil
}
