package cke

import (
	"slices"
	"strings"
	"time"
)

// startMark ends what a mark names beside what a restore replaced: the incarnation whose start made that over. A start that was withdrawn, see
// Restoration.Prepared, made nothing over, also if its mark remains or is made late. deletedMark is in its front for a deletion.
const (
	startMark   = "+"
	deletedMark = "/deleted"
)

// lifeOf is the incarnation that an entry of a mark is about.
func lifeOf(id string) string {
	return strings.TrimSuffix(strings.TrimSuffix(id, startMark), deletedMark)
}

// DeletedMark is what a mark names beside an incarnation that was deleted: one from before it may be there, of a start that was withdrawn.
func (i *Incarnation) DeletedMark() []string {
	if len(i.Previous) == 0 {
		return nil
	}
	return []string{i.ID + deletedMark + startMark}
}

// OverBy reports whether a mark that names these says that an incarnation is over which is on record as current, or as the last to run. What a
// start named that was withdrawn does not count, up to where the mark names that incarnation itself: it was canceled then.
func (i *Incarnation) OverBy(over []string, life string) bool {
	counts, withdrawn := false, ""
	for _, id := range over {
		switch by, is := strings.CutSuffix(id, startMark); {
		case !is && id == withdrawn:
			withdrawn = ""
		case !is:
			counts = counts || id == life && withdrawn == ""
		case i.Life(by) || i.WasReplaced(by):
			withdrawn = ""
		case i.WasAbandoned(by):
			withdrawn = by
		default: // a later restore, or a deletion
			return slices.Contains(over, life)
		}
	}
	return counts
}

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
	known := func(id string) bool { return slices.Contains(ids, lifeOf(id)) }
	for _, n := range nodes {
		over := slices.DeleteFunc(slices.Clone(n.Over), i.gaveUp)
		if !n.Answered() || len(over) == 0 {
			continue
		}
		later := !known(over[len(over)-1])
		if continues && !slices.Contains(i.Deleted, from) { // what this store deleted is all on record
			// A mark of which nothing is known may be of a cluster before, unless it came after one that is known.
			later = i.Incarnation.OverBy(n.Over, from) || later && slices.ContainsFunc(over, known) && !i.mayHaveForgotten(Join{StartedAt: time.Unix(0, 0)})
		}
		if later {
			marked = append(marked, n.Node)
		}
	}
	return marked
}

// gaveUp reports whether an incarnation was given up before it served. A mark of it says nothing of what came before it.
func (i Identity) gaveUp(id string) bool {
	id = lifeOf(id)
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
