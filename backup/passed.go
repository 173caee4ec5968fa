package backup

import (
	"math"

	"cke/backup/internal/pages"
)

// passedLeaves are the leaves of the bucket "key" that streamed by and are in no file, by page: what the walk of the tree has to know
// of them, in 16 bytes for a page of the database.
type passedLeaves []passedLeaf

// passedLeaf is where a leaf starts and ends.
type passedLeaf struct {
	main        int64  // of the first record
	span        uint32 // how many revisions there are up to the last record, both included; 0: no such leaf passed
	first, last uint16 // Sub of both records, and in the lowest bit whether it is a tombstone
}

// take notes a leaf, and reports whether it did.
func (l passedLeaves) take(p pages.Page) bool {
	if p.ID >= uint64(len(l)) {
		return false
	}
	l[p.ID] = passedOf(p)
	return l[p.ID].span > 0
}

// keys are the first and the last key of a leaf that passed.
func (l passedLeaves) keys(id uint64) (first, last []byte, ok bool) {
	if id >= uint64(len(l)) || l[id].span == 0 {
		return nil, nil, false
	}
	first, last = l[id].keys()
	return first, last, true
}

// passedOf returns the limits of a sound leaf; span 0 if they do not fit: the leaf then counts as missing, and all of the database is
// read.
func passedOf(p pages.Page) (l passedLeaf) {
	if p.Count == 0 {
		return l
	}
	first, ok := parseRecordKey(pages.ElementKey(p.Data, 0))
	last, too := parseRecordKey(pages.ElementKey(p.Data, p.Count-1))
	if span := last.Main - first.Main + 1; ok && too && span > 0 && span <= math.MaxUint32 && max(first.Sub, last.Sub) <= math.MaxInt16 {
		return passedLeaf{main: first.Main, span: uint32(span), first: subOf(first), last: subOf(last)}
	}
	return l
}

func subOf(r Record) uint16 {
	sub := uint16(r.Sub) << 1
	if r.Tombstone {
		sub |= 1
	}
	return sub
}

// keys are those of both records.
func (l passedLeaf) keys() (first, last []byte) {
	key := func(main int64, sub uint16) []byte {
		return Record{Main: main, Sub: int64(sub >> 1), Tombstone: sub&1 != 0}.AppendKey(make([]byte, 0, 18))
	}
	return key(l.main, l.first), key(l.main+int64(l.span)-1, l.last)
}
