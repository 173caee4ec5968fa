package cke

import "slices"

// NeedsDeleted reports whether Deleted is needed: no incarnation on record was formed.
func (i Identity) NeedsDeleted() bool {
	return i.Incarnation == nil || i.Incarnation.State == Abandoned || i.Incarnation.State == Awaiting
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
// incarnation was formed: the store is older than a cluster of this name, which may serve on other nodes. A deletion
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
		if inc := i.Incarnation; inc != nil && inc.State == Awaiting && !i.continuesFromDeleted() {
			later = i.continuesFromOver(n)
		}
		if later {
			marked = append(marked, n.Node)
		}
	}
	return marked
}

// continuesFromOver reports whether a mark names the incarnation from which a cluster is declared to be restored: a restore
// replaced it. An earlier cke named it when a restore was canceled, too, and nothing tells the two apart: an incarnation
// that is on record as abandoned may have been so before it. What is declared from an earlier record may lack the last
// memberships.
func (i Identity) continuesFromOver(n NodeStatus) bool {
	from, is := i.continuesFrom()
	return is && slices.Contains(n.Over, from)
}

// continuesFromDeleted reports whether this store deleted that incarnation: all that it was is on record then.
func (i Identity) continuesFromDeleted() bool {
	from, is := i.continuesFrom()
	return is && slices.Contains(i.Deleted, from)
}

func (i Identity) continuesFrom() (incarnation string, is bool) {
	replaced := i.Incarnation.Replaced
	if len(replaced) == 0 {
		return "", false
	}
	return replaced[len(replaced)-1], true
}
