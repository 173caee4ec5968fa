package backup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Deltas are deleted from the newest to the oldest, so that what has to stay can still be restored from: a prune that is
// killed, or has to leave something, leaves a hole before the deltas that it keeps. So it says beforehand what it is about to
// delete, in a file beside the backups. A hole that is told there is the end of what is before it, and no damage.

// filePruning tells what is about to be deleted or has been: holes, as a JSON list. The newest counts.
const filePruning FileKind = "pruning"

// tellFor is how long telling is tried again: deleting makes the room that a full target lacks for it.
const tellFor = 2 * time.Second

// hole is a run of sequence numbers in a stream, From and To among them, of which those that are missing were deleted; from 0:
// none, since a stream begins before its first hole.
type hole struct {
	Stream int64 `json:"stream"`
	From   int64 `json:"from"`
	To     int64 `json:"to"`
}

// explain takes holes that pruning made for what they are.
func (s *Store) explain(ctx context.Context, l *Lineage) error {
	told, err := s.readPruning(ctx, l)
	if err != nil {
		return err
	}
	for i := range l.Streams {
		st := &l.Streams[i]
		within := func(t hole) bool { return t.Stream == st.Stream && t.From <= st.hole.From && st.hole.To <= t.To }
		if st.hole.From > 0 && st.hole.From <= st.hole.To && slices.ContainsFunc(told, within) {
			st.Damage, st.until = nil, 0
		}
	}
	return nil
}

// readPruning returns what the newest of a lineage's files tells, merged. One that is damaged tells nothing.
func (s *Store) readPruning(ctx context.Context, l *Lineage) (told []hole, err error) {
	newest := ""
	for _, o := range l.Files {
		if strings.Contains(o.Name, "/"+string(filePruning)+"/") {
			newest = o.Name
		}
	}
	if newest == "" {
		return nil, nil
	}
	data, err := s.readFile(ctx, newest)
	if err != nil {
		if IsDamage(err) {
			err = nil
		}
		return nil, err
	}
	if json.Unmarshal(data, &told) != nil {
		return nil, nil // it is what its digest says: what is no such list was not written here
	}
	return merge(told), nil
}

// deletion is what is to be deleted of one lineage.
type deletion struct {
	l      *Lineage        // as it was before
	going  map[string]bool // by name
	untold error           // why it could not be told
}

// tell says what is about to be deleted. That it cannot be told keeps nothing from being deleted.
func (s *Store) tell(ctx context.Context, l *Lineage, going []Removal) deletion {
	d := deletion{l: l, going: named(going)}
	before, err := s.readPruning(ctx, l)
	if d.untold = ignoreMissingObject(err); d.untold == nil {
		d.untold = s.putPruning(ctx, l, d.leaves(before, nil))
	}
	return d
}

// settle forgets what was told, but for what explains a hole, or what of the deletion has still to be repeated. What could not
// be told before is told now. gone has been deleted.
func (s *Store) settle(ctx context.Context, d deletion, gone []Removal) error {
	objects, err := s.Bucket.List(ctx, s.Cluster+"/"+d.l.Name+"/"+string(filePruning)+"/")
	if err != nil {
		return err
	}
	told, err := s.readPruning(ctx, &Lineage{Files: objects})
	if err != nil {
		return ignoreMissingObject(err)
	}
	needed := d.leaves(told, named(gone))
	if len(needed) > 0 && d.untold != nil {
		return s.putPruning(ctx, d.l, needed)
	}
	if len(needed) > 0 && len(objects) > 0 {
		objects = objects[:len(objects)-1]
	}
	for _, o := range objects {
		if err := s.Bucket.Delete(ctx, o.Name); err != nil && !errors.Is(err, ErrProtected) {
			return err
		}
	}
	return nil
}

func (s *Store) putPruning(ctx context.Context, l *Lineage, told []hole) error {
	if len(told) == 0 {
		return nil
	}
	data, err := json.Marshal(told)
	if err != nil {
		return err
	}
	brief := *s
	brief.Retry.For = min(cmp.Or(brief.Retry.For, tellFor), tellFor)
	if err := brief.PutFile(ctx, l.Name, filePruning, data); err != nil {
		return fmt.Errorf("tell what is pruned: %w", err)
	}
	return nil
}

// leaves returns, of what goes and of what was told before, the numbers that leave a hole when they are missing: those with
// another of their stream before them that is not gone, without what is there to stay.
func (d deletion) leaves(before []hole, gone map[string]bool) (holes []hole) {
	there := map[int64][]Entry{} // deltas by stream
	told := slices.Clone(before)
	for _, st := range d.l.Streams {
		for _, e := range st.Deltas {
			if d.going[e.Name()] {
				told = append(told, hole{e.Stream, e.Sequence, e.Sequence})
			}
			if !gone[e.Name()] {
				there[e.Stream] = append(there[e.Stream], e)
			}
		}
	}
	told = merge(told)
	for stream, entries := range there {
		slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Sequence, b.Sequence) })
		from := entries[0].Sequence + 1
		for _, e := range entries[1:] {
			if !d.going[e.Name()] {
				holes = append(holes, inGap(told, hole{stream, from, e.Sequence - 1})...)
				from = e.Sequence + 1
			}
		}
		holes = append(holes, inGap(told, hole{stream, from, math.MaxInt64})...)
	}
	return merge(holes)
}

// inGap cuts holes to those numbers that are in a gap.
func inGap(holes []hole, gap hole) (cut []hole) {
	if gap.From > gap.To {
		return nil
	}
	for _, h := range holes {
		h.From, h.To = max(h.From, gap.From), min(h.To, gap.To)
		if h.Stream == gap.Stream && h.From <= h.To {
			cut = append(cut, h)
		}
	}
	return cut
}

// merge sorts holes and joins those that touch.
func merge(holes []hole) (merged []hole) {
	slices.SortFunc(holes, func(a, b hole) int { return cmp.Or(cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.From, b.From)) })
	for _, h := range holes {
		if n := len(merged); n > 0 && merged[n-1].Stream == h.Stream && h.From-1 <= merged[n-1].To {
			merged[n-1].To = max(merged[n-1].To, h.To)
			continue
		}
		merged = append(merged, h)
	}
	return merged
}

// named is a set of names.
func named(removals []Removal) map[string]bool {
	names := make(map[string]bool, len(removals))
	for _, r := range removals {
		names[r.Name] = true
	}
	return names
}
