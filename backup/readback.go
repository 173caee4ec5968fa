package backup

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
)

// Whole remembers which fulls were read whole, by ID. Its zero value knows of none.
type Whole struct {
	mu  sync.Mutex
	ids map[string]bool
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
	w.ids = nil
}

// unread returns those fulls that are not known to be whole.
func (w *Whole) unread(fulls []Entry) []Entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(fulls), func(f Entry) bool { return w.ids[f.ID()] })
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

// onWhole calls try, which deletes, until it does not return errUnread any more. The fulls that try names with that are read back before
// it is called again: a process may have been killed after it uploaded one and before it read that back. The target is not
// locked for deletion meanwhile.
func (s *Store) onWhole(ctx context.Context, try func(known *Whole) (unread []Entry, err error)) error {
	known := s.Whole
	if known == nil {
		known = new(Whole)
	}
	for {
		unread, err := try(known)
		if !errors.Is(err, errUnread) {
			return err
		}
		for _, full := range unread {
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

// bearers are the newest fulls that a plan keeps of the incarnations that lose something: what counts for nothing is not kept with deltas.
func (p PrunePlan) bearers() (fulls []Entry) {
	for i, k := range p.Keep {
		newer := slices.ContainsFunc(p.Keep[i+1:], func(o Kept) bool { return o.PointInTime && o.Full.Lineage == k.Full.Lineage })
		loses := slices.ContainsFunc(p.Delete, func(r Removal) bool {
			gone, _ := ParsePlace(r.Name)
			return gone.Lineage == k.Full.Lineage
		})
		if k.PointInTime && !newer && loses {
			fulls = append(fulls, k.Full)
		}
	}
	return fulls
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
	hs, errs := s.headers(ctx, l.entries())
	for i, h := range hs {
		switch {
		case h.Signature != nil:
			return &UnknownSigner{l.Name, h.Place.Name(), h.Signature.Key}
		case errs[i] != nil && !IsDamage(errs[i]) && !errors.Is(errs[i], ErrNotFound):
			return errs[i]
		}
	}
	return nil
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
