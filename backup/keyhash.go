package backup

import (
	"hash/crc32"

	"cke/backup/internal/pages"
)

// keyHash computes etcd's HashKV of a full from sums of its leaves, which pass in the order of their pages and count in that of their
// keys. That is the hash if nothing in the full is superseded, as in what a finished compaction leaves; else another one comes out,
// and the whole database has to be read.
type keyHash struct {
	want   Hash
	leaves []leafSum // of those that passed, by page
	crc    uint32    // of all so far, in order
}

// leafSum is the CRC-32C of the records in a leaf, and their length.
type leafSum struct{ crc, size uint32 }

func newKeyHash(want Hash, pages uint64) *keyHash {
	return &keyHash{want: want, leaves: make([]leafSum, pages), crc: crc32.Checksum(bucketKey, castagnoli)}
}

// passed notes a leaf that passes by.
func (h *keyHash) passed(p pages.Page) {
	if h != nil {
		h.leaves[p.ID] = h.sum(p)
	}
}

// next takes the next leaf in the order of keys; p has no data if it passed before.
func (h *keyHash) next(p pages.Page) {
	sum := leafSum{}
	if p.Data != nil {
		sum = h.sum(p)
	} else if p.ID < uint64(len(h.leaves)) {
		sum = h.leaves[p.ID]
	}
	h.crc = shiftCRC(h.crc, sum.size) ^ sum.crc
}

func (h *keyHash) sum(p pages.Page) (sum leafSum) {
	for e, err := range p.Elements() {
		if err != nil {
			return leafSum{} // the walk of the tree reports it
		}
		if r, _ := parseRecordKey(e.Key); r.Tombstone && r.Main == h.want.Compacted {
			continue // etcd keeps it, and does not count it
		}
		sum.crc = crc32.Update(crc32.Update(sum.crc, castagnoli, e.Key), castagnoli, e.Value)
		sum.size += uint32(len(e.Key) + len(e.Value))
	}
	return sum
}

// equal reports whether the full holds what etcd said.
func (h *keyHash) equal() bool { return h == nil || h.crc == h.want.Hash }

// shiftCRC is the part that a CRC-32C has in that of the same bytes with size others behind them.
// Source: zlib, crc32_combine.
func shiftCRC(crc, size uint32) uint32 {
	power := uint32(1) << 23 // x^8: a byte
	for ; size > 0; size >>= 1 {
		if size&1 != 0 {
			crc = multiplyCRC(power, crc)
		}
		power = multiplyCRC(power, power)
	}
	return crc
}

// multiplyCRC multiplies two polynomials, bits reflected, modulo that of CRC-32C.
func multiplyCRC(a, b uint32) (product uint32) {
	for bit := uint32(1) << 31; bit != 0; bit >>= 1 {
		if a&bit != 0 {
			product ^= b
		}
		carry := b & 1
		b >>= 1
		if carry != 0 {
			b ^= crc32.Castagnoli
		}
	}
	return product
}
