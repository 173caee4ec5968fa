package backup

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"sync"
	"time"
)

// A directory over which nothing is mounted yet looks like a target that was not used so far. So a target gets a marker when it is
// used first, and who uses it remembers that: where the marker is missing, nothing is written.

// markerFolder holds the markers, .target/CLUSTER/ID. No cluster can have its name.
const markerFolder = ".target"

const (
	// probePrefix starts the names of what is written to see that a target takes it; mostProbes bounds how many are removed at once.
	probePrefix = markerFolder + "/probe-"
	mostProbes  = 100
	// besideEvery is how long no probe is written after one was left beside another; it is doubled with each, up to freshEvery. So often one
	// under a new name is written in any case: what is there already says nothing of how much room is left.
	besideEvery = time.Hour
	freshEvery  = 24 * time.Hour
	// maxMarker bounds what is read of a marker.
	maxMarker = 4 << 10
)

// ErrOtherTarget reports that the target at a URL is not the one used there before: it is empty, not mounted, or another
// one.
var ErrOtherTarget = errors.New("this is not the target that was used before")

// ErrLost reports that a backup that is known to have been stored is no longer in the target. The target must be read
// again before anything that continues it is stored.
var ErrLost = errors.New("a backup that was stored is no longer in the target")

// errReadOnly: a target that answers takes nothing.
var errReadOnly = errors.New("nothing can be written to the target")

// Marked is a target with a marker: objects are created in it only while the marker is there.
type Marked struct {
	Bucket
	// ID is that of the marker with which it was opened.
	ID string
	// Overwrites is set if the target allows objects to be overwritten, so another writer could replace backups.
	Overwrites bool

	mu     sync.Mutex
	marker string
	// newest names the newest full and the newest delta that are known to be there.
	newest map[Kind]Place
	// probe is what was written to see that the target takes it, and must not be removed; empty: there is none.
	probe string
	// beside counts the probes that were left because the target refuses to take the name of one again. last is when the newest that is kept
	// was taken.
	beside int
	last   time.Time
	now    func() time.Time
}

var _ Sweeper = (*Marked)(nil)

// Mark opens a bucket as the target of a cluster. known is the ID of the marker that it had before; empty: it was not
// used before as far as is known, and gets a marker unless it has one. ErrOtherTarget: the marker is missing.
func (s *Store) Mark(ctx context.Context, known string) (*Marked, error) {
	folder := markerFolder + "/" + s.Cluster + "/"
	there, err := s.Bucket.List(ctx, folder)
	if err != nil {
		return nil, fmt.Errorf("read the target: %w", err)
	}
	if known == "" && len(there) > 0 {
		known = path.Base(there[len(there)-1].Name)
	}
	if known == "" {
		known = rand.Text()
		data, err := json.Marshal(struct {
			Cluster string    `json:"cluster"`
			Since   time.Time `json:"since"`
		}{s.Cluster, s.now().UTC()})
		if err != nil {
			return nil, err
		}
		if err := s.Retry.Put(ctx, s.Bucket, folder+known, Content{Head: data}, nil); err != nil {
			return nil, err
		}
	}
	m := &Marked{Bucket: s.Bucket, ID: known, marker: folder + known, now: s.now}
	if err := m.check(ctx); err != nil || m.Local() {
		return m, err
	}
	brief, cancel := context.WithTimeout(ctx, s.Retry.attempt(maxMarker))
	defer cancel()
	m.Overwrites = m.overwrites(brief) // that a target takes no write is found, and reported, with the first backup
	m.sweepProbes(ctx, s.now())
	return m, nil
}

// HasMarker refuses a target that lacks the marker by which it is known, or, if it is not known (""), one that has nothing of the cluster: its file
// system may not be mounted. It writes nothing.
func (s *Store) HasMarker(ctx context.Context, known string) error {
	if known != "" {
		return (&Marked{Bucket: s.Bucket, marker: markerFolder + "/" + s.Cluster + "/" + known}).check(ctx)
	}
	for _, folder := range []string{markerFolder + "/" + s.Cluster + "/", s.Cluster + "/"} {
		if objects, err := s.Bucket.List(ctx, folder); err != nil || len(objects) > 0 {
			return err
		}
	}
	return fmt.Errorf("it has nothing of cluster %s: it was not used yet, or is not mounted: %w", s.Cluster, ErrOtherTarget)
}

// KnownBy has the target known by the marker of another id from now on: it was opened before that was known.
func (m *Marked) KnownBy(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.marker = path.Dir(m.marker) + "/" + id
}

// markerName is the name of the marker.
func (m *Marked) markerName() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.marker
}

// overwrites tries whether the target lets the marker be written again, with the same content, in one request as deltas are or in parts as large
// fulls are: merged ones of two daemons may have the same name.
func (m *Marked) overwrites(ctx context.Context) bool {
	marker := m.markerName()
	r, err := m.Open(ctx, marker, 0, -1)
	if err != nil {
		return false // whoever reads it next tells
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, maxMarker))
	if err != nil {
		return false
	}
	took := func(inParts bool) bool {
		err := m.Bucket.Create(ctx, marker, Content{Head: data, Unasked: true, InParts: inParts})
		return err == nil || errors.Is(err, ErrUnsettled) // it was written, and could not be read back
	}
	return took(false) || took(true)
}

// sweepProbes removes what was written to see that the target takes it, where the answer was lost.
func (m *Marked) sweepProbes(ctx context.Context, now time.Time) {
	left, err := m.List(ctx, probePrefix)
	if err != nil {
		return // it is tried again
	}
	for _, o := range left[:min(len(left), mostProbes)] {
		if now.Sub(o.ModTime) <= time.Hour {
			continue
		}
		if err := m.Bucket.Delete(ctx, o.Name); err != nil {
			m.keepProbe(o.Name, err, false)
			return
		}
	}
}

// check refuses what has no marker.
func (m *Marked) check(ctx context.Context) error {
	marker := m.markerName()
	r, err := m.Open(ctx, marker, 0, -1) // S3 refuses a range of an empty object
	if errors.Is(err, ErrNotFound) {
		return fmt.Errorf("%w: it is empty, not mounted, or another one; to use it from now on, create an empty object %s in it", ErrOtherTarget, marker)
	}
	if err != nil {
		return fmt.Errorf("read the target: %w", err)
	}
	return r.Close()
}

// Create implements Bucket. It returns ErrLost, and writes no backup, if the newest ones are missing.
func (m *Marked) Create(ctx context.Context, name string, c Content) error {
	if err := m.check(ctx); err != nil {
		return err
	}
	place, is := ParsePlace(name)
	if is {
		if err := m.has(ctx); err != nil {
			return err
		}
	}
	err := m.Bucket.Create(ctx, name, c)
	if err == nil && is {
		m.Expect(place)
	}
	return err
}

// Delete implements Bucket.
func (m *Marked) Delete(ctx context.Context, name string) error {
	if p, is := ParsePlace(name); is {
		m.mu.Lock()
		if m.newest[p.Kind].Name() == name {
			delete(m.newest, p.Kind)
		}
		m.mu.Unlock()
	}
	return m.Bucket.Delete(ctx, name)
}

// Expect records that a backup is in the target. The newest full and the newest delta must remain there.
func (m *Marked) Expect(p Place) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.newest == nil {
		m.newest = map[Kind]Place{}
	}
	if p.Revision >= m.newest[p.Kind].Revision {
		m.newest[p.Kind] = p
	}
}

func (m *Marked) expects(p Place) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.newest[p.Kind] == p
}

// has returns ErrLost unless the newest backups are there.
func (m *Marked) has(ctx context.Context) error {
	m.mu.Lock()
	newest := slices.Collect(maps.Values(m.newest))
	m.mu.Unlock()
	for _, p := range newest {
		r, err := m.Open(ctx, p.Name(), 0, 1)
		if errors.Is(err, ErrNotFound) {
			if !m.expects(p) {
				continue // it was deleted here meanwhile
			}
			return fmt.Errorf("%w: %s", ErrLost, p.Name())
		}
		if err != nil {
			return fmt.Errorf("read the target: %w", err)
		}
		if err := r.Close(); err != nil {
			return err
		}
	}
	return nil
}

// Probe checks that the target is the same as before and has the newest backups. With write it also creates an object and
// removes it. If the target allows no deletion, the object stays and its deletion is tried again; a new
// one is created each day, and more often if the target refuses its name.
func (m *Marked) Probe(ctx context.Context, write bool) error {
	if err := m.check(ctx); err != nil {
		return err
	}
	if err := m.has(ctx); err != nil || !write {
		return err
	}
	if d, ok := local(m.Bucket); ok {
		return d.probe(path.Dir(m.markerName()))
	}
	m.mu.Lock()
	kept, since := m.probe, Since(m.last, m.now())
	late := m.beside == 0 || since >= min(besideEvery<<min(m.beside-1, 5), freshEvery)
	m.mu.Unlock()
	refused := false
	switch {
	case !late:
		return nil // the one that is kept would prove nothing
	case kept != "":
		// Stores check the right to write before the condition that nothing is there.
		err := m.Bucket.Create(ctx, kept, Content{Head: []byte("probe"), Unasked: true})
		if err == nil {
			return m.removeProbe(ctx, kept, false)
		}
		if refused = !errors.Is(err, ErrExists); !refused && since < freshEvery {
			return nil
		}
	}
	name := probePrefix + rand.Text()
	if err := m.Bucket.Create(ctx, name, Content{Head: []byte("probe")}); err != nil {
		m.Bucket.Delete(ctx, name) // it may be there all the same
		return fmt.Errorf("%w: %w", errReadOnly, err)
	}
	return m.removeProbe(ctx, name, refused)
}

// removeProbe removes a probe that the target took. One that must not be removed is kept. refused: the one before could not be tried again.
func (m *Marked) removeProbe(ctx context.Context, name string, refused bool) error {
	err := m.Bucket.Delete(ctx, name)
	if m.keepProbe(name, err, refused) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove the object that was written to test the target: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.probe, m.beside = "", 0 // the next one is a fresh one
	return nil
}

// keepProbe notes that a probe must not be removed: one is enough for now.
func (m *Marked) keepProbe(name string, err error, refused bool) bool {
	if !refusesDeletion(err) {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if refused {
		m.beside++
	}
	if m.probe != name {
		m.probe, m.last = name, m.now()
	}
	return true
}

// refusesDeletion reports whether a target that may take more does not let an object be deleted.
func refusesDeletion(err error) bool { return errors.Is(err, ErrProtected) || refuses(err) }

// Local reports whether the target is a directory, where a probe costs hardly anything.
func (m *Marked) Local() bool {
	_, ok := local(m.Bucket)
	return ok
}

// Unwrap returns the bucket itself.
func (m *Marked) Unwrap() Bucket { return m.Bucket }

// Sweep implements Sweeper.
func (m *Marked) Sweep(ctx context.Context, age time.Duration) error {
	if s, ok := m.Bucket.(Sweeper); ok {
		return s.Sweep(ctx, age)
	}
	return nil
}

// probe writes a block to a folder: an empty file fits on a full disk.
func (d Dir) probe(folder string) error {
	f, err := os.CreateTemp(d.file(folder), partial)
	if err != nil {
		return fmt.Errorf("%w: %w", errReadOnly, err)
	}
	_, err = f.Write(make([]byte, 4096))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// ReadsBack reports whether a bucket reads back what it stores. A directory does not: what a disk wrote wrong shows only later.
func ReadsBack(b Bucket) bool {
	_, dir := local(b)
	return !dir
}

// local returns the directory that a bucket is.
func local(b Bucket) (Dir, bool) {
	if w, ok := b.(interface{ Unwrap() Bucket }); ok {
		return local(w.Unwrap())
	}
	d, ok := b.(Dir)
	return d, ok
}
