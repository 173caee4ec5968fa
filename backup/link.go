package backup

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"slices"
)

// Link names another object by the digest of its head, which covers everything in the head and the digest of the body.
type Link struct {
	// Object is its name in the bucket.
	Object string `json:"object"`
	// Sum is its Header.Sum.
	Sum string `json:"sum"`
}

// maxName bounds the name of an object, in bytes: S3 has no longer ones.
const maxName = 1024

// Link returns the link that names the object with this header.
func (h Header) Link() *Link { return &Link{Object: h.Place.Name(), Sum: h.Sum} }

// Place returns the place of the named object; the zero Place for nil.
func (l *Link) Place() Place {
	if l == nil {
		return Place{}
	}
	p, _ := ParsePlace(l.Object)
	return p
}

func (l *Link) valid() bool {
	if l == nil {
		return true
	}
	_, ok := ParsePlace(l.Object)
	sum, err := hex.DecodeString(l.Sum)
	return ok && err == nil && len(sum) == sha256.Size && len(l.Object) <= maxName
}

// contradicts reports whether l names the object with this header, but with another content.
func (l *Link) contradicts(h Header) bool {
	return l != nil && l.Object == h.Place.Name() && l.Sum != h.Sum
}

// follows refuses a delta that names another one than that before it.
func (h Header) follows(before Header) error {
	if h.After == nil || before.Sum == "" || h.Place.Sequence == 0 || *h.After == *before.Link() {
		return nil
	}
	return damaged("it is not the delta that %s continues", h.Place.Name())
}

// Origin is the state that an incarnation was restored from.
type Origin struct {
	// Lineage and Revision are the state; empty: it is not from a backup of this cluster.
	Lineage  string `json:"lineage,omitempty"`
	Revision int64  `json:"revision,omitempty"`
	// Replaces is the incarnation that ended with the restore; empty: none did, or it is not known.
	Replaces string `json:"replaces,omitempty"`
	// Replaced are the newest incarnations that had been replaced by then, the last one last: Replaces may have no backups.
	Replaced []string `json:"replaced,omitempty"`
}

// Follows reports whether the incarnation of this origin came after another one.
func (o *Origin) Follows(life string) bool {
	return o != nil && life != "" && (life == o.Lineage || life == o.Replaces || slices.Contains(o.Replaced, life))
}

// headSum is the digest that ends a head, in hex.
func headSum(head []byte) string {
	if len(head) < sha256.Size {
		return ""
	}
	return hex.EncodeToString(head[len(head)-sha256.Size:])
}

// marker digests the changes of one revision: the newest that it was given.
type marker struct {
	h    hash.Hash
	main int64
	head [9]byte // scratch
}

func newMarker() marker { return marker{h: sha256.New()} }

// add takes the next change; value is what etcd stores for it. Length and kind go first, so that no two runs look alike.
func (m *marker) add(r Record, value []byte) {
	if r.Main != m.main {
		m.h.Reset()
		m.main = r.Main
	}
	binary.BigEndian.PutUint64(m.head[:], uint64(len(value)))
	m.head[8] = 0
	if r.Tombstone {
		m.head[8] = 1
	}
	m.h.Write(m.head[:])
	m.h.Write(value)
}

func (m *marker) sum() string { return hex.EncodeToString(m.h.Sum(nil)) }

// MarkOf computes the mark of a revision from all its changes in order: the SHA-256, in hex, of each change's size, kind
// and value as etcd stores it. Two histories that differ at a revision have different marks there.
func MarkOf(changes []Change) string {
	m := newMarker()
	for i := range changes {
		c := &changes[i]
		m.add(Record{Main: c.ModRevision, Tombstone: c.Delete}, appendKeyValue(nil, c))
	}
	return m.sum()
}
