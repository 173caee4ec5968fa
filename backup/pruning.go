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
// delete, in a file beside the backups. A hole that is listed there is the end of what is before it, and no damage.

// filePruning lists what is about to be deleted or has been: holes, as a JSON list. The newest counts.
const filePruning FileKind = "pruning"

// tellFor is how long telling is tried again: deleting makes the room that a full target lacks for it.
const tellFor = 2 * time.Second

// hole is a run of sequence numbers in a stream, From and To among them, of which those that are missing were deleted; from 0:
// none, since a stream starts before its first hole. Or it is a full, by its name: one that was deleted although deltas that it
// led to stay.
type hole struct {
	Stream int64  `json:"stream"`
	From   int64  `json:"from"`
	To     int64  `json:"to"`
	Full   string `json:"full,omitempty"`
}

// explain takes holes that pruning made for what they are.
func (s *Store) explain(ctx context.Context, l *Lineage) error {
	told, _, err := s.readPruning(ctx, l)
	if err != nil {
		return err
	}
	for _, t := range told {
		if t.Full != "" {
			l.deleted = append(l.deleted, t.Full)
		}
	}
	for i := range l.Streams {
		st := &l.Streams[i]
		within := func(t hole) bool {
			return t.Full == "" && t.Stream == st.Stream && t.From <= st.hole.From && st.hole.To <= t.To
		}
		if st.hole.From > 0 && st.hole.From <= st.hole.To && slices.ContainsFunc(told, within) {
			st.Damage, st.until = nil, 0
		}
	}
	return nil
}

// readPruning returns what the newest of a lineage's files that count tells, merged, and its name. A damaged one counts as empty.
func (s *Store) readPruning(ctx context.Context, l *Lineage) (told []hole, newest string, err error) {
	files := slices.DeleteFunc(slices.Clone(l.Files), func(o Object) bool { return !filePruning.isOf(o.Name) || !s.isFile(o.Name) })
	newest, _, err = s.recordOf(ctx, l.Name, files)
	if err != nil || newest == "" {
		return nil, "", err
	}
	data, err := s.readFile(ctx, newest)
	if err != nil {
		if IsDamage(err) {
			err = nil
		}
		return nil, newest, err
	}
	if json.Unmarshal(data, &told) != nil {
		return nil, newest, nil // it is what its digest says: what is no such list was not written here
	}
	return merge(told), newest, nil
}

// deletion is what is to be deleted of one lineage.
type deletion struct {
	l      *Lineage        // as it was before
	going  map[string]bool // deltas, by name
	full   string          // that goes before them; "": none does
	untold error           // why it could not be told
}

// tell says what is about to be deleted. That it cannot be reported keeps nothing from being deleted.
func (s *Store) tell(ctx context.Context, l *Lineage, going []Removal, full string) deletion {
	d := deletion{l: l, going: named(going), full: full}
	before, _, err := s.readPruning(ctx, l)
	if d.untold = ignoreMissingObject(err); d.untold == nil {
		d.untold = s.putPruning(ctx, l, d.leaves(before, nil))
	}
	return d
}

// settle forgets what was reported, but for what explains a hole, or what of the deletion has still to be repeated. What could not
// be reported before is reported now. gone has been deleted.
func (s *Store) settle(ctx context.Context, d deletion, gone []Removal) error {
	objects, err := s.files(ctx, d.l.Name, filePruning)
	if err != nil {
		return err
	}
	told, newest, err := s.readPruning(ctx, &Lineage{Name: d.l.Name, Files: objects})
	if err != nil {
		return ignoreMissingObject(err)
	}
	needed := d.leaves(told, named(gone))
	if len(needed) > 0 && d.untold != nil {
		return s.putPruning(ctx, d.l, needed)
	}
	if len(needed) > 0 {
		objects = slices.DeleteFunc(objects, func(o Object) bool { return o.Name == newest })
	}
	for _, o := range objects {
		for _, name := range []string{o.Name, signatureOf(o.Name)} {
			if err := s.Bucket.Delete(ctx, name); err != nil && !errors.Is(err, ErrProtected) {
				return err
			}
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
		return fmt.Errorf("record what is pruned: %w", err)
	}
	return nil
}

// leaves returns, of what goes and of what was reported before, the numbers that leave a hole when they are missing: those with
// another of their stream before them that is not gone, without what is there to stay.
func (d deletion) leaves(before []hole, gone map[string]bool) (holes []hole) {
	there := map[int64][]Entry{} // deltas by stream
	told := slices.Clone(before)
	for _, st := range d.l.Streams {
		for _, e := range st.Deltas {
			if d.going[e.Name()] {
				told = append(told, hole{Stream: e.Stream, From: d.l.follows(e) + 1, To: e.Sequence})
			}
			if !gone[e.Name()] {
				there[e.Stream] = append(there[e.Stream], e)
			}
		}
	}
	told = merge(told)
	if d.strands(gone) {
		holes = slices.DeleteFunc(slices.Clone(told), func(h hole) bool { return h.Full == "" })
		if d.full != "" {
			holes = append(holes, hole{Full: d.full})
		}
	}
	for stream, entries := range there {
		slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Sequence, b.Sequence) })
		from := entries[0].Sequence + 1
		for _, e := range entries[1:] {
			if !d.going[e.Name()] {
				holes = append(holes, inGap(told, hole{Stream: stream, From: from, To: e.Sequence - 1})...)
				from = e.Sequence + 1
			}
		}
		holes = append(holes, inGap(told, hole{Stream: stream, From: from, To: math.MaxInt64})...)
	}
	return merge(holes)
}

// strands reports whether deltas stay that no full leads to that stays.
func (d deletion) strands(gone map[string]bool) bool {
	fulls := slices.DeleteFunc(slices.Clone(d.l.Fulls), func(f Entry) bool { return f.Name() == d.full || gone[f.Name()] })
	for i := range d.l.Streams {
		st := &d.l.Streams[i]
		if slices.ContainsFunc(st.Deltas[:st.unled(fulls)], func(e Entry) bool { return !gone[e.Name()] }) {
			return true
		}
	}
	return false
}

// inGap cuts holes to those numbers that are in a gap.
func inGap(holes []hole, gap hole) (cut []hole) {
	if gap.From > gap.To {
		return nil
	}
	for _, h := range holes {
		h.From, h.To = max(h.From, gap.From), min(h.To, gap.To)
		if h.Full == "" && h.Stream == gap.Stream && h.From <= h.To {
			cut = append(cut, h)
		}
	}
	return cut
}

// merge sorts holes and joins those that touch.
func merge(holes []hole) (merged []hole) {
	slices.SortFunc(holes, func(a, b hole) int {
		return cmp.Or(strings.Compare(a.Full, b.Full), cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.From, b.From))
	})
	for _, h := range holes {
		if n := len(merged); n > 0 && h.Full != "" && merged[n-1].Full == h.Full {
			continue
		}
		if n := len(merged); n > 0 && merged[n-1].Full == h.Full && merged[n-1].Stream == h.Stream && h.From-1 <= merged[n-1].To {
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
