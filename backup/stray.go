package backup

import (
	"fmt"
	"slices"
	"strings"

	"cke/backup/internal/damage"
)

// Stray is a run of deltas that cannot be reached: a full, or the deltas before them, are missing.
type Stray struct {
	Deltas []Entry
	// First and Last are the revisions that these deltas hold and that cannot be restored.
	First, Last int64
	Damage      *DamagedError
	base        Span // the revision of the full that led to them; empty: unknown
}

// findStrays fills in Strays. head reads the header of a delta.
//
// A delta needs a full that is older than its last change, and all deltas between the two. Where there is none, changes are lost
// if the delta is newer than every full, or if a full had led to it when it was written. The deltas of a new stream that are
// written before its first full is stored had none: that full holds what they hold.
func (l *Lineage) findStrays(head func(Entry) (Header, error)) error {
	l.Strays = nil
	newest := int64(0)
	for _, f := range l.Fulls {
		newest = max(newest, f.Revision)
	}
	for i := range l.Streams {
		st := &l.Streams[i]
		unled := st.Deltas[:st.unled(l.Fulls)]
		if len(unled) == 0 {
			continue
		}
		last := len(unled) - 1
		stray := Stray{Deltas: unled, base: Span{1, 0}, First: unled[0].Revision, Last: max(st.lastOf(last), unled[last].Revision)}
		h := st.Tail
		if last < len(st.Deltas)-1 || h.Size == 0 {
			var err error
			if h, err = head(unled[last]); err != nil && !IsDamage(err) {
				return err
			}
		}
		if stray.Last <= newest && (h.Base == nil || slices.Contains(l.deleted, h.Base.Object) || l.pruned(i)) {
			continue
		}
		if h.Base != nil {
			stray.base = Span{h.Base.Place().Revision, h.Base.Place().Revision}
		}
		missing, why := l.missing(i, h.Base)
		stray.Damage = &DamagedError{Object: missing, LastGood: l.reach(stray.First - 1), Err: damaged("%s, and nothing else leads to the changes of revisions %d to %d", why, stray.First, stray.Last)}
		l.Strays = append(l.Strays, stray)
	}
	return nil
}

// unled is how many of a run's first deltas no full leads to. One whose end is not known may be led to.
func (st *Stream) unled(fulls []Entry) int {
	n := len(st.Deltas)
	for _, f := range fulls {
		if st.First > f.Revision+1 {
			continue
		}
		for n > 0 && st.mayPass(n-1, f) {
			n--
		}
	}
	return n
}

// pruned reports whether the deltas before the i-th run were deleted on purpose.
func (l *Lineage) pruned(i int) bool {
	return i > 0 && l.Streams[i-1].Stream == l.Streams[i].Stream && l.Streams[i-1].Damage == nil
}

// missing names what is missing before the i-th run, and says so; base is the full that led to it.
func (l *Lineage) missing(i int, base *Link) (object, why string) {
	st := &l.Streams[i]
	first := st.Deltas[0]
	if i > 0 && l.Streams[i-1].Stream == st.Stream {
		before := &l.Streams[i-1]
		if before.Damage == nil {
			return missingDelta(first.Place, first.Sequence-1), "it was deleted"
		}
		return before.Damage.Object, damage.Why(before.Damage.Err)
	}
	there := slices.ContainsFunc(l.Fulls, func(f Entry) bool { return base != nil && f.Name() == base.Object })
	switch {
	case base != nil && !there:
		return base.Object, "it is missing"
	case first.Sequence > 0:
		return missingDelta(first.Place, first.Sequence-1), "no object has this sequence number"
	}
	return first.Name(), "no full that leads to it was ever stored"
}

// missingDelta is how the delta of a sequence number is called that is not there.
func missingDelta(of Place, sequence int64) string {
	name, _, _ := strings.Cut(DeltaPlace(of.Cluster, of.Lineage, of.Stream, sequence, of.Revision).Name(), fmt.Sprintf("-%020d", of.Revision))
	return name + "-*" + suffix
}

// reach is the newest revision up to one given that can be restored; 0: none.
func (l *Lineage) reach(revision int64) (reached int64) {
	for _, c := range l.Chains() {
		if c.Full.Revision <= revision {
			reached = max(reached, min(c.Last, revision))
		}
	}
	return reached
}

// after returns the damage that keeps changes after a revision from being restored; nil: none is known.
func (l *Lineage) after(revision int64) *DamagedError {
	for _, s := range l.Strays {
		if s.Last > revision {
			return s.Damage
		}
	}
	return nil
}
