package pages

import "encoding/binary"

// FreeListPages returns how many pages a list takes that has a number for each of these pages, and for each of its own.
func FreeListPages(pages, size uint64) int { return int((HeaderSize+8+8*pages)/(size-8)) + 1 }

// FreeList encodes a list of free pages in as many bytes of pages as there are for it.
//
// Source of the layout: bbolt, internal/freelist/shared.go.
func FreeList(id uint64, ids []uint64, bytes, size int) []byte {
	count := len(ids)
	if count >= 0xFFFF { // too many for the header: the first one tells
		ids = append([]uint64{uint64(count)}, ids...)
		count = 0xFFFF
	}
	list := make([]byte, bytes)
	binary.LittleEndian.PutUint64(list, id)
	binary.LittleEndian.PutUint16(list[8:], freePage)
	binary.LittleEndian.PutUint16(list[10:], uint16(count))
	binary.LittleEndian.PutUint32(list[12:], uint32(bytes/size-1))
	for i, id := range ids {
		binary.LittleEndian.PutUint64(list[HeaderSize+8*i:], id)
	}
	return list
}
