package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cke"
)

// ErrUnread reports that it could not be read which incarnation is the present one, or whether backups of it were stored.
var ErrUnread = errors.New("it is not known whether backups of the cluster's present incarnation were stored")

// Records reads a cluster's incarnations and its last status, as storage.Store does.
type Records interface {
	Identity(ctx context.Context, cluster string) (cke.Identity, error)
	Status(ctx context.Context, cluster string) (cke.Status, error)
}

// missing is an ErrLost in words of its own.
type missing string

func (m missing) Error() string { return string(m) }

// Is implements the interface that errors.Is asks for.
func (m missing) Is(err error) bool { return err == ErrLost }

// errDeclared: no status shows what was stored of a cluster before it was declared to be restored.
const errDeclared = missing("it is not known whether later backups were stored, because the cluster is declared again")

// Past is what is on record of a cluster's backups. A Store needs it to find the newest state of the present incarnation.
type Past struct {
	// Lives are the recorded incarnations of the cluster, its present one first; empty: not known.
	Lives []string
	// Stored are those of Lives of which backups are known to have been stored in any target, with the newest revision that
	// those in this one led to (0: not known). A state before that must be named.
	Stored map[string]int64
	// Elsewhere are the newest revisions that backups in other targets led to, by incarnation.
	Elsewhere map[string]Elsewhere
	// Unread is why Lives or Stored could not be read; nil: they were.
	Unread error
}

// Elsewhere is a revision to which backups in another target led.
type Elsewhere struct {
	URL      string
	Revision int64
}

// OnRecord returns the past of a cluster whose backups are read from the target at a URL. A failed read never counts as if no
// backup had been stored.
func OnRecord(ctx context.Context, r Records, cluster, url string) Past {
	id, err := r.Identity(ctx, cluster)
	if err != nil {
		return Past{Unread: unlessNone(err)}
	}
	p := Past{Lives: id.BackedUpLives()}
	if len(p.Lives) == 0 {
		return p
	}
	if id.BackedUp().Incarnation.State == cke.Awaiting {
		p.Unread = errDeclared
		return p
	}
	s, err := r.Status(ctx, cluster)
	if err != nil {
		p.Unread = unlessNone(err)
		return p
	}
	p.storedIn(s.KnownTargets(nil), url)
	return p
}

// storedIn takes in what is known of all targets. One that is not known itself may be a copy of any: the highest revision counts.
func (p *Past) storedIn(all []cke.BackupTarget, url string) {
	i := slices.IndexFunc(all, func(t cke.BackupTarget) bool { return sameURL(t.URL, url) })
	here := func(t cke.BackupTarget) bool {
		return i < 0 || t.URL == all[i].URL || t.ID != "" && t.ID == all[i].ID
	}
	p.Stored, p.Elsewhere = map[string]int64{}, map[string]Elsewhere{}
	for _, life := range p.Lives {
		for _, t := range all {
			if !slices.Contains(t.Lineages, life) {
				continue
			}
			revision := t.Revisions[life]
			if here(t) {
				p.Stored[life] = max(p.Stored[life], revision)
				continue
			}
			p.Stored[life] += 0 // it is among them
			if revision > p.Elsewhere[life].Revision {
				p.Elsewhere[life] = Elsewhere{t.URL, revision}
			}
		}
	}
}

// sameURL reports whether two URLs name one target.
func sameURL(a, b string) bool {
	one, faults := cke.ParseTarget(a)
	other, more := cke.ParseTarget(b)
	one.URL, other.URL = "", ""
	return a == b || faults == nil && more == nil && one == other
}

// OfDeclared is OnRecord of a cluster that will be declared with an identity that lies beside backups.
func OfDeclared(id cke.Identity, now time.Time) Past {
	p := Past{Lives: id.Awaiting(now).BackedUpLives()}
	if len(p.Lives) > 0 {
		p.Unread = errDeclared
	}
	return p
}

func unlessNone(err error) error {
	if errors.Is(err, cke.ErrNotFound) { // the cluster was never declared, or no leader has reported yet
		return nil
	}
	return err
}

// present is the lineage of the cluster's present life, or else of the newest one before that has backups, with a doubt. ErrLost: backups of
// a later one were stored, or are not signed where others are, or are in the target and not on record. ErrUnread: that is not known.
func (s *Store) present(ctx context.Context, lineages []Lineage) (Lineage, error) {
	l, left, err := s.newestLife(ctx, lineages)
	known := len(s.Lives) > 0
	if known && l.Name != "" {
		if err := s.succeeded(ctx, lineages, left); err != nil {
			return l, err
		}
	}
	if l.Name == "" || known && l.Name == s.Lives[0] || !known && s.Unread == nil {
		return l, err
	}
	another := otherToRestore(l, lineages, left)
	if !known {
		return l, fmt.Errorf("%w (%v): %s", ErrUnread, s.Unread, another)
	}
	later := s.Lives
	if i := slices.Index(later, l.Name); i >= 0 {
		later = later[:i]
	}
	for _, life := range later {
		_, stored := s.Stored[life]
		switch which := s.named(life); {
		case slices.ContainsFunc(left, func(o Lineage) bool { return o.Name == life && len(o.Fulls) > 0 }):
			return l, missing(fmt.Sprintf("no backup of %s is signed by a trusted key, and others are: "+
				"if an earlier version of cke stored it, restore it with `--lineage %s`; %s", which, life, another))
		case stored:
			return l, fmt.Errorf("%w: %s has no backups in this target; %s", ErrLost, which, another)
		}
	}
	why := s.named(s.Lives[0]) + " has no backups in this target"
	switch {
	case errors.Is(s.Unread, ErrLost):
		return l, fmt.Errorf("%w; %s; %s", s.Unread, why, another)
	case s.Unread != nil:
		return l, fmt.Errorf("%w (%v); %s; %s", ErrUnread, s.Unread, why, another)
	}
	why += fmt.Sprintf(": this is a state of incarnation %s", l.Name)
	if slices.Contains(s.Lives, l.Name) {
		why += ", an earlier one"
	}
	if l.doubt != "" {
		why += "; " + l.doubt
	}
	l.doubt = why
	return l, err
}

// succeeded is an ErrLost if the target has backups of an incarnation that is not on record and came from the newest one on record,
// directly or through others: the record is older than the restore that made it. What was left out for lack of a signature is no
// evidence, nor are deltas without a full if no trusted key signed any.
func (s *Store) succeeded(ctx context.Context, lineages, left []Lineage) error {
	unknown := slices.DeleteFunc(slices.Clone(lineages), func(l Lineage) bool {
		out := slices.ContainsFunc(left, func(o Lineage) bool { return o.Name == l.Name })
		return out || slices.Contains(s.Lives, l.Name) || len(l.Fulls) == 0 && !l.anySigned()
	})
	origins, err := s.origins(ctx, unknown)
	if err != nil {
		return err
	}
	came := s.Lives[:1:1]
	for more := true; more; {
		more = false
		for i, o := range origins {
			if !slices.Contains(came, unknown[i].Name) && slices.ContainsFunc(came, o.Follows) {
				came, more = append(came, unknown[i].Name), true
			}
		}
	}
	if len(came) == 1 {
		return nil
	}
	last := came[len(came)-1]
	for _, life := range came {
		if !slices.ContainsFunc(origins, func(o *Origin) bool { return o.Follows(life) }) {
			last = life
		}
	}
	newest := fmt.Sprintf("to restore the newest state of %s, use `--lineage %s`", last, last)
	if !slices.ContainsFunc(unknown, func(l Lineage) bool { return l.Name == last && len(l.Fulls) > 0 }) {
		newest = fmt.Sprintf("%s has only deltas, which need a full to start from", last)
	}
	return missing(fmt.Sprintf("incarnation %s has backups in this target and was restored from %s, which is the cluster's present one on record: "+
		"the store of cke is older than that restore; %s; to restore a state of %s, use `--lineage %s`",
		last, s.Lives[0], newest, s.Lives[0], s.Lives[0]))
}

// checkTail refuses the newest state of a lineage, or a time that stands for it, if later revisions are known to have been
// stored in this target. If the lineage or the state is named, that is a note, as it is if they were stored in another target.
func (s *Store) checkTail(t *target, at At, named bool) error {
	last := t.revision
	for _, c := range t.lineage.Chains() {
		last = max(last, c.Last)
	}
	state := at.Full != "" || at.Revision > 0
	if last > t.revision && !state {
		return nil // a time before the end
	}
	name := t.lineage.Name
	if other := s.Elsewhere[name]; other.Revision > last {
		t.notes = append(t.notes, fmt.Sprintf("backups of incarnation %s in another target, %s, were stored up to revision %d, and those in this target lead only to revision %d", name, other.URL, other.Revision, last))
	}
	stored := s.Stored[name]
	if last >= stored {
		return nil
	}
	why := fmt.Sprintf("backups of incarnation %s were stored up to revision %d, and those in this target lead only to revision %d", name, stored, last)
	if named || state {
		t.notes = append(t.notes, why)
		return nil
	}
	return missing(fmt.Sprintf("%s; to restore revision %d all the same, use `--lineage %s`", why, t.revision, name))
}

// otherToRestore says which incarnation can be restored if not the one that is missing: l, or else the newest that has a full and is not left out.
func otherToRestore(l Lineage, lineages, left []Lineage) string {
	if len(l.Fulls) == 0 {
		counts := func(o Lineage) bool {
			return len(o.Fulls) > 0 && !slices.ContainsFunc(left, func(out Lineage) bool { return out.Name == o.Name })
		}
		for _, o := range slices.Backward(lineages) {
			if counts(o) {
				return fmt.Sprintf("incarnation %s has only deltas; to restore a state of another one, use `--lineage %s`", l.Name, o.Name)
			}
		}
		return fmt.Sprintf("incarnation %s has only deltas, which need a full to start from", l.Name)
	}
	return fmt.Sprintf("to restore a state of another one, use `--lineage %s`", l.Name)
}

// named is what an incarnation on record is called in a message.
func (s *Store) named(life string) string {
	if life == s.Lives[0] {
		return "the cluster's present incarnation, " + life + ","
	}
	return "a later incarnation of the cluster, " + life + ","
}
