package backup

import (
	"encoding/binary"
	"hash/fnv"
)

const (
	dbMagic     = 0xED0CDAED
	metaSize    = 64
	metaVersion = 2
)

// newestMeta takes over what the newest meta page says.
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
	if t.size < leastPage || t.size > maxPageSize || t.size&(t.size-1) != 0 {
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

// dbHead is what the first two pages of a database say.
type dbHead struct {
	size  int    // of a page
	pages uint64 // of the file
	tx    uint64
	metas []byte // both pages
}

func parseHead(data []byte, content int64) (dbHead, error) {
	t := &tree{data: data}
	if err := t.newestMeta(); err != nil {
		return dbHead{}, err
	}
	if uint64(len(data)) < 2*t.size || uint64(content) < 2*t.size {
		return dbHead{}, damaged("no database: it has %d bytes", content)
	}
	return dbHead{
		size: int(t.size), pages: (uint64(content) + t.size - 1) / t.size,
		tx: binary.LittleEndian.Uint64(t.newest[48:]), metas: data[:2*t.size],
	}, nil
}
