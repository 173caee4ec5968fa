package cke

import (
	"slices"
	"time"
)

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

// AddArchived adds what is known of a cluster of this name that was deleted, with all its memberships that ended. Of one that was only
// declared to be restored no member was stopped: only what was given up before it served is known to be over.
func (i *Identity) AddArchived(was Identity, ended ...string) {
	if inc := was.Incarnation; inc != nil && inc.State == Awaiting {
		i.GaveUp = append(i.GaveUp, inc.Previous...)
	} else {
		i.Deleted = append(append(i.Deleted, was.IDs()...), ended...)
	}
}

// MarkedLater returns the nodes that answer and have a mark of something that came after all that is on record, while no
// incarnation was formed by members of cke: the store is older than a cluster of this name, which may serve on other nodes. A deletion
// marks its incarnation last, and is on record.
func (i Identity) MarkedLater(nodes []NodeStatus) (marked []Node) {
	if !i.NeedsDeleted() {
		return nil
	}
	from, continues := i.continuesFrom()
	ids := append(i.IDs(), i.Deleted...)
	known := func(id string) bool { return slices.Contains(ids, id) }
	for _, n := range nodes {
		over := slices.DeleteFunc(slices.Clone(n.Over), i.gaveUp)
		if !n.Answered() || len(over) == 0 {
			continue
		}
		later := !known(over[len(over)-1])
		if continues && !slices.Contains(i.Deleted, from) { // what this store deleted is all on record
			// A mark of which nothing is known may be of a cluster before, unless it came after one that is known.
			later = slices.Contains(over, from) || later && slices.ContainsFunc(over, known) && !i.mayHaveForgotten(Join{StartedAt: time.Unix(0, 0)})
		}
		if later {
			marked = append(marked, n.Node)
		}
	}
	return marked
}

// gaveUp reports whether an incarnation was given up before it served. A mark of it says nothing of what came before it.
func (i Identity) gaveUp(id string) bool {
	return i.Incarnation.WasAbandoned(id) || slices.Contains(i.GaveUp, id)
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

// OverByStart returns the incarnations of which marks say that they are over only since the start of restored members is on record.
func (i Identity) OverByStart() []string {
	was := i
	was.Joins = slices.Clone(i.Joins)
	for k := range was.Joins {
		was.Joins[k].StartedAt = time.Time{}
	}
	before := was.Over()
	return slices.DeleteFunc(i.Over(), func(life string) bool { return slices.Contains(before, life) })
}

// Unmarked returns what a mark names once these incarnations are not over after all; fewer: it named one of them.
func Unmarked(before, back []string) (left []string, fewer bool) {
	left = slices.DeleteFunc(slices.Clone(before), func(id string) bool { return slices.Contains(back, id) })
	return left, len(left) < len(before)
}
