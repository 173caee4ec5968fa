package backup

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// Deltas are deleted from the newest to the oldest, so that what has to stay can still be restored from: a prune that is
// killed, or has to leave something, leaves a hole before the deltas that it keeps. So it says beforehand what it is about to
// delete, in a file beside the backups. A hole that is told there is the end of what is before it, and no damage.

// filePruning names deltas, as a JSON list, that are about to be deleted or have been. The newest counts.
const filePruning FileKind = "pruning"

// hole is a run of sequence numbers that are missing in a stream; from 0: none, since a stream begins before its first hole.
type hole struct{ from, to int64 }

// explain takes holes that pruning made for what they are.
func (s *Store) explain(ctx context.Context, l *Lineage) error {
	told, err := s.readPruning(ctx, l)
	if err != nil {
		return err
	}
	type number struct{ stream, sequence int64 }
	pruned := map[number]bool{}
	for _, name := range told {
		if p, ok := ParsePlace(name); ok {
			pruned[number{p.Stream, p.Sequence}] = true
		}
	}
	for i := range l.Streams {
		st := &l.Streams[i]
		all := st.hole.from > 0 && st.hole.from <= st.hole.to
		for n := st.hole.from; all && n <= st.hole.to; n++ {
			all = pruned[number{st.Stream, n}]
		}
		if all {
			st.Damage, st.until = nil, 0
		}
	}
	return nil
}

// pruningFiles returns the names of a lineage's files of this kind, the newest last.
func (l *Lineage) pruningFiles() (names []string) {
	for _, o := range l.Files {
		if strings.Contains(o.Name, "/"+string(filePruning)+"/") {
			names = append(names, o.Name)
		}
	}
	return names
}

// readPruning returns what the newest of these files tells. One that is damaged tells nothing.
func (s *Store) readPruning(ctx context.Context, l *Lineage) (deltas []string, err error) {
	files := l.pruningFiles()
	if len(files) == 0 {
		return nil, nil
	}
	data, err := s.readFile(ctx, files[len(files)-1])
	if err != nil {
		if IsDamage(err) {
			err = nil
		}
		return nil, err
	}
	_ = json.Unmarshal(data, &deltas) // it is what its digest says: what is no list was not written here
	return deltas, nil
}

// tellPruning says what of a lineage is about to be deleted.
func (s *Store) tellPruning(ctx context.Context, l *Lineage, going []Removal) error {
	told, err := s.readPruning(ctx, l)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	for _, r := range going {
		told = append(told, r.Name)
	}
	told = l.holes(told, nil)
	if len(told) == 0 {
		return nil
	}
	data, err := json.Marshal(told)
	if err != nil {
		return err
	}
	return s.PutFile(ctx, l.Name, filePruning, data)
}

// forgetPruning removes these files of a lineage, but for the newest while it is needed. What is gone has been deleted since l
// was read.
func (s *Store) forgetPruning(ctx context.Context, l *Lineage, gone []Removal) error {
	objects, err := s.Bucket.List(ctx, s.Cluster+"/"+l.Name+"/"+string(filePruning)+"/")
	if err != nil || len(objects) == 0 {
		return err
	}
	now := Lineage{Name: l.Name, Files: objects}
	told, err := s.readPruning(ctx, &now)
	if err != nil {
		return ignoreMissingObject(err)
	}
	if len(l.holes(told, gone)) > 0 {
		objects = objects[:len(objects)-1]
	}
	for _, o := range objects {
		if err := s.Bucket.Delete(ctx, o.Name); err != nil && !errors.Is(err, ErrProtected) {
			return err
		}
	}
	return nil
}

// holes returns those deltas of this lineage that leave a hole when they are missing: with another of their stream before
// them that is not gone.
func (l *Lineage) holes(deltas []string, gone []Removal) (holes []string) {
	away := map[string]bool{}
	for _, r := range gone {
		away[r.Name] = true
	}
	first := map[int64]int64{} // of what is left of each stream
	for _, st := range l.Streams {
		for _, d := range st.Deltas {
			if f, ok := first[d.Stream]; !away[d.Name()] && (!ok || d.Sequence < f) {
				first[d.Stream] = d.Sequence
			}
		}
	}
	for _, name := range deltas {
		p, ok := ParsePlace(name)
		f, some := first[p.Stream]
		if ok && p.Kind == KindDelta && p.Lineage == l.Name && some && f < p.Sequence {
			holes = append(holes, name)
		}
	}
	slices.Sort(holes)
	return slices.Compact(holes)
}
