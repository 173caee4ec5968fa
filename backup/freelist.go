package backup

import (
	"encoding/binary"
	"hash/fnv"
	"os"
)

const metaPage = 4

// listFree gives a database that has none a list of its free pages, as bbolt writes it; t has walked all of it. Without such a
// list bbolt makes one as soon as it opens the file to write: it reads every page once more, and keeps a table of all pages.
//
// Source of the layout: bbolt, internal/common/meta.go, internal/freelist/shared.go.
func (t *tree) listFree(path string) error {
	if t.free != noFreeList {
		return nil
	}
	var ids []uint64
	for id := uint64(2); id < t.pages; id++ {
		if !t.seen.has(int(id)) {
			ids = append(ids, id)
		}
	}
	list := t.freePages(ids)
	added := uint64(len(list)) / t.size
	meta := make([]byte, pageHeader, pageHeader+metaSize)
	txid := binary.LittleEndian.Uint64(t.newest[48:]) + 1
	binary.LittleEndian.PutUint64(meta, txid%2)
	binary.LittleEndian.PutUint16(meta[8:], metaPage)
	meta = append(meta, t.newest[:]...)
	m := meta[pageHeader:]
	binary.LittleEndian.PutUint64(m[32:], t.pages)
	binary.LittleEndian.PutUint64(m[40:], t.pages+added)
	binary.LittleEndian.PutUint64(m[48:], txid)
	sum := fnv.New64a()
	sum.Write(m[:metaSize-8])
	binary.LittleEndian.PutUint64(m[metaSize-8:], sum.Sum64())
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteAt(list, int64(t.pages*t.size)); err != nil {
		return err
	}
	if _, err := f.WriteAt(meta, int64(txid%2*t.size)); err != nil {
		return err
	}
	return f.Close()
}

// freePages is a list of free pages in pages of its own, behind all others.
func (t *tree) freePages(ids []uint64) []byte {
	count := len(ids)
	if count >= 0xFFFF { // too many for the header: the first one tells
		ids = append([]uint64{uint64(count)}, ids...)
		count = 0xFFFF
	}
	pages := (uint64(pageHeader+8*len(ids)) + t.size - 1) / t.size
	list := make([]byte, pages*t.size)
	binary.LittleEndian.PutUint64(list, t.pages)
	binary.LittleEndian.PutUint16(list[8:], freePage)
	binary.LittleEndian.PutUint16(list[10:], uint16(count))
	binary.LittleEndian.PutUint32(list[12:], uint32(pages-1))
	for i, id := range ids {
		binary.LittleEndian.PutUint64(list[pageHeader+8*i:], id)
	}
	return list
}
