package cke

import (
	"fmt"
	"slices"
	"time"
)

// Sighting is that a node was seen with a member although an order calls it destroyed. It is put on record before anything is decided by the
// observation that showed it, whatever the order waits for, and remains there as long as the order.
type Sighting struct {
	// Order is the id of the task that gave the order, which is that of its restore, too; or that of a deletion, see Spec.DeletionID.
	Order string    `json:"order"`
	Node  string    `json:"node"`
	What  string    `json:"what"`
	At    time.Time `json:"at"` // when it was first seen
}

// Same reports whether both are of one order and node.
func (s Sighting) Same(o Sighting) bool { return s.Order == o.Order && s.Node == o.Node }

// Sightings returns what was seen of nodes since an order was given.
func (i Identity) Sightings(order string) (all []Sighting) {
	for _, s := range i.Sighted {
		if s.Order == order {
			all = append(all, s)
		}
	}
	return all
}

// SeenSince returns the nodes that the order of a restore calls destroyed, and that were seen since it was given, as far as the record of
// the restore does not say so yet.
func (i Identity) SeenSince(r *Restoration) (nodes []string) {
	destroyed := r.Believed().Destroyed
	for _, s := range i.Sightings(r.ID) {
		again := slices.ContainsFunc(i.Superseded(), func(j Join) bool { return j.Node.Name() == s.Node && r.IsFenced(j) })
		if again || slices.Contains(destroyed, s.Node) {
			nodes = With(nodes, s.Node)
		}
	}
	return nodes
}

// Contradicts returns why the deletion of a cluster waits: a node that it calls destroyed was seen since it was requested.
func (s Sighting) Contradicts(cluster string) *Error {
	return &Error{Code: CodeFence, What: fmt.Sprintf("%s was named as destroyed, and was seen since: %s, at %s", s.Node, s.What, s.At.UTC().Format(time.RFC3339)), Err: ErrConflict,
		Try: fmt.Sprintf("switch %s off, and name it again: ckecli cluster delete %s --destroyed %s; or bring it back; or ckecli cluster delete %s --cancel", s.Node, cluster, s.Node, cluster)}
}
