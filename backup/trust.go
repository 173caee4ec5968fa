package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Names and headers are anybody's who can create objects in a target. So before streams and chains are made of a listing, what is not
// signed by a key that is trusted is taken out of a lineage, once something in the lineage is: a forged object then neither hides
// genuine ones nor vouches for them. To read every header of a large target takes long. Read are those of all fulls, of all deltas after
// the newest full, of all before the first object that is signed, and of the first and the last delta of every run; the others before
// anything depends on them.

// Untrusted is an object that does not count, because it is not signed by a trusted key.
type Untrusted struct {
	Entry
	// Last is the newest revision that it claims to hold.
	Last int64
	Err  error
}

func (u Untrusted) covers(revision int64) bool { return u.Revision <= revision && revision <= u.Last }

// damage reports that a needed object is one that does not count.
func (u Untrusted) damage(lastGood int64) *DamagedError {
	return &DamagedError{Object: u.Name(), LastGood: lastGood, Err: u.Err}
}

// atOnce bounds how many headers are in memory before they are judged: long ones take half a MiB each.
const atOnce = 64

// verdict is what a header says of who wrote an object.
type verdict struct {
	by      PublicKey // who signed it; "": nobody
	vouches bool
	last    int64
	end     time.Time // when last was received
	within  bool      // it is a full that was merged within a delta
	after   string    // the delta that it continues
	base    string    // the full that led to it
	head    *Header   // nil: not read this time, or not signed by a trusted key: anybody can write many, and long ones
	bad     error     // damage of the header
}

// sifted is what is known of a lineage while the untrusted is taken out of it.
type sifted struct {
	listed     []Entry // all that is there
	seen       map[string]verdict
	trusted    []PublicKey
	first      int64     // the revision of the first object that is signed and vouches; MaxInt64: there is none
	since      time.Time // when the first such full was begun
	reached    []reached // by time
	newestFull int64     // revision of the newest full that is signed; without one, of the newest
}

// reached is a time at which the cluster had not gone beyond a revision, by an object that is signed and by the target's clock.
type reached struct {
	at       time.Time
	revision int64
}

// tooEarly reports whether an object was in the target before the cluster had reached its first revision.
func (t *sifted) tooEarly(e Entry) bool {
	return slices.ContainsFunc(t.reached, func(r reached) bool { return r.revision < e.Revision && r.at.After(e.ModTime.Add(clockLimit)) })
}

// reach notes when a signed object shows how far the cluster was: a delta when its last change was received, a full when it was started, unless it was
// merged within a delta: more was received then. The target dates neither earlier.
func (t *sifted) reach(e Entry, v verdict) {
	if v.within {
		return
	}
	r := reached{v.end, v.last}
	if e.Kind == KindFull {
		r.at = e.Time
	}
	if e.ModTime.Before(r.at) {
		r.at = e.ModTime
	}
	t.reached = append(t.reached, r)
}

// signed reports whether an object is known to be signed by a key that is trusted.
func (t *sifted) signed(e Entry) bool {
	return t != nil && slices.Contains(t.trusted, t.seen[e.Name()].by)
}

// unsigned reports whether an object is known not to be signed by a key that is trusted.
func (t *sifted) unsigned(e Entry) bool {
	if t == nil {
		return false
	}
	v, seen := t.seen[e.Name()]
	return seen && v.bad == nil && !t.signed(e)
}

// vet reads those headers of a lineage that wanted names, and takes out what counts for nothing, until wanted names nothing new. round
// counts from 0. changed: the lineage is another one now, and has to be completed.
func (s *Store) vet(ctx context.Context, l *Lineage, wanted func(l *Lineage, round int) []Entry) (changed bool, err error) {
	if !s.judges() {
		return false, nil
	}
	if l.sifted == nil {
		l.sifted = &sifted{listed: l.entries(), seen: map[string]verdict{}, trusted: s.Trusted}
		slices.SortFunc(l.listed, func(a, b Entry) int { return strings.Compare(a.Name(), b.Name()) })
	}
	for round := 0; ; round++ {
		var unread []Entry
		asked := map[string]bool{}
		for _, e := range wanted(l, round) {
			name := e.Name()
			if _, seen := l.seen[name]; seen || asked[name] {
				continue
			}
			asked[name] = true
			if v, ok := s.Verdicts.get(e); ok {
				l.seen[name] = v
				continue
			}
			unread = append(unread, e)
		}
		if len(asked) == 0 {
			return changed, nil
		}
		for some := range slices.Chunk(unread, atOnce) {
			hs, errs := s.headers(ctx, some)
			for i, e := range some {
				if errs[i] != nil && !IsDamage(errs[i]) {
					return changed, errs[i]
				}
				v := s.verdictOn(hs[i], errs[i])
				l.seen[e.Name()] = v
				s.Verdicts.put(e, v)
			}
		}
		changed = l.sift() || changed
	}
}

// verdictOn judges a header; bad is what is wrong with the object.
func (s *Store) verdictOn(h Header, bad error) verdict {
	v := verdict{last: h.Last, end: h.End, within: h.Merged && !h.Begin.Equal(h.End), vouches: h.vouches(), bad: bad}
	if h.Signature != nil {
		v.by = h.Signature.Key
	}
	if h.After != nil {
		v.after = h.After.Object
	}
	if h.Base != nil {
		v.base = h.Base.Object
	}
	switch {
	case bad == nil && s.trusts(h.Signature):
		v.head = &h
	case bad != nil && h.Sum != "" && !s.trusts(h.Signature):
		v.bad = nil // its size is wrong, which who reads it finds; who wrote it is known
	}
	return v
}

// sift takes out of a lineage what by all that was seen counts for nothing.
func (l *Lineage) sift() (changed bool) {
	l.first, l.since, l.newestFull, l.reached = math.MaxInt64, time.Time{}, 0, nil
	any := int64(0)
	for _, e := range l.listed {
		v := l.seen[e.Name()]
		full := e.Kind == KindFull
		if full {
			any = max(any, e.Revision)
		}
		if !l.signed(e) {
			continue
		}
		l.sifted.reach(e, v)
		if full {
			l.newestFull = max(l.newestFull, e.Revision)
		}
		if v.vouches {
			l.first = min(l.first, e.Revision)
			if full && (l.since.IsZero() || e.Time.Before(l.since)) {
				l.since = e.Time
			}
		}
	}
	l.newestFull = cmp.Or(l.newestFull, any)
	rest := Lineage{Name: l.Name, Files: l.Files, sifted: l.sifted}
	signed := map[int64][]Entry{} // the deltas of each stream
	for _, e := range l.listed {  // by their sequence
		if e.Kind == KindDelta && l.signed(e) {
			signed[e.Stream] = append(signed[e.Stream], e)
		}
	}
	for _, e := range l.listed {
		if why := l.counts(e, signed[e.Stream]); why != nil {
			rest.Untrusted = append(rest.Untrusted, Untrusted{e, max(e.Revision, l.seen[e.Name()].last), why})
			continue
		}
		rest.add(Object{Name: e.Name(), Size: e.Size, ModTime: e.ModTime})
	}
	rest.order()
	same := func(a, b Stream) bool {
		return a.First == b.First && len(a.Deltas) == len(b.Deltas) && a.hole == b.hole
	}
	if len(rest.Untrusted) == len(l.Untrusted) && slices.EqualFunc(rest.Streams, l.Streams, same) {
		return false
	}
	*l = rest
	return true
}

// number is the place of a delta in its stream: only one can be genuine.
type number struct{ stream, sequence int64 }

// counts returns why an object counts for nothing; nil: it counts, as far as is known. signed are the signed deltas of its stream, by their sequence;
// a full is in none.
func (l *Lineage) counts(e Entry, signed []Entry) error {
	v, seen := l.seen[e.Name()]
	if !seen || l.signed(e) {
		return nil
	}
	at, twin := slices.BinarySearchFunc(signed, e.Sequence, func(s Entry, sequence int64) int { return cmp.Compare(s.Sequence, sequence) })
	switch {
	case errors.Is(v.bad, ErrUntrusted): // a format that is claimed
		return v.bad
	case twin:
		return damaged("%w, but %s, which has the same number, is", ErrUntrusted, signed[at].Name())
	case v.bad != nil && l.tooEarly(e):
		return damaged("%w: its header cannot be read, and it is older than the revision in its name", ErrUntrusted)
	case v.bad != nil && at > 0 && l.seen[signed[at-1].Name()].last >= e.Revision:
		return damaged("%w: its header cannot be read, and %s, which has an earlier number, holds its revision", ErrUntrusted, signed[at-1].Name())
	case v.bad != nil && at < len(signed) && signed[at].Revision <= e.Revision:
		return damaged("%w: its header cannot be read, and %s, which has a later number, starts before it", ErrUntrusted, signed[at].Name())
	case v.bad != nil || l.first == math.MaxInt64:
		return nil
	case l.before(e, v.last, signed):
		return nil // it is from before anything was signed, or says so: who reads it is told
	case v.by != "":
		return damaged("%w: the key is %s", ErrUntrusted, v.by)
	}
	return damaged("%w: it has no signature, but objects before it have one", ErrUntrusted)
}

// before reports whether an object claims to be older than all that is signed. last is its newest revision, signed are the signed deltas of its stream.
func (l *Lineage) before(e Entry, last int64, signed []Entry) bool {
	switch {
	case last > l.first:
		return false
	case e.Kind == KindFull:
		return l.since.IsZero() || e.Time.Before(l.since)
	}
	return len(signed) == 0 || e.Sequence < signed[0].Sequence && last < signed[0].Revision
}

// limited ends the chain of a full without a trusted signature where it would take the place of another one: signed deltas name the full that leads to
// them, so one that came into the target after them leads nowhere from the revision of the named one on. One that was there before them is of an
// earlier release, as far as can be known.
func (l *Lineage) limited(c Chain) Chain {
	f := c.Full
	if !l.unsigned(f) {
		return c
	}
	to, by := c.Last, ""
	for _, d := range c.Deltas {
		base := l.seen[d.Name()].base
		if !l.signed(d) || by == "" && !f.ModTime.After(d.ModTime) {
			break
		}
		if base == f.Name() {
			return c
		}
		if by == "" {
			to, by = f.Revision, d.Name()
		}
		if p, ok := ParsePlace(base); ok {
			to = max(f.Revision, p.Revision-1)
			break
		}
	}
	if to < c.Last {
		c.Last, c.End = to, time.Time{}
		if to == f.Revision {
			c.End = f.Time
		}
		c.Damage = &DamagedError{Object: f.Name(), LastGood: to, Err: damaged("%w, and %s, which is, was there before it and does not name it", ErrUntrusted, by)}
	}
	return c
}

// undecided are the next deltas whose headers limited needs for a full.
func (l *Lineage) undecided(f Entry, deltas []Entry, width int) []Entry {
	if !l.unsigned(f) {
		return nil
	}
	for i, d := range deltas {
		v, seen := l.seen[d.Name()]
		switch {
		case !seen && f.ModTime.After(deltas[0].ModTime):
			return deltas[i:min(i+width, len(deltas))]
		case !seen, !l.signed(d), v.base != "":
			return nil
		}
	}
	return nil
}

// edges are the objects that decide what the runs of a lineage are, and how far its newest state goes.
func edges(l *Lineage, round int) []Entry {
	wanted := slices.Clone(l.Fulls)
	width := 1 << min(round, 20) // somebody may have put very many there
	for i := range l.Streams {
		deltas := l.Streams[i].Deltas
		head, tail := deltas[0], deltas[len(deltas)-1]
		if _, seen := l.seen[head.Name()]; !seen {
			wanted = append(wanted, deltas[:min(width, len(deltas))]...)
		}
		if v, seen := l.seen[tail.Name()]; !seen || v.bad != nil {
			wanted = append(wanted, deltas[max(0, len(deltas)-width-1):]...)
		}
	}
	if l.newestFull == 0 {
		return wanted // the fulls are not read yet
	}
	for i := range l.Streams {
		wanted = append(wanted, l.unreadBefore(l.first, l.Streams[i].Deltas, width)...)
	}
	for _, f := range l.Fulls {
		for i := range l.Streams {
			if st := &l.Streams[i]; st.First <= f.Revision+1 {
				wanted = append(wanted, l.undecided(f, st.from(f.Revision), width)...)
			}
		}
	}
	return append(append(wanted, l.twins()...), l.between(l.newestFull, math.MaxInt64)...)
}

// unreadBefore are the next deltas before a revision whose headers are not read: one of them may be the first object that is signed.
func (l *Lineage) unreadBefore(revision int64, deltas []Entry, most int) (unread []Entry) {
	for _, d := range deltas {
		if _, seen := l.seen[d.Name()]; !seen && d.Revision < revision && len(unread) < most {
			unread = append(unread, d)
		}
	}
	return unread
}

// twins are the deltas that share a number.
func (l *Lineage) twins() (twins []Entry) {
	at := map[number]int{}
	for i, e := range l.listed {
		if e.Kind != KindDelta {
			continue
		}
		if j, there := at[number{e.Stream, e.Sequence}]; there {
			twins = append(twins, l.listed[j], e)
		}
		at[number{e.Stream, e.Sequence}] = i
	}
	return twins
}

// between are the deltas that by their names hold changes after a revision, up to another one.
func (l *Lineage) between(after, to int64) (deltas []Entry) {
	for i := range l.Streams {
		all := l.Streams[i].Deltas
		for j, d := range all {
			if d.Revision <= to && (d.Revision > after || j+1 == len(all) || all[j+1].Revision > after+1) {
				deltas = append(deltas, d)
			}
		}
	}
	return deltas
}

// vetted is a lineage of which also the headers of some deltas are known.
func (s *Store) vetted(ctx context.Context, l *Lineage, wanted func(l *Lineage) []Entry) error {
	changed, err := s.vet(ctx, l, func(l *Lineage, _ int) []Entry { return wanted(l) })
	if err == nil && changed {
		one := []Lineage{*l}
		err = s.finish(ctx, one)
		*l = one[0]
	}
	return err
}

// NextSequence returns the number for the delta that continues another one: the next one that is not taken by an object
// that does not count.
func (l *Lineage) NextSequence(after Place, first int64) int64 {
	sequence := after.Sequence + 1
	for slices.ContainsFunc(l.Untrusted, func(u Untrusted) bool {
		return u.Place == DeltaPlace(after.Cluster, after.Lineage, after.Stream, sequence, first)
	}) {
		sequence++
	}
	return sequence
}

// left says what was left out of a lineage, for who reads it.
func (l *Lineage) left() []string {
	if len(l.Untrusted) == 0 {
		return nil
	}
	note := fmt.Sprintf("left out, because it is not signed by a trusted key: %s", l.Untrusted[0].Name())
	if n := len(l.Untrusted) - 1; n > 0 {
		note += fmt.Sprintf(", and %d more", n)
	}
	return []string{note}
}
