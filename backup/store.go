package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"filippo.io/age"
	"golang.org/x/sync/errgroup"
)

// Store reads and tends the backups of one cluster in a bucket. Its fields must not change while it is used; it is
// safe for concurrent use.
type Store struct {
	Bucket  Bucket
	Cluster string
	// Identities open encrypted backups; without them everything works that does not look into bodies.
	Identities []age.Identity
	// Scratch is a directory for working copies of databases; empty: the system's temporary directory.
	Scratch string
	// Retry bounds how writing to the bucket is tried again.
	Retry Retry
	// Now is the clock; nil: time.Now.
	Now func() time.Time
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

// Stream is an unbroken run of deltas. Where objects are missing, what follows is a run of its own.
type Stream struct {
	// Stream is the name that the deltas share; First the first revision they still hold.
	Stream int64   `json:"stream"`
	First  int64   `json:"first"`
	Deltas []Entry `json:"deltas"`
	// Last is the newest revision in the run, from the header of its last delta.
	Last int64 `json:"last"`
	// End is when the change of revision Last was received; zero if unknown.
	End time.Time `json:"end"`
	// Damage tells what ends the run too early; nil: nothing known.
	Damage *DamagedError `json:"-"`
	// until is the revision with which the deltas go on after the damage; 0: they do not.
	until int64
	// hole is what is missing between this run and the next.
	hole hole
}

// Lineage is what one incarnation of the cluster left behind.
type Lineage struct {
	Name    string   `json:"name"`
	Fulls   []Entry  `json:"fulls"`   // by revision, then time
	Streams []Stream `json:"streams"` // by first revision
	// Files are the other objects: specs, identities, marks of verification.
	Files []Object `json:"files,omitempty"`
}

// Newest is when the newest full was begun; zero without one.
func (l *Lineage) Newest() (t time.Time) {
	for _, f := range l.Fulls {
		if f.Time.After(t) {
			t = f.Time
		}
	}
	return t
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

// Lineages returns everything that the store holds of the cluster, the newest lineage last. It lists names, and reads
// one header for each stream.
func (s *Store) Lineages(ctx context.Context) ([]Lineage, error) {
	for range lookAgain {
		// What somebody prunes meanwhile is in the listing and no longer in the store.
		if lineages, err := s.look(ctx); !errors.Is(err, ErrNotFound) {
			return lineages, err
		}
	}
	return s.look(ctx)
}

// lookAgain is how often a listing is repeated that was outdated before it was read.
const lookAgain = 4

func (s *Store) look(ctx context.Context) ([]Lineage, error) {
	lineages, err := s.names(ctx)
	if err != nil {
		return nil, err
	}
	for i := range lineages {
		if err := s.explain(ctx, &lineages[i]); err != nil {
			return nil, err
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i := range lineages {
		for j := range lineages[i].Streams {
			g.Go(func() error { return s.findEnd(ctx, &lineages[i].Streams[j]) })
		}
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return lineages, nil
}

// Lineage returns one lineage; an empty one if there is nothing of that name.
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

// names sorts a listing.
func (s *Store) names(ctx context.Context) ([]Lineage, error) {
	objects, err := s.Bucket.List(ctx, s.Cluster+"/")
	if err != nil {
		return nil, fmt.Errorf("list backups of %s: %w", s.Cluster, err)
	}
	byName := map[string]*Lineage{}
	for _, o := range objects {
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
		slices.SortFunc(l.Fulls, func(a, b Entry) int {
			return cmp.Or(cmp.Compare(a.Revision, b.Revision), a.Time.Compare(b.Time))
		})
		var split []Stream
		for _, st := range l.Streams {
			split = append(split, runs(st.Deltas)...)
		}
		l.Streams = split
		slices.SortFunc(l.Streams, func(a, b Stream) int { return cmp.Compare(a.First, b.First) })
		lineages = append(lineages, *l)
	}
	slices.SortFunc(lineages, func(a, b Lineage) int {
		return cmp.Or(a.Newest().Compare(b.Newest()), strings.Compare(a.Name, b.Name))
	})
	return lineages, nil
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

// runs splits the deltas of a stream at every hole in their sequence.
func runs(deltas []Entry) []Stream {
	st := []Stream{{Stream: deltas[0].Stream, First: deltas[0].Revision}}
	for i, d := range deltas {
		run := &st[len(st)-1]
		if i > 0 && (d.Sequence != deltas[i-1].Sequence+1 || d.Revision <= deltas[i-1].Revision) {
			before := deltas[i-1]
			missing := DeltaPlace(d.Cluster, d.Lineage, d.Stream, before.Sequence+1, before.Revision+1).Name()
			missing, _, _ = strings.Cut(missing, fmt.Sprintf("-%020d", before.Revision+1))
			run.until, run.hole = d.Revision, hole{d.Stream, before.Sequence + 1, d.Sequence - 1}
			run.Damage = &DamagedError{Object: missing + "-*" + suffix, Err: damaged("no object with this sequence number is there")}
			st = append(st, Stream{Stream: d.Stream, First: d.Revision})
			run = &st[len(st)-1]
		}
		run.Deltas = append(run.Deltas, d)
	}
	return st
}

// findEnd finds how far an unbroken run of deltas goes.
func (s *Store) findEnd(ctx context.Context, st *Stream) error {
	last := st.Deltas[len(st.Deltas)-1]
	h, err := ReadHeader(ctx, s.Bucket, last.Place)
	switch {
	case IsDamage(err):
		st.Damage = &DamagedError{Object: last.Name(), Err: err}
		st.Last = last.Revision - 1
	case err != nil:
		return err
	default:
		st.Last, st.End = h.Last, h.End
	}
	return nil
}

// headers reads the headers of many objects at once. errs[i] is set where one could not be read.
func (s *Store) headers(ctx context.Context, entries []Entry) (hs []Header, errs []error) {
	hs, errs = make([]Header, len(entries)), make([]error, len(entries))
	var wg sync.WaitGroup
	free := make(chan struct{}, parallel)
	for i, e := range entries {
		free <- struct{}{}
		wg.Go(func() {
			hs[i], errs[i] = ReadHeader(ctx, s.Bucket, e.Place)
			<-free
		})
	}
	wg.Wait()
	return hs, errs
}
