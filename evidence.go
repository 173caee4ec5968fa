package cke

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// FreezeKind is the kind of finding that stops all changes to a cluster until the operator decides.
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

// TwoClusters reports whether the finding is that two clusters have one name.
func (k FreezeKind) TwoClusters() bool { return k == FreezeClusterID || k == FreezeTwoQuorums }

// NamesWrong reports whether a member can be named as wrong when the freeze is lifted.
func (k FreezeKind) NamesWrong() bool { return k.TwoClusters() || k == FreezeWentBack }

// Freeze is the record of a finding that stops every change. It is stored before anything else is done, and stays
// active, even if the finding is no longer seen, until the operator lifts it.
type Freeze struct {
	ID   string     `json:"id"`
	Kind FreezeKind `json:"kind"`
	// Finding identifies the finding: once lifted, the same one does not freeze the cluster again, another one does.
	Finding string    `json:"finding"`
	Problem Problem   `json:"problem"`
	At      time.Time `json:"at"`
	Leader  Leader    `json:"leader"`
	// Etcd is what the members answered then, Compared the hashes if the freeze is because of them.
	Etcd     EtcdStatus  `json:"etcd"`
	Compared *Comparison `json:"compared,omitempty"`

	// Held are requests in the store when it was found to be older than the cluster: they may have been withdrawn since.
	Held *HeldRequests `json:"held,omitempty"`

	// Lacks is what the store did not have by the identity beside the backups, which are not taken while the cluster is frozen.
	Lacks []Lacking `json:"lacks,omitempty"`

	// Former is the active freeze that this one replaced because the store is older as well: it is active again once
	// this one is lifted.
	Former *Freeze `json:"former,omitempty"`

	LiftedAt time.Time `json:"liftedAt,omitzero"`
	LiftedBy string    `json:"liftedBy,omitempty"` // user@host
	// LiftReason is the operator's text.
	LiftReason string `json:"liftReason,omitempty"`
	// Wrong are the nodes whose members the operator put aside.
	Wrong []string `json:"wrong,omitempty"`
	// OverAt is set once a lifted finding is no longer seen: seen again, it freezes the cluster again.
	OverAt time.Time `json:"overAt,omitzero"`
	// Accepted are the findings that were lifted earlier and are not known to be over.
	Accepted []string `json:"accepted,omitempty"`
}

// Active reports whether there is a freeze that was not lifted.
func (f *Freeze) Active() bool { return f != nil && f.LiftedAt.IsZero() }

// Precedes returns why next must not replace the current freeze. ErrConflict: another one is active, next lifts
// another one than the current one, or the current one is already lifted. If next names the active freeze as its
// former one, it replaces that one only. One for an older store is replaced by one that has all of its finding, and more.
func (f *Freeze) Precedes(next Freeze) error {
	same := f != nil && f.ID == next.ID
	former := !same && next.Former != nil
	switch {
	case f.grows(next):
		return nil
	case former && !(f.Active() && f.ID == next.Former.ID):
		return fmt.Errorf("freeze %s is not the active one: %w", next.Former.ID, ErrConflict)
	case f.Active() && !same && !former:
		return fmt.Errorf("freeze %s is active: %w", f.ID, ErrConflict)
	case !next.Active() && !same:
		return fmt.Errorf("lifted freeze %s is not the current one: %w", next.ID, ErrConflict)
	case next.Active() && same && !f.Active():
		return fmt.Errorf("freeze %s was lifted: %w", f.ID, ErrConflict)
	}
	return nil
}

func (f *Freeze) grows(next Freeze) bool {
	return next.Active() && f.MakesWay(next.Kind, next.Finding) && Covers(next.Finding, f.Finding)
}

// MakesWay reports whether a finding replaces the active freeze f: everything else can be judged only with the right store, and
// that it is older only by all that shows it.
func (f *Freeze) MakesWay(kind FreezeKind, finding string) bool {
	return f.Active() && kind == FreezeOlderStore && !(f.Kind == FreezeOlderStore && Covers(f.Finding, finding))
}

// InPlaceOf returns f as it is recorded in the place of was, which makes way for it.
func (f Freeze) InPlaceOf(was *Freeze) Freeze {
	if was.Kind != FreezeOlderStore {
		f.Former = was
		return f
	}
	if !Covers(f.Finding, was.Finding) { // a node that is silent now showed it
		f.Problem.Message = was.Problem.Message + "; " + f.Problem.Message
	}
	f.Former, f.Held = was.Former, was.Held
	f.Finding = OlderStore(append(strings.Fields(was.Finding), strings.Fields(f.Finding)[1:]...)[1:])
	return f
}

// Returns returns the freeze that must be active again because the one that replaced it was lifted; nil: there is
// none.
func (f *Freeze) Returns() *Freeze {
	if f == nil || f.Active() || f.Former == nil {
		return nil
	}
	r := *f.Former
	r.Accepted = f.Tolerated()
	return &r
}

// Tolerated returns the findings that the operator lifted and that are not known to be over.
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

// Tolerates reports whether the operator lifted a finding.
func (f *Freeze) Tolerates(finding string) bool {
	return slices.ContainsFunc(f.Tolerated(), func(lifted string) bool { return Covers(lifted, finding) })
}

// OtherID names the finding that a member answers with another cluster id than the one on record.
func OtherID(j Join, clusterID string) string {
	return fmt.Sprintf("%s %s %s", FreezeClusterID, j.ID, clusterID)
}

// OlderStore names the finding that the store is older than the cluster, by the ids of what shows it.
func OlderStore(ids []string) string {
	ids = slices.Sorted(slices.Values(ids))
	return fmt.Sprintf("%s %s", FreezeOlderStore, strings.Join(slices.Compact(ids), " "))
}

// Covers reports whether lifting one finding lifts the other one as well. The finding of an older store lists what
// was found; a part of it, as while a node is silent, is no new finding.
func Covers(lifted, finding string) bool {
	words, has := strings.Fields(finding), strings.Fields(lifted)
	if len(words) == 0 || words[0] != string(FreezeOlderStore) {
		return lifted == finding
	}
	return !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(has, w) })
}

// NewFreeze returns the record of a finding with a new id. Nothing is stored.
func NewFreeze(kind FreezeKind, finding string, p Problem, seen EtcdStatus) Freeze {
	return Freeze{ID: randomID(), Kind: kind, Finding: finding, Problem: p, Etcd: seen}
}

// Comparison is one comparison of the members' data: HashKV at one revision.
type Comparison struct {
	At time.Time `json:"at"`
	// Revision is the revision of the hashes.
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

// Difference describes which nodes differ, as "n1 and n2 have 8f3a01c2, n3 has 00417b6e".
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

// MemberHash is one member's answer to HashKV. Hashes are comparable only at the same revision and the same compacted
// revision.
type MemberHash struct {
	Join      JoinID `json:"join"`
	Node      string `json:"node"`
	Hash      uint32 `json:"hash"`
	Compacted int64  `json:"compacted"` // the revision up to which the member had compacted
	// Problem is why the member returned no hash; empty if it did.
	Problem string `json:"problem,omitempty"`
}

// HashKV is a member's hash of its data at a revision.
type HashKV struct {
	Hash      uint32 `json:"hash"`
	Revision  int64  `json:"revision"` // of the member when it answered
	Compacted int64  `json:"compacted"`
}

// HeldRequests are requests in a store that is older than its cluster, by their time. They are ignored, even after
// the freeze was lifted, until they are made again.
type HeldRequests struct {
	Deletion    time.Time `json:"deletion,omitzero"`
	Hibernation time.Time `json:"hibernation,omitzero"`
	// Tasks and Queued are ids, of tasks and of entries of the queues.
	Tasks  []string `json:"tasks,omitempty"`
	Queued []string `json:"queued,omitempty"`
}

// HoldRequests returns the requests of a store as held ones.
func HoldRequests(deletion time.Time, asked Requests) *HeldRequests {
	h := HeldRequests{Deletion: deletion}
	if asked.Hibernation != nil {
		h.Hibernation = asked.Hibernation.Since
	}
	for _, t := range asked.Tasks {
		h.Tasks = append(h.Tasks, t.ID)
	}
	for _, r := range asked.Queued() {
		h.Queued = append(h.Queued, r.ID)
	}
	if h.Deletion.IsZero() && h.Hibernation.IsZero() && h.Tasks == nil && h.Queued == nil {
		return nil
	}
	return &h
}

// With adds what the previous freeze holds, except its tasks, which were answered.
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
	all.Queued = slices.Compact(slices.Sorted(slices.Values(slices.Concat(all.Queued, before.Held.Queued))))
	return &all
}

// HoldsDeletion reports whether f holds the deletion that was requested at a time.
func (f *Freeze) HoldsDeletion(at time.Time) bool {
	return f != nil && f.Held != nil && !at.IsZero() && f.Held.Deletion.Equal(at)
}

// HoldsHibernation reports whether f holds a hibernation.
func (f *Freeze) HoldsHibernation(h *Hibernation) bool {
	return f != nil && f.Held != nil && h != nil && f.Held.Hibernation.Equal(h.Since)
}

// HoldsQueued reports whether f holds an entry of a queue.
func (f *Freeze) HoldsQueued(r Entry) bool {
	return f != nil && f.Held != nil && slices.Contains(f.Held.Queued, r.ID)
}

// HoldsTask reports whether f holds a task.
func (f *Freeze) HoldsTask(t Task) bool {
	return f != nil && f.Held != nil && slices.Contains(f.Held.Tasks, t.ID)
}
