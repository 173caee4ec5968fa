package cke

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// FreezeKind is what was found out about a cluster that nothing may be done to until a person decides.
type FreezeKind string

// Kinds of freezes.
const (
	FreezeClusterID   FreezeKind = "cluster-id"    // a member answers with another cluster id than the one on record
	FreezeCorrupt     FreezeKind = "corrupt-alarm" // etcd raised the alarm CORRUPT
	FreezeUnequalData FreezeKind = "unequal-data"  // members differ in their hash at one revision
)

// Freeze is the record of a finding that stops every change. It is stored before anything else is done, and lasts, even
// when the finding is no longer seen, until a person lifts it.
type Freeze struct {
	ID   string     `json:"id"`
	Kind FreezeKind `json:"kind"`
	// Finding tells findings apart: one that was lifted does not freeze the cluster again, another one does.
	Finding string    `json:"finding"`
	Problem Problem   `json:"problem"`
	At      time.Time `json:"at"`
	Leader  Leader    `json:"leader"`
	// Etcd is what the members answered then, Compared the hashes, where the freeze comes from them.
	Etcd     EtcdStatus  `json:"etcd"`
	Compared *Comparison `json:"compared,omitempty"`

	LiftedAt time.Time `json:"liftedAt,omitzero"`
	LiftedBy string    `json:"liftedBy,omitempty"` // user@host
	// LiftReason is a person's words.
	LiftReason string `json:"liftReason,omitempty"`
	// OverAt is set once what was found and lifted is no longer seen: found again, it freezes the cluster again.
	OverAt time.Time `json:"overAt,omitzero"`
	// Accepted are the findings that were lifted before this one and are not known to be over.
	Accepted []string `json:"accepted,omitempty"`
}

// Active reports whether the freeze has not been lifted. No freeze never is.
func (f *Freeze) Active() bool { return f != nil && f.LiftedAt.IsZero() }

// Tolerated are the findings that a person has lifted and that are not known to be over.
func (f *Freeze) Tolerated() []string {
	if f == nil {
		return nil
	}
	all := slices.Clone(f.Accepted)
	if !f.Active() && f.OverAt.IsZero() {
		all = append(all, f.Finding)
	}
	return all
}

// NewFreeze makes the record of a finding with a fresh id. Nothing is stored.
func NewFreeze(kind FreezeKind, finding string, p Problem, seen EtcdStatus) Freeze {
	return Freeze{ID: randomID(), Kind: kind, Finding: finding, Problem: p, Etcd: seen}
}

// Comparison is one comparison of the members' data: HashKV at one revision.
type Comparison struct {
	At time.Time `json:"at"`
	// Revision is the one that was hashed.
	Revision int64        `json:"revision"`
	Hashes   []MemberHash `json:"hashes"`
}

// Equal reports whether every member gave a hash and all are the same.
func (c Comparison) Equal() bool {
	for _, h := range c.Hashes {
		if h.Problem != "" || h.Hash != c.Hashes[0].Hash {
			return false
		}
	}
	return len(c.Hashes) > 0
}

// Difference says who differs from whom, as "n1 and n2 have 8f3a01c2, n3 has 00417b6e".
func (c Comparison) Difference() string {
	nodes := map[uint32][]string{}
	for _, h := range c.Hashes {
		if h.Problem == "" {
			nodes[h.Hash] = append(nodes[h.Hash], h.Node)
		}
	}
	var all []string
	for _, hash := range slices.Sorted(maps.Keys(nodes)) {
		verb := "has"
		if len(nodes[hash]) > 1 {
			verb = "have"
		}
		all = append(all, fmt.Sprintf("%s %s %08x", strings.Join(nodes[hash], " and "), verb, hash))
	}
	return strings.Join(all, ", ")
}

// MemberHash is one member's answer to HashKV. Hashes can be compared at one revision and one compacted revision only.
type MemberHash struct {
	Join      JoinID `json:"join"`
	Node      string `json:"node"`
	Hash      uint32 `json:"hash"`
	Compacted int64  `json:"compacted"` // the revision up to which the member had compacted
	// Problem is why the member gave no hash; empty when it did.
	Problem string `json:"problem,omitempty"`
}

// HashKV is what a member answers about its data at a revision.
type HashKV struct {
	Hash      uint32 `json:"hash"`
	Revision  int64  `json:"revision"` // of the member when it answered
	Compacted int64  `json:"compacted"`
}
