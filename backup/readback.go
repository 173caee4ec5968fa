package backup

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// Whole remembers which fulls were read whole and are not damaged, by ID, and of deltas what was found. Its zero value knows of none.
type Whole struct {
	mu     sync.Mutex
	ids    map[string]bool
	deltas map[string]deltaRead
}

// deltaRead is what was found in a delta, by name, when it was listed with this size and time.
type deltaRead struct {
	size    int64
	modTime time.Time
	head    Header    // what links and names are compared with
	by      PublicKey // who signed it
	bad     error     // it is damaged or missing
}

// Add takes in that a full was read whole.
func (w *Whole) Add(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ids == nil {
		w.ids = map[string]bool{}
	}
	w.ids[id] = true
}

// Forget forgets all: the target may be another one.
func (w *Whole) Forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids, w.deltas = nil, nil
}

// addDelta takes in what was found in a delta.
func (w *Whole) addDelta(e Entry, c checked) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deltas == nil {
		w.deltas = map[string]deltaRead{}
	}
	r := deltaRead{size: e.Size, modTime: e.ModTime, bad: c.bad, head: Header{Place: c.header.Place, Last: c.header.Last, Sum: c.header.Sum, After: c.header.After}}
	if c.header.Signature != nil {
		r.by = c.header.Signature.Key
	}
	if r.bad == nil && c.header.Size != e.Size {
		r.bad = damaged("it has %d bytes instead of %d", e.Size, c.header.Size)
	}
	w.deltas[e.Name()] = r
}

// delta returns what was found in a delta, as it is listed now.
func (w *Whole) delta(e Entry) (deltaRead, bool) {
	r, ok := w.deltas[e.Name()]
	return r, ok && r.size == e.Size && r.modTime.Equal(e.ModTime)
}

// proved reports whether an object was read: a full that is whole, or a delta.
func (w *Whole) proved(e Entry) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Kind == KindFull {
		return w.ids[e.ID()]
	}
	_, ok := w.delta(e)
	return ok
}

// judge enters in lineages which of their deltas are broken, as far as deltas were read, and forgets those that are not listed any more.
func (w *Whole) judge(lineages []Lineage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	listed := map[string]deltaRead{}
	for i := range lineages {
		l := &lineages[i]
		l.broken = map[string]error{}
		for j := range l.Streams {
			before, linked := deltaRead{}, false
			for k, d := range l.Streams[j].Deltas {
				r, ok := w.delta(d)
				if ok {
					listed[d.Name()] = r
				}
				if linked && ok && r.bad == nil {
					if err := r.head.follows(before.head); err != nil {
						l.broken[before.head.Place.Name()] = err
					}
				}
				if before, linked = r, ok && r.bad == nil; !ok {
					continue
				}
				bad := r.bad
				if bad == nil && l.signed(d) && !slices.Contains(l.trusted, r.by) {
					bad = damaged("%w", ErrUntrusted)
				}
				if next := k + 1; bad == nil && next < len(l.Streams[j].Deltas) && r.head.Last+1 != l.Streams[j].Deltas[next].Revision {
					bad = damaged("its last revision is %d, but the next delta starts at %d", r.head.Last, l.Streams[j].Deltas[next].Revision)
				}
				if bad != nil {
					l.broken[d.Name()] = bad
				}
			}
		}
	}
	w.deltas = listed
}

// NotWholeError reports that a full is damaged on account of which others were to be deleted. Nothing was deleted, and it
// counts for nothing from now on, where Store.Signer signs that or it does not matter who signed: that is recorded in the target.
type NotWholeError struct {
	Full   Entry
	Err    error // its damage
	Record error // why it is not recorded; nil: it is
}

func (e *NotWholeError) Error() string {
	text := fmt.Sprintf("nothing is deleted on account of %s: %v", e.Full.ID(), e.Err)
	if e.Record != nil {
		text += fmt.Sprintf("; this is not recorded in the target: %v", e.Record)
	}
	return text
}

func (e *NotWholeError) Unwrap() []error { return []error{e.Err, e.Record} }

// errUnread: fulls have to be read back first.
var errUnread = errors.New("not read back")

// onWhole calls try, which deletes, until it does not return errUnread any more. The fulls and deltas that try names with that are read whole before
// it is called again: a process may have been killed after it uploaded one and before it read that back, and what was stored may be damaged since. The
// target is not locked for deletion meanwhile.
func (s *Store) onWhole(ctx context.Context, try func(known *Whole) (unread []Entry, err error)) error {
	known := s.Whole
	if known == nil {
		known = new(Whole)
	}
	read := map[string]bool{}
	for {
		unread, err := try(known)
		if !errors.Is(err, errUnread) {
			return err
		}
		whole := true
		for _, e := range unread {
			if read[e.Name()] {
				return fmt.Errorf("the target lists %s differently each time, so nothing is deleted", e.Name())
			}
			read[e.Name()] = e.Kind == KindDelta
		}
		for some := range slices.Chunk(ofKind(unread, KindDelta), deltasAtOnce) {
			all, err := s.readDeltas(ctx, some, known)
			if err != nil {
				return fmt.Errorf("nothing is deleted before the deltas that stay are read: %w", err)
			}
			whole = whole && all
		}
		if !whole {
			continue // other fulls stay
		}
		for _, full := range ofKind(unread, KindFull) {
			err := s.ReadBack(ctx, full)
			if IsDamage(err) {
				return &NotWholeError{full, err, s.MarkDamaged(ctx, full, err)}
			}
			if err != nil {
				return fmt.Errorf("read back %s: %w", full.ID(), err)
			}
			known.Add(full.ID())
		}
	}
}

// deltasAtOnce is of how many deltas the reading is begun again if it is interrupted.
const deltasAtOnce = 1000

// readDeltas reads deltas whole: decoded if there is a key, else up to their digests. all: they are whole.
func (s *Store) readDeltas(ctx context.Context, deltas []Entry, known *Whole) (all bool, err error) {
	reader := *s
	results := map[string]checked{}
	defer func() {
		for _, d := range deltas {
			if c, read := results[d.Name()]; read {
				known.addDelta(d, c)
			}
		}
	}()
	check := func(deltas []Entry) error {
		err := reader.checkAll(ctx, deltas, new(Report), results)
		if errors.Is(err, ErrKey) {
			reader.Identities = nil
			err = reader.checkAll(ctx, deltas, new(Report), results)
		}
		return err
	}
	for try := range 2 { // once may be a fault on the way
		if check(deltas) != nil { // of one of them, or of the target
			for _, d := range deltas {
				err := check([]Entry{d})
				if err == nil {
					continue
				}
				h, header := s.Header(ctx, d)
				if header != nil {
					return false, err
				}
				results[d.Name()] = checked{h, true, damaged("it cannot be read: %v", err)}
			}
		}
		all = true
		for name, c := range results {
			if all = all && c.bad == nil; c.bad != nil && try == 0 {
				delete(results, name)
			}
		}
	}
	return all, nil
}

func ofKind(entries []Entry, kind Kind) []Entry {
	return slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return e.Kind != kind })
}

// UnknownSigner reports that an object of an incarnation is signed, and nothing there by a key that is trusted here. An
// unsigned full of any client would count as its newest, and all that is signed be deleted on its account.
type UnknownSigner struct {
	Lineage string    `json:"incarnation"`
	Object  string    `json:"object"`
	Key     PublicKey `json:"key"`
}

func (u *UnknownSigner) Error() string {
	return fmt.Sprintf("%v: %s is signed by %s, and nothing of its incarnation by a key that is trusted here, so forged backups cannot be "+
		"recognized; delete backups on a management host of its cluster, or name the key with --trust KEY", ErrUntrusted, u.Object, u.Key)
}

func (u *UnknownSigner) Unwrap() error { return ErrUntrusted }

// vettedToDelete is vetted, of all that a lineage has, for a deletion. An UnknownSigner: nothing of the lineage may be deleted.
func (s *Store) vettedToDelete(ctx context.Context, l *Lineage) error {
	if s.AllowUntrusted {
		return nil
	}
	if s.judges() {
		if err := s.vetted(ctx, l, (*Lineage).entries); err != nil || l.first < math.MaxInt64 {
			return err
		}
		for _, e := range l.listed {
			if by := l.seen[e.Name()].by; by != "" && !l.signed(e) {
				return &UnknownSigner{l.Name, e.Name(), by}
			}
		}
		return nil
	}
	return s.eachHeader(ctx, l.entries(), func(_ Entry, h Header, err error) error {
		switch {
		case h.Signature != nil:
			return &UnknownSigner{l.Name, h.Place.Name(), h.Signature.Key}
		case err != nil && !IsDamage(err) && !errors.Is(err, ErrNotFound):
			return err
		}
		return nil
	})
}

// deletable are the lineages of which something may be deleted, and why that is not so of the others.
func (s *Store) deletable(ctx context.Context, lineages []Lineage) (may []Lineage, signed []UnknownSigner, err error) {
	for _, l := range lineages {
		err := s.vettedToDelete(ctx, &l)
		if u := new(UnknownSigner); errors.As(err, &u) {
			signed = append(signed, *u)
		} else if err != nil {
			return nil, nil, err
		} else {
			may = append(may, l)
		}
	}
	return may, signed, nil
}
