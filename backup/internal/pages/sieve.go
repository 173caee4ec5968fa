package pages

import (
	"bytes"
	"encoding/binary"
	"os"
)

// Sieve keeps, of a database that is streamed, the pages of Edge, each at its place in a file with holes: all except the
// leaves of one bucket, of which it keeps the last. So gigabytes need not be written and thrown away to learn a few
// numbers.
//
// It decides only what to keep. bbolt reads the file, follows the pointers from page to page, and panics at a hole: a
// page dropped in error is noticed. That happens when free pages hold newer changes than the pages in use, as after a
// compaction that removed the very last change.
//
// Source of the layout: bbolt, internal/common/page.go and meta.go; unchanged since etcd 3.0.
type Sieve struct {
	File  *os.File
	Whole bool
	Size  int   // of a page; 0: not known yet
	next  int64 // number of the next page
	// follow counts the pages after the newest kept one that are its continuation.
	follow int64
	newest []byte // greatest last key of a leaf of the bucket so far
	leaf   []byte // the page that has it, not written yet; nil: none
	leafAt int64
	hold   []byte // memory for leaf between two calls
	rest   []byte // the beginning of a page
	// Ours reports whether a key is one of the bucket of which the last leaf is kept.
	Ours func(key []byte) bool
	// Sound receives each leaf of that bucket that has one page and is sound; longer ones are then kept. nil: no call.
	Sound func(p Page)
}

// Write takes the next bytes. It is fast if they start and end with pages.
func (s *Sieve) Write(p []byte) (int, error) {
	n := len(p)
	if s.Size == 0 && !s.Whole {
		s.rest = append(s.rest, p...)
		if len(s.rest) < 2*HeaderSize {
			return n, nil
		}
		p, s.rest = s.rest, nil
		s.Size = pageSize(p)
		s.Whole = s.Size == 0
	}
	if s.Whole {
		_, err := s.File.Write(p)
		return n, err
	}
	if len(s.rest) > 0 {
		m := min(s.Size-len(s.rest), len(p))
		s.rest, p = append(s.rest, p[:m]...), p[m:]
		if len(s.rest) < s.Size {
			return n, nil
		}
		if err := s.page(s.rest); err != nil {
			return 0, err
		}
		s.release()
		s.rest = s.rest[:0]
	}
	for ; len(p) >= s.Size; p = p[s.Size:] {
		if err := s.page(p[:s.Size]); err != nil {
			return 0, err
		}
	}
	s.release()
	s.rest = append(s.rest, p...)
	return n, nil
}

// pageSize reads the size of pages from the first one; 0: this is no database.
func pageSize(p []byte) int {
	size := int(binary.LittleEndian.Uint32(p[HeaderSize+8:]))
	if binary.LittleEndian.Uint32(p[HeaderSize:]) != dbMagic || size < leastPage || size > MaxPageSize || size&(size-1) != 0 {
		return 0
	}
	return size
}

// release copies the leaf out of the caller's memory.
func (s *Sieve) release() {
	if s.leaf != nil {
		s.hold = append(s.hold[:0], s.leaf...)
		s.leaf = s.hold
	}
}

// Done completes the file. The digest at the end of the snapshot is not in it.
func (s *Sieve) Done() error {
	if s.Whole {
		return nil
	}
	if err := s.KeepLeaf(); err != nil {
		return err
	}
	return s.File.Truncate(s.next * int64(s.Size))
}

func (s *Sieve) page(p []byte) error {
	at := s.next
	s.next++
	if at < 2 { // meta pages
		return s.keep(at, p)
	}
	if s.follow > 0 {
		s.follow--
		return s.keep(at, p)
	}
	if binary.LittleEndian.Uint64(p) != uint64(at) {
		return nil // no page begins here
	}
	more := int64(binary.LittleEndian.Uint32(p[12:]))
	switch binary.LittleEndian.Uint16(p[8:]) {
	case BranchPage:
	case LeafPage:
		if count := int(binary.LittleEndian.Uint16(p[10:])); s.Ours(ElementKey(p, 0)) {
			if s.Sound != nil && more == 0 {
				s.check(at, p)
			}
			last := ElementKey(p, count-1)
			old := last != nil && bytes.Compare(last, s.newest) < 0
			if old && (more == 0 || s.Sound == nil) {
				return nil
			}
			if s.Ours(last) && more == 0 {
				return s.better(at, p, last)
			}
		}
	default:
		return nil
	}
	s.follow = more
	return s.keep(at, p)
}

// check checks a leaf as the walk of a tree does.
func (s *Sieve) check(id int64, data []byte) {
	p, err := parsePage(uint64(id), data)
	if err == nil && new(Tree).leaf(p, limits{}, 0) == nil {
		s.Sound(p)
	}
}

// better takes a leaf in place of the one before, unless both end with the same key: either may be the one in use.
func (s *Sieve) better(at int64, p, last []byte) error {
	if bytes.Equal(last, s.newest) {
		if err := s.KeepLeaf(); err != nil {
			return err
		}
	}
	s.newest = append(s.newest[:0], last...)
	s.leaf, s.leafAt = p, at
	return nil
}

// KeepLeaf writes the leaf that has the last key.
func (s *Sieve) KeepLeaf() error {
	if s.leaf == nil {
		return nil
	}
	return s.keep(s.leafAt, s.leaf)
}

func (s *Sieve) keep(at int64, p []byte) error {
	_, err := s.File.WriteAt(p, at*int64(s.Size))
	return err
}
