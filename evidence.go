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
	FreezeWentBack    FreezeKind = "went-back"     // members serve less than members of the same cluster had served before
	FreezeUnequalData FreezeKind = "unequal-data"  // members differ in their hash at one revision
	FreezeTwoQuorums  FreezeKind = "two-quorums"   // members of one cluster id serve without each other
	FreezeOlderStore  FreezeKind = "older-store"   // the store does not have memberships that nodes carry, or has members where they are not
)

// TwoClusters reports whether it is that two clusters carry one name.
func (k FreezeKind) TwoClusters() bool { return k == FreezeClusterID || k == FreezeTwoQuorums }

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

	// Held are requests that the store had when it was found to be older than the cluster: people may have withdrawn them since.
	Held *HeldRequests `json:"held,omitempty"`

	// Former is the active freeze whose place this one took, as the store was found to be older as well: it is active again once this one is lifted.
	Former *Freeze `json:"former,omitempty"`

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

// Precedes returns why next must not take the place of the present freeze: ErrConflict where another one is active, where
// next lifts another one than the present, and where the present one was lifted already. One that names the active freeze as its former one
// takes its place, and only its place.
func (f *Freeze) Precedes(next Freeze) error {
	same := f != nil && f.ID == next.ID
	former := !same && next.Former != nil
	switch {
	case former && !(f.Active() && f.ID == next.Former.ID):
		return fmt.Errorf("freeze %s is not the active one: %w", next.Former.ID, ErrConflict)
	case f.Active() && !same && !former:
		return fmt.Errorf("freeze %s is active: %w", f.ID, ErrConflict)
	case !next.Active() && !same:
		return fmt.Errorf("freeze %s, which is lifted, is not the present one: %w", next.ID, ErrConflict)
	case next.Active() && same && !f.Active():
		return fmt.Errorf("freeze %s was lifted: %w", f.ID, ErrConflict)
	}
	return nil
}

// MakesWay reports whether a freeze of another kind takes the place of f: all else can be judged only by the right store.
func (f *Freeze) MakesWay(kind FreezeKind) bool {
	return f.Active() && f.Kind != FreezeOlderStore && kind == FreezeOlderStore
}

// Returns is the freeze that is to be active again, since the one that took its place was lifted; nil: there is none.
func (f *Freeze) Returns() *Freeze {
	if f == nil || f.Active() || f.Former == nil {
		return nil
	}
	r := *f.Former
	r.Accepted = f.Tolerated()
	return &r
}

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

// Tolerates reports whether a person has lifted a finding.
func (f *Freeze) Tolerates(finding string) bool {
	return slices.ContainsFunc(f.Tolerated(), func(lifted string) bool { return Covers(lifted, finding) })
}

// Covers reports whether who lifts one finding has lifted the other one as well. That of an older store names what was found; less of
// it, as while a node is silent, is no new finding.
func Covers(lifted, finding string) bool {
	words, has := strings.Fields(finding), strings.Fields(lifted)
	if len(words) == 0 || words[0] != string(FreezeOlderStore) {
		return lifted == finding
	}
	return !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(has, w) })
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

// HeldRequests are requests of a store that is older than its cluster, by when they were made. They are not acted on, also after
// the freeze was lifted, until a person makes them again.
type HeldRequests struct {
	Deletion    time.Time `json:"deletion,omitzero"`
	Hibernation time.Time `json:"hibernation,omitzero"`
	// Tasks are ids.
	Tasks []string `json:"tasks,omitempty"`
}

// HoldRequests are the requests of a store, to be held.
func HoldRequests(deletion time.Time, asked Requests) *HeldRequests {
	h := HeldRequests{Deletion: deletion}
	if asked.Hibernation != nil {
		h.Hibernation = asked.Hibernation.Since
	}
	for _, t := range asked.Tasks {
		h.Tasks = append(h.Tasks, t.ID)
	}
	if h.Deletion.IsZero() && h.Hibernation.IsZero() && h.Tasks == nil {
		return nil
	}
	return &h
}

// With adds what the freeze before holds. Its tasks were answered.
func (h *HeldRequests) With(before *Freeze) *HeldRequests {
	if before == nil || before.Held == nil {
		return h
	}
	all := HeldRequests{}
	if h != nil {
		all = *h
	}
	if all.Deletion.IsZero() {
		all.Deletion = before.Held.Deletion
	}
	if all.Hibernation.IsZero() {
		all.Hibernation = before.Held.Hibernation
	}
	return &all
}

// HoldsDeletion reports whether f holds the deletion that was asked for at a time.
func (f *Freeze) HoldsDeletion(at time.Time) bool {
	return f != nil && f.Held != nil && !at.IsZero() && f.Held.Deletion.Equal(at)
}

// HoldsHibernation reports whether f holds a hibernation.
func (f *Freeze) HoldsHibernation(h *Hibernation) bool {
	return f != nil && f.Held != nil && h != nil && f.Held.Hibernation.Equal(h.Since)
}

// HoldsTask reports whether f holds a task.
func (f *Freeze) HoldsTask(t Task) bool {
	return f != nil && f.Held != nil && slices.Contains(f.Held.Tasks, t.ID)
}
