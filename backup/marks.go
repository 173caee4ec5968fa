package backup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"cke"
)

// Verified is a mark that a backup was restored to scratch and found correct.
type Verified struct {
	Full     string    `json:"full"` // ID
	Revision int64     `json:"revision"`
	At       time.Time `json:"at"`
	// HashChecked means that etcd's own hash was also equal, of this revision or of the newest before that has one.
	HashChecked bool `json:"hashChecked"`
	// HashRevision is the revision of that hash; 0: not recorded by an earlier version, or no hash was compared.
	HashRevision int64 `json:"hashRevision,omitempty"`
	// Booted is the version of an etcd that started on it and answered; empty: none did.
	Booted string `json:"booted,omitempty"`
	// Named means that the operator named the state, so the mark does not show whether the newest one can be restored.
	Named bool `json:"named,omitempty"`
	// Wrong are fulls, by ID, that were found to be damaged, or to differ from what the cluster held. They remain so
	// while they exist, until a drill of the newest state proves one correct.
	Wrong []string `json:"wrong,omitempty"`
	// Damaged are those of Wrong of which nothing is known but that their bytes are damaged: what their headers say of the cluster counts.
	Damaged []string `json:"damaged,omitempty"`
	// HashProved is the full, by ID, that a drill of the newest state last found equal to a hash and none found wrong
	// since: a drill that has no hash to compare with proves less.
	HashProved string `json:"hashProved,omitempty"`
	// Proved is when a drill of the newest state last succeeded and skipped no newer full; zero: none is known. Only
	// LastVerified sets it.
	Proved time.Time `json:"-"`
}

// PassedOver returns the newest full, by ID, that was found wrong and is newer than the one that was restored from; empty
// if there is none.
func (v Verified) PassedOver() string {
	if id := slices.Max(append(slices.Clone(v.Wrong), "")); id > v.Full {
		return id
	}
	return ""
}

// mostMarks bounds how many marks of a kind are read. Each has what those before it call wrong; only of drills that end at once none has what the
// others found.
const mostMarks = 10

// drilled is what the marks of a lineage's drills say together.
type drilled struct {
	last    *Verified // the newest drill that succeeded, of whatever state; nil: there is none
	proved  time.Time // when one of the newest state succeeded from the newest full; zero: none is known
	wrong   []string  // fulls, by ID
	damaged []string  // as Damaged
	hashed  string    // as HashProved
	failing bool      // the last drill of the newest state failed
	trouble *mark     // of that drill, if it failed or passed over the newest full; nil: it did neither
	damage  error     // of the newest mark of a success
	lost    bool      // what that one protects is not known; false: it is sound, or anybody's
}

// mark is what one drill left.
type mark struct {
	kind FileKind
	at   time.Time // of its name: by the order of these, whatever the clock was put to
	Verified
	Problem  string `json:"problem"` // as of failure
	ReadBack bool   `json:"readBack"`
}

// drills reads the marks that count.
func (s *Store) drills(ctx context.Context, lineage string) (d drilled, err error) {
	verified, damage, ours, err := s.marks(ctx, lineage, fileVerified)
	if err != nil {
		return d, err
	}
	failed, _, _, err := s.marks(ctx, lineage, fileFailed)
	if err != nil {
		return d, err
	}
	d.damage, d.lost = damage, ours
	all := slices.SortedStableFunc(slices.Values(append(failed, verified...)), func(a, b mark) int { return a.at.Compare(b.at) })
	for _, m := range all {
		switch {
		case m.kind == fileFailed && m.ReadBack: // it says what is wrong, and nothing of a drill
		case m.kind == fileFailed:
			d.failing, d.trouble = true, &m
		default:
			if d.last = &m.Verified; m.Named {
				break
			}
			d.failing, d.trouble = false, &m
			if m.PassedOver() == "" {
				d.proved, d.trouble = m.At, nil
			}
		}
		d.damaged = m.damagedAfter(d.damaged)
		d.wrong = m.wrongAfter(d.wrong)
	}
	for _, m := range all {
		if id := m.hashed(); id != "" && !slices.Contains(d.wrong, id) {
			d.hashed = id
		}
	}
	return d, nil
}

// hashed is HashProved, or what a mark of an earlier version says of it.
func (v Verified) hashed() string {
	if v.HashChecked && !v.Named {
		return v.Full
	}
	return v.HashProved
}

// wrongAfter is what is known to be wrong after a drill.
func (v Verified) wrongAfter(before []string) []string {
	wrong := slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(before), v.Wrong...))))
	proves := v.Full != "" && v.HashChecked && !v.Named // a hash of an older state may be from before what is wrong
	return slices.DeleteFunc(wrong, func(id string) bool { return proves && id == v.Full })
}

// damagedAfter is which of these fulls are known to be damaged, and not to be wrong otherwise, after a drill. Its mark has all that was known by then.
func (v Verified) damagedAfter(before []string) []string {
	other := func(id string) bool { return slices.Contains(v.Wrong, id) && !slices.Contains(v.Damaged, id) }
	return slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(before), v.Damaged...)))), other)
}

// withBefore adds to what a drill found what was known before. A full that was found wrong by its data before is not just damaged.
func (v Verified) withBefore(d drilled) Verified {
	v.Damaged = slices.DeleteFunc(v.damagedAfter(d.damaged), func(id string) bool {
		return slices.Contains(d.wrong, id) && !slices.Contains(d.damaged, id)
	})
	v.Wrong = v.wrongAfter(d.wrong)
	return v
}

// marks reads the newest marks of a kind that count. damage is that of the newest one, which counts for nothing then; ours: that one was a mark of cke,
// as far as anybody judges.
func (s *Store) marks(ctx context.Context, lineage string, kind FileKind) (marks []mark, damage error, ours bool, err error) {
	objects, err := s.files(ctx, lineage, kind)
	if err != nil {
		return nil, nil, false, err
	}
	for n := range mostMarks {
		name, trusted, err := s.recordOf(ctx, lineage, objects)
		if err != nil || name == "" || n > 0 && s.judges() && !trusted {
			return marks, damage, ours, err
		}
		m := mark{kind: kind, at: timeOf(name)}
		data, err := s.readFile(ctx, name)
		if err = s.confirmed(ctx, name, err); errors.Is(err, errListed) {
			err = &DamagedError{Object: name, Err: damaged("%w", err)}
		}
		if err == nil {
			if bad := json.Unmarshal(data, &m); bad != nil {
				err = &DamagedError{Object: name, Err: damaged("it is not a mark of a restore drill: %w", bad)}
			}
		}
		if err != nil && !IsDamage(err) && !errors.Is(err, ErrNotFound) {
			return nil, nil, false, err
		}
		if IsDamage(err) && n == 0 {
			damage, ours = err, trusted || !s.judges()
		}
		if s.judges() && !trusted {
			m.Wrong, m.Damaged, m.HashProved, m.Problem, m.ReadBack = nil, nil, "", "", false // anybody's; what it says of others would count for nothing
		}
		if err == nil || IsDamage(err) && kind == fileFailed { // that a drill failed its name says
			marks = append(marks, m)
		}
		objects = slices.DeleteFunc(objects, func(o Object) bool { return o.Name >= name })
		objects = objects[max(0, len(objects)-keptFiles):] // anybody can put more there
	}
	return marks, damage, ours, nil
}

// LastVerified returns the newest mark of an incarnation, with all fulls that are known to be wrong by now; nil without
// one. The error may be the damage of a newer mark.
func (s *Store) LastVerified(ctx context.Context, lineage string) (*Verified, error) {
	v, _, err := s.LastDrills(ctx, lineage)
	return v, err
}

// LastDrills returns LastVerified, and the problem of the last drill of the newest state: it failed, or skipped the
// newest full; nil: neither.
func (s *Store) LastDrills(ctx context.Context, lineage string) (v *Verified, trouble, err error) {
	d, err := s.drills(ctx, lineage)
	if err != nil {
		return nil, nil, err
	}
	if m := d.trouble; m != nil {
		what := cmp.Or(m.Problem, "its problem is not recorded")
		if m.kind == fileVerified {
			what = ofNoUse(m.PassedOver())
		}
		trouble = &cke.Error{Code: cke.CodeBackupDamaged, What: fmt.Sprintf("the restore drill of %s: %s", m.at.UTC().Format(time.RFC3339), what)}
	}
	return d.verified(), trouble, d.damage
}

func (d drilled) verified() *Verified {
	if d.last == nil {
		return nil
	}
	v := *d.last
	v.Wrong, v.Damaged, v.Proved, v.HashProved = d.wrong, d.damaged, d.proved, d.hashed
	return &v
}

// putMark stores the outcome of a drill under a name that is newer than that of the newest with the opposite one.
func (s *Store) putMark(ctx context.Context, lineage string, kind, opposite FileKind, t time.Time, mark any) error {
	data, err := json.Marshal(mark)
	if err != nil {
		return err
	}
	other, signed, err := s.record(ctx, lineage, opposite)
	if err != nil {
		return err
	}
	name, _, _, err := s.nextFile(ctx, lineage, kind, s.afterFile(other, signed, t), data)
	if err != nil {
		return err
	}
	return s.put(ctx, name, data)
}

// markVerified records that a drill succeeded, with all that is known to be wrong and still there, and forgets that one before failed if this was one of the
// newest state.
func (s *Store) markVerified(ctx context.Context, lineage string, v Verified) error {
	d, err := s.drills(ctx, lineage)
	if err != nil {
		return err
	}
	v.HashProved = cmp.Or(v.hashed(), d.hashed)
	v = v.withBefore(d)
	if v.Wrong, err = s.stillThere(ctx, lineage, v.Wrong); err != nil {
		return err
	}
	v.Damaged = slices.DeleteFunc(v.Damaged, func(id string) bool { return !slices.Contains(v.Wrong, id) })
	if err := s.putMark(ctx, lineage, fileVerified, fileFailed, v.At, v); err != nil || v.Named {
		return err
	}
	objects, err := s.files(ctx, lineage, fileFailed)
	for _, o := range objects {
		if s.Signer == nil && s.hasSignature(ctx, o.Name) {
			continue // who signs does not count this drill
		}
		for _, name := range []string{o.Name, signatureOf(o.Name)} {
			if gone := s.Bucket.Delete(ctx, name); refusesDeletion(gone) {
				return err // the newer record counts
			} else if gone != nil {
				err = errors.Join(err, gone)
			}
		}
	}
	return err
}

// stillThere are those of some fulls that have not been deleted.
func (s *Store) stillThere(ctx context.Context, lineage string, ids []string) (there []string, err error) {
	objects, err := s.Bucket.List(ctx, fmt.Sprintf("%s/%s/%s/", s.Cluster, lineage, KindFull))
	for _, o := range objects {
		if p, ok := ParsePlace(o.Name); ok && slices.Contains(ids, p.ID()) {
			there = append(there, p.ID())
		}
	}
	return there, err
}

// hasSignature reports whether a file is signed.
func (s *Store) hasSignature(ctx context.Context, file string) bool {
	r, err := s.Bucket.Open(ctx, signatureOf(file), 0, 1)
	if err == nil {
		r.Close()
	}
	return !errors.Is(err, ErrNotFound)
}

// failure is what a drill leaves that failed because of what is in the store.
type failure struct {
	At      time.Time `json:"at"`
	Problem string    `json:"problem"`
	Wrong   []string  `json:"wrong,omitempty"`   // as of Verified
	Damaged []string  `json:"damaged,omitempty"` // as of Verified
	// ReadBack: no drill failed, a full was read whole and is damaged. Earlier versions prune nothing until a drill succeeds.
	ReadBack bool `json:"readBack,omitempty"`
}

// markFailed records that a drill of the newest state failed: nothing is pruned until one succeeds. wrong are fulls that it found wrong, and damaged those
// of them whose bytes are damaged.
func (s *Store) markFailed(ctx context.Context, lineage string, why error, wrong, damaged []string) error {
	d, err := s.drills(ctx, lineage)
	if err != nil || d.failing && !slices.ContainsFunc(wrong, func(id string) bool { return !slices.Contains(d.wrong, id) }) {
		return err
	}
	return s.putFailure(ctx, lineage, d, failure{Problem: why.Error(), Wrong: wrong, Damaged: damaged})
}

// MarkDamaged records that a full was read whole and is damaged: it counts for nothing from now on, as if a drill had found it wrong.
func (s *Store) MarkDamaged(ctx context.Context, full Entry, why error) error {
	d, err := s.drills(ctx, full.Lineage)
	if err != nil || slices.Contains(d.wrong, full.ID()) {
		return err
	}
	return s.putFailure(ctx, full.Lineage, d, failure{Problem: why.Error(), Wrong: []string{full.ID()}, Damaged: []string{full.ID()}, ReadBack: !d.failing})
}

func (s *Store) putFailure(ctx context.Context, lineage string, before drilled, f failure) error {
	v := Verified{Wrong: f.Wrong, Damaged: f.Damaged}.withBefore(before)
	f.At, f.Wrong, f.Damaged = s.now().UTC(), v.Wrong, v.Damaged
	return s.putMark(ctx, lineage, fileFailed, fileVerified, f.At, f)
}
