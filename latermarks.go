package cke

import "slices"

// NeedsDeleted reports whether Deleted is needed: cke made no member of an incarnation on record that was formed.
func (i Identity) NeedsDeleted() bool {
	return i.Incarnation == nil || i.ImportsFirst() || i.Incarnation.State == Abandoned || i.Incarnation.State == Awaiting
}

// IDs returns the ids of all incarnations and memberships on record, the present incarnation last.
func (i Identity) IDs() (ids []string) {
	for _, j := range slices.Concat(i.Ended, i.Joins) {
		ids = append(ids, string(j.ID))
	}
	if inc := i.Incarnation; inc != nil {
		ids = append(append(append(ids, inc.Previous...), inc.Replaced...), inc.ID)
	}
	return ids
}

// MarkedLater returns the nodes that answer and have a mark of something that came after all that is on record, while no
// incarnation was formed by members of cke: the store is older than a cluster of this name, which may serve on other nodes. A deletion
// marks its incarnation last, and is on record.
func (i Identity) MarkedLater(nodes []NodeStatus) (marked []Node) {
	if !i.NeedsDeleted() {
		return nil
	}
	known := append(i.IDs(), i.Deleted...)
	for _, n := range nodes {
		if !n.Answered() || len(n.Over) == 0 {
			continue
		}
		later := !slices.Contains(known, n.Over[len(n.Over)-1])
		if from, is := i.continuesFrom(); is && !slices.Contains(i.Deleted, from) { // what this store deleted is all on record
			later = slices.Contains(n.Over, from)
		}
		if later {
			marked = append(marked, n.Node)
		}
	}
	return marked
}

// continuesFrom is the incarnation from which a cluster is declared to be restored; there is none if nothing is known of the
// cluster before. A mark that names it shows that a restore replaced it. An earlier cke named it when a restore was canceled,
// too, and nothing distinguishes the two: an incarnation that is on record as abandoned may have been so before it. What is
// declared from an earlier record may lack the last memberships.
func (i Identity) continuesFrom() (incarnation string, is bool) {
	inc := i.Incarnation
	if inc == nil || inc.State != Awaiting || len(inc.Replaced) == 0 {
		return "", false
	}
	return inc.Replaced[len(inc.Replaced)-1], true
}
