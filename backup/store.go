package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	"golang.org/x/sync/errgroup"

	"cke/internal/contain"
)

// Store reads and maintains the backups of one cluster in a bucket. Its fields must not change while it is used; it is
// safe for concurrent use.
type Store struct {
	Bucket  Bucket
	Cluster string
	// Identities decrypt encrypted backups; without them everything works that does not read bodies.
	Identities []age.Identity
	// Signer signs what is written; nil: it is not signed.
	Signer *Signer
	// Trusted are the keys with which objects to restore from must be signed; empty: it is unknown which keys to trust.
	// Objects written before the first signed one are read anyway.
	Trusted []PublicKey
	// AllowUntrusted reads objects that are not signed by a trusted key. Only the operator may decide that.
	AllowUntrusted bool
	// Verdicts caches which key signed what; nil: every listing reads the headers that it needs.
	Verdicts *Verdicts
	// Past is what is on record of the cluster; its zero value: nothing is known.
	Past
	// Prunable are the incarnations of which Prune may delete something; nil: all. Others count for nothing in the retention.
	Prunable []string
	// Ordered returns ErrBusy while a restore from these backups is requested or under way, see Ordered: nothing is deleted
	// then, nor if it fails. nil: it is not known what is requested.
	Ordered func(ctx context.Context) error
	// Guard is called before a file is written; its error prevents that. nil: nothing does.
	Guard func() error
	// Whole remembers what was read whole, so that Prune and Delete need not read it again; nil: nothing is known.
	Whole *Whole
	// Scratch is a directory for working copies of databases; empty: the system's temporary directory.
	Scratch string
	// Retry bounds how writing to the bucket is repeated.
	Retry Retry
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// Holder names who reads or deletes, for those who wait for that; empty: this process and host.
	Holder string
	// Plain makes bbolt, instead of package pages, write every record that Extract, Compact and Drill add to a database:
	// slower, with the same content. It is the fallback if a fault is found in pages, see docs/decisions/0015; tests
	// compare both.
	Plain bool
	// LockTTL is how long a lock is valid without renewal; zero: DefaultLockTTL. All users of a bucket must agree on it.
	LockTTL time.Duration
}

// parallel is how many requests to a bucket are under way at once.
const parallel = 8

func (s *Store) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

// Entry is one backup object.
type Entry struct {
	Place
	Size    int64     `json:"size"`
	ModTime time.Time `json:"modTime"`
}

// Stream is an unbroken run of deltas. If objects are missing, the deltas after them are a separate run.
type Stream struct {
	// Stream is the name that the deltas share; First is the first revision they still hold.
	Stream int64   `json:"stream"`
	First  int64   `json:"first"`
	Deltas []Entry `json:"deltas"`
	// Last is the newest revision in the run, from the header of its last delta.
	Last int64 `json:"last"`
	// End is when the change of revision Last was received; zero if unknown.
	End time.Time `json:"end"`
	// Tail is the header of the last delta; zero if it is damaged.
	Tail Header `json:"-"`
	// Damage is why the run ends too early; nil: no cause is known.
	Damage *DamagedError `json:"-"`
	// until is the revision with which the deltas continue after the damage; 0: they do not.
	until int64
	// hole is what is missing between this run and the next.
	hole hole
	// ends are the newest revisions of deltas by name, from their own headers. Only known of those that were about to be deleted.
	ends map[string]int64
}

// Lineage holds the backups of one incarnation of the cluster.
type Lineage struct {
	Name    string   `json:"name"`
	Fulls   []Entry  `json:"fulls"`   // by revision, then time
	Streams []Stream `json:"streams"` // by first revision
	// Strays are the deltas that cannot be restored because what leads to them is missing.
	Strays []Stray `json:"-"`
	// useless are fulls that nothing can be restored from, by name, and why; failing is why nothing may be deleted. Only known where backups are pruned.
	useless map[string]string
	failing string
	broken  map[string]error // deltas that were read and are damaged or missing, by name, and why
	// doubt is why it is not certain that this is the newest lineage; "": it is, or was named.
	doubt string
	// newestAt are the deltas that were the newest when fulls were started, by the fulls' names. Only known where it decides.
	newestAt map[string]Place
	// deleted are fulls that were deleted although deltas stay that they led to, by name.
	deleted []string
	// Untrusted are objects that do not count, since they are not signed by a trusted key and others are.
	Untrusted []Untrusted `json:"-"`
	*sifted
	// Files are the other objects: specs, identities, marks of verification.
	Files []Object `json:"files,omitempty"`
}

// Clusters returns the names of the clusters that have backups in a bucket.
func Clusters(ctx context.Context, b Bucket) ([]string, error) {
	objects, err := b.List(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("list backups: %w", err)
	}
	var names []string
	for _, o := range objects {
		if p, ok := ParsePlace(o.Name); ok {
			names = append(names, p.Cluster)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Lineages returns the backups of all incarnations of the cluster, the newest last. It lists names, and reads one header
// for each stream; if it is known which keys to trust, more, see vet.
func (s *Store) Lineages(ctx context.Context) ([]Lineage, error) {
	for range lookAgain {
		// What is pruned meanwhile is in the listing and no longer in the store.
		if lineages, err := s.look(ctx); !errors.Is(err, ErrNotFound) {
			return lineages, err
		}
	}
	lineages, err := s.look(ctx)
	if errors.Is(err, ErrNotFound) { // that is no answer to what a caller searches for
		err = fmt.Errorf("the target does not have what it lists: %v", err)
	}
	return lineages, err
}

// lookAgain is how often a listing is repeated that was outdated before it was read.
const lookAgain = 4

func (s *Store) look(ctx context.Context) ([]Lineage, error) {
	lineages, err := s.names(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.complete(ctx, lineages); err != nil {
		return nil, err
	}
	sortLineages(lineages)
	return lineages, nil
}

// complete takes out what counts for nothing, and finds out what names do not show.
func (s *Store) complete(ctx context.Context, lineages []Lineage) error {
	for i := range lineages {
		if _, err := s.vet(ctx, &lineages[i], edges); err != nil {
			return err
		}
	}
	return s.finish(ctx, lineages)
}

// finish finds out what names do not show of runs and their ends.
func (s *Store) finish(ctx context.Context, lineages []Lineage) error {
	for i := range lineages {
		if err := s.explain(ctx, &lineages[i]); err != nil {
			return err
		}
	}
	g, reading := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i := range lineages {
		for j := range lineages[i].Streams {
			g.Go(contain.Err(func() error { return s.findEnd(reading, &lineages[i], &lineages[i].Streams[j]) }))
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i := range lineages {
		if err := s.readNewestAt(ctx, &lineages[i]); err != nil {
			return err
		}
		if err := lineages[i].findStrays(func(e Entry) (Header, error) { return s.headerIn(ctx, &lineages[i], e) }); err != nil {
			return err
		}
	}
	return nil
}

// Lineage returns the backups of one incarnation; empty if there are none of that name.
func (s *Store) Lineage(ctx context.Context, name string) (Lineage, error) {
	lineages, err := s.Lineages(ctx)
	if err != nil {
		return Lineage{}, err
	}
	for _, l := range lineages {
		if l.Name == name {
			return l, nil
		}
	}
	return Lineage{Name: name}, nil
}

// WithoutBogus returns l without the objects that, by their names, hold revisions after a given one, but are not backups:
// their headers are damaged. bogus names these. As long as one such object is sound, all stay.
func (s *Store) WithoutBogus(ctx context.Context, l Lineage, revision int64) (rest Lineage, bogus []*DamagedError, err error) {
	var later []Entry
	for _, e := range l.entries() {
		if e.Revision > revision {
			later = append(later, e)
		}
	}
	slices.SortFunc(later, func(a, b Entry) int { return cmp.Compare(b.Revision, a.Revision) })
	for _, e := range later {
		_, err := ReadHeader(ctx, s.Bucket, e.Place)
		err = s.judgeFormat(err)
		switch {
		case err == nil:
			return l, nil, nil
		case !IsDamage(err):
			return l, nil, err
		}
		bogus = append(bogus, &DamagedError{Object: e.Name(), LastGood: revision, Err: err})
	}
	if len(bogus) == 0 {
		return l, nil, nil
	}
	rest = Lineage{Name: l.Name, Files: l.Files}
	for _, e := range l.entries() {
		if e.Revision <= revision {
			rest.add(Object{Name: e.Name(), Size: e.Size, ModTime: e.ModTime})
		}
	}
	rest.order()
	one := []Lineage{rest}
	err = s.complete(ctx, one)
	one[0].Untrusted = append(one[0].Untrusted, l.Untrusted...)
	return one[0], bogus, err
}

// entries are the backups of a lineage: its fulls, then its deltas.
func (l *Lineage) entries() []Entry {
	all := slices.Clone(l.Fulls)
	for _, st := range l.Streams {
		all = append(all, st.Deltas...)
	}
	return all
}

// names sorts a listing.
func (s *Store) names(ctx context.Context) ([]Lineage, error) {
	objects, err := s.Bucket.List(ctx, s.Cluster+"/")
	if err != nil {
		return nil, fmt.Errorf("list backups of %s: %w", s.Cluster, err)
	}
	byName := map[string]*Lineage{}
	for i, o := range objects {
		if i > 0 && o.Name == objects[i-1].Name {
			continue // a listing of several pages may repeat an object
		}
		parts := strings.Split(o.Name, "/")
		if len(parts) < 3 {
			continue
		}
		l := byName[parts[1]]
		if l == nil {
			l = &Lineage{Name: parts[1]}
			byName[parts[1]] = l
		}
		l.add(o)
	}
	lineages := make([]Lineage, 0, len(byName))
	for _, l := range byName {
		l.order()
		lineages = append(lineages, *l)
	}
	sortLineages(lineages)
	return lineages, nil
}

// sortLineages puts the newest one last, as far as clocks show which that is.
func sortLineages(lineages []Lineage) {
	slices.SortFunc(lineages, func(a, b Lineage) int {
		return cmp.Or(a.Newest().Compare(b.Newest()), strings.Compare(a.Name, b.Name))
	})
}

// order sorts what was added, and splits streams where deltas are missing.
func (l *Lineage) order() {
	slices.SortFunc(l.Fulls, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), a.Time.Compare(b.Time))
	})
	var split []Stream
	for _, st := range l.Streams {
		split = append(split, l.runs(st.Deltas)...)
	}
	l.Streams = split
	slices.SortFunc(l.Streams, func(a, b Stream) int { return cmp.Compare(a.First, b.First) })
}

func (l *Lineage) add(o Object) {
	p, ok := ParsePlace(o.Name)
	if !ok {
		if !strings.HasPrefix(path.Base(o.Name), ".") {
			l.Files = append(l.Files, o)
		}
		return
	}
	e := Entry{Place: p, Size: o.Size, ModTime: o.ModTime}
	if p.Kind == KindFull {
		l.Fulls = append(l.Fulls, e)
		return
	}
	i := slices.IndexFunc(l.Streams, func(s Stream) bool { return s.Stream == p.Stream })
	if i < 0 {
		l.Streams = append(l.Streams, Stream{Stream: p.Stream})
		i = len(l.Streams) - 1
	}
	l.Streams[i].Deltas = append(l.Streams[i].Deltas, e) // the listing is sorted
}

// runs splits the deltas of a stream at every hole in their sequence, and at what is known to be damaged.
func (l *Lineage) runs(deltas []Entry) []Stream {
	st := []Stream{{Stream: deltas[0].Stream, First: deltas[0].Revision}}
	for i, d := range deltas {
		run := &st[len(st)-1]
		if i > 0 && l.breaks(run, deltas[i-1], d) {
			run.until = d.Revision
			st = append(st, Stream{Stream: d.Stream, First: d.Revision})
			run = &st[len(st)-1]
		}
		run.Deltas = append(run.Deltas, d)
	}
	return st
}

// breaks reports whether a run ends between two deltas, and enters why.
func (l *Lineage) breaks(run *Stream, before, next Entry) bool {
	var is, follows verdict
	if l.sifted != nil {
		is, follows = l.seen[before.Name()], l.seen[next.Name()]
	}
	linked := l.signed(next) && follows.after == before.Name() && is.last+1 == next.Revision
	switch {
	case is.bad != nil:
		run.Damage = &DamagedError{Object: before.Name(), Err: is.bad}
	case linked: // numbers between them are taken by what counts for nothing
		return false
	case next.Sequence != before.Sequence+1 || next.Revision <= before.Revision:
		run.hole = hole{Stream: next.Stream, From: before.Sequence + 1, To: l.follows(next)}
		run.Damage = &DamagedError{Object: missingDelta(next.Place, before.Sequence+1), Err: damaged("no object has this sequence number")}
	case is.last > 0 && is.last+1 != next.Revision:
		run.Damage = &DamagedError{Object: next.Name(), Err: damaged("it starts at revision %d, but the delta before ends at %d", next.Revision, is.last)}
	default:
		return false
	}
	return true
}

// follows is the number of the delta before one: those between them, which a signed delta leaves out, were passed over and never written.
func (l *Lineage) follows(e Entry) int64 {
	if l.signed(e) {
		if p, _ := ParsePlace(l.seen[e.Name()].after); p.Kind == KindDelta && p.Stream == e.Stream && p.Sequence < e.Sequence {
			return p.Sequence
		}
	}
	return e.Sequence - 1
}

// findEnd finds how far an unbroken run of deltas goes: to the end of the last one that is sound.
func (s *Store) findEnd(ctx context.Context, l *Lineage, st *Stream) error {
	st.Last = st.First - 1
	for _, d := range slices.Backward(st.Deltas) {
		h, err := s.headerIn(ctx, l, d)
		if err == nil {
			st.Last, st.End, st.Tail = h.Last, h.End, h
			break
		}
		if !IsDamage(err) {
			return err
		}
		st.Damage = &DamagedError{Object: d.Name(), Err: err}
	}
	return nil
}
