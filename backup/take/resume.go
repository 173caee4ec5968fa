package take

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cke/backup"
)

// position is where the deltas of a lineage continue.
type position struct {
	stream   int64 // name of the stream
	sequence int64 // of the next delta
	next     int64 // its first revision
	// begins is the first revision of the unbroken run that continues: only a full that reaches the one before leads to it.
	begins int64
	// after and base are the newest delta and the newest full in the target that lead there; nil: none. newer is a full that does not
	// lead to what is filled now, but to what follows.
	after, base, newer *backup.Link
	// cluster is the cluster's revision when it was asked.
	cluster int64
	// known is how far the history is known from the target.
	known point
	// watched is since when the watch has been unbroken.
	watched time.Time
	// full is needed before anything can be restored to next-1.
	full bool
	// last are time and revision of users and roles of the newest full.
	lastFull time.Time
	newest   backup.Header // of the newest full; zero: there is none
	auth     backup.UsersState
	authOK   bool
	// authAt is the revision of that full.
	authAt int64
	// wrong: fulls that are newer than all that count were found wrong.
	wrong bool
	// others: the newest full is encrypted for other recipients than deltas are from now on.
	others bool
}

// mode says how hard a session tries to continue with what is there.
type mode int

const (
	fromTail mode = iota // go on where the deltas end
	fromFull             // changes after them are gone from etcd: go on after the newest full, if that is newer
	fromNow              // begin anew
)

// resume reads from the target where to continue.
func (t *Taker) resume(ctx context.Context, k *cluster, m mode) (position, error) {
	store := t.c.store()
	l, err := store.Lineage(ctx, t.c.Lineage)
	if err != nil {
		return position{}, fmt.Errorf("read the target: %w", err)
	}
	now, err := k.revision(ctx)
	if err != nil {
		return position{}, err
	}
	doubt, err := t.wasRefused(ctx)
	if err != nil {
		return position{}, err
	}
	anew := doubt && m == fromTail // a gap that ended the session before was told
	if doubt {
		m = fromNow
	}
	l, bogus, err := store.WithoutBogus(ctx, l, now)
	if err != nil {
		return position{}, fmt.Errorf("read the target: %w", err)
	}
	for _, b := range bogus {
		t.tell(Event{Type: Bogus, Damage: b})
	}
	for _, u := range l.Untrusted {
		t.tell(Event{Type: Bogus, Damage: &backup.DamagedError{Object: u.Name(), LastGood: now, Err: u.Err}})
	}
	p := position{cluster: now}.restart(now)
	last := tail(&l)
	sound, h, err := t.sound(ctx, store, l.Fulls)
	if err != nil {
		return p, err
	}
	var counts bool
	if p.known, counts = t.known(last, h); !counts {
		if err := k.compare(ctx, p.known, now); errors.Is(err, ErrDiverged) {
			t.c.Log.Warn("the backups are of a different history, but not signed: they start over", "incarnation", t.c.Lineage, "why", err)
			return position{cluster: now}.restart(now), nil
		} else if err != nil {
			return p, err
		}
	} else if err := t.refuseHistory(ctx, k, p.known, now); err != nil {
		return p, err
	}
	all := l.Fulls
	wrong, err := store.LeaveOutWrong(ctx, &l)
	if err != nil {
		return p, fmt.Errorf("read the target: %w", err)
	}
	if len(wrong) > 0 { // what their headers tell of the history is true all the same
		t.c.Log.Warn("full backups that were found wrong do not count", "newest", wrong[len(wrong)-1].ID())
		p.wrong = newestRevision(all) > newestRevision(l.Fulls)
		if sound, h, err = t.sound(ctx, store, l.Fulls); err != nil {
			return p, err
		}
	}
	if m == fromTail && h.Merged && p.known.marked < p.known.revision && p.known.index == 0 {
		t.c.Log.Warn("a full that an earlier release merged does not record the cluster's history: the backups start over", "incarnation", t.c.Lineage)
		m, anew = fromNow, true
	}
	if last != nil && m == fromTail && last.Damage == nil {
		if err := store.CheckTail(ctx, last); err != nil {
			return p, fmt.Errorf("read the target: %w", err)
		}
	}
	if anew {
		t.missing(last, h, now)
	}
	if last != nil && last.Tail.Size > 0 {
		p.after = last.Tail.Link()
	}
	unsigned := false // the newest full: anybody's, and what follows is to depend on none such
	if n := len(l.Fulls); n > 0 {
		newest := l.Fulls[n-1]
		damaged := len(sound) < n || p.wrong
		unsigned = t.c.Signer != nil && !t.c.signs(h)
		if len(sound) > 0 && m != fromNow {
			p = p.restart(sound[len(sound)-1].Revision)
			if m == fromTail && last == nil {
				p = p.restart(unled(sound, h.Stored))
			}
			p.newer = h.Link()
			p.full = m != fromTail || damaged || unsigned // a gap was told, or a full is of no use: another one ends that
		}
		p.newest = h
		if len(sound) > 0 {
			newest = sound[len(sound)-1]
		}
		p.lastFull, p.auth, p.authOK, p.authAt = newest.Time, h.Users(), !damaged, newest.Revision
		p.others = h.Recipients != backup.RecipientsID(t.c.Recipients)
	}
	if last == nil {
		return p, nil
	}
	if m != fromTail || last.Damage != nil {
		if p.next <= last.Last+1 { // the full is no newer than what is lost
			p = p.restart(now)
			p.newer = nil
		}
		if m == fromTail {
			p.full = true
			t.tell(Event{Type: Gap, From: last.Last + 1, To: p.next - 1, Err: last.Damage})
		}
		return p, nil
	}
	newest := last.Deltas[len(last.Deltas)-1]
	sequence := l.NextSequence(newest.Place, last.Last+1)
	if t.c.Signer != nil && !t.c.signs(last.Tail) || sequence > backup.MostSequence { // anybody's, or used up
		t.missing(last, backup.Header{}, p.next-1) // where a full is newer: what the cluster changed before it is in no delta
		p = p.restart(max(last.Last, p.next-1))
		p.newer = nil
		return p, nil
	}
	p.base = last.Tail.Base
	p.stream, p.sequence, p.next, p.begins = newest.Stream, sequence, last.Last+1, last.First
	p.full = true
	for _, c := range l.Chains()[:len(sound)] {
		if c.Last >= last.Last && c.Damage == nil {
			p.full = unsigned
		}
	}
	if p.full {
		p.base, p.newer = nil, nil
	}
	return p, nil
}

// missing reports as a gap what the cluster changed after the newest delta and full, where a new stream starts at its revision now.
func (t *Taker) missing(last *backup.Stream, full backup.Header, now int64) {
	stored := full.Last
	if last != nil {
		stored = max(stored, last.Last)
	}
	if 0 < stored && stored < now {
		t.tell(Event{Type: Gap, From: stored + 1, To: now})
	}
}

// known is how far the newest delta and full tell the history. counts: they are signed, or this host does not sign; else any client may have
// written them.
func (t *Taker) known(last *backup.Stream, full backup.Header) (all point, counts bool) {
	var signed point
	tell := func(h backup.Header) {
		all = all.reached(h)
		if t.c.signs(h) {
			signed = signed.reached(h)
		}
	}
	if last != nil && last.Tail.Size > 0 {
		tell(last.Tail)
	}
	tell(full)
	if signed != (point{}) {
		return signed, true
	}
	return all, t.c.Signer == nil
}

// sound are the fulls up to the newest one whose header can be read and whose size is as it says, with that header. A full without is of no use, and one that this
// Taker's key did not sign is none of its own if an older one is signed: what it says of the history counts for nothing.
func (t *Taker) sound(ctx context.Context, store *backup.Store, fulls []backup.Entry) (found []backup.Entry, newest backup.Header, err error) {
	for n := len(fulls); n > 0; n-- {
		h, err := store.Header(ctx, fulls[n-1])
		if backup.IsDamage(err) {
			t.c.Log.Warn("a full backup is damaged, another one is taken", "full", fulls[n-1].ID(), "error", err)
			continue
		}
		if err != nil {
			return nil, h, err
		}
		if found == nil {
			found, newest = fulls[:n], h
		}
		if t.c.Signer == nil {
			break
		}
		if t.c.signs(h) {
			if n < len(found) {
				t.c.Log.Warn("a full backup is not signed by this host's key, another one is taken", "full", found[len(found)-1].ID())
			}
			return fulls[:n], h, nil
		}
	}
	return found, newest, nil
}

func newestRevision(fulls []backup.Entry) (newest int64) {
	for _, f := range fulls {
		newest = max(newest, f.Revision)
	}
	return newest
}

// restart starts a new stream after a revision.
func (p position) restart(revision int64) position {
	p.stream, p.sequence, p.next, p.begins, p.full = revision+1, 0, revision+1, revision+1, true
	return p
}

// unled is where to continue when there is no delta: after the full that the changes follow which are not in the target yet. stored
// is what the newest full says of them. Without deltas there may be several fulls: the first delta has not been stored, or what
// led to the newest was pruned.
func unled(fulls []backup.Entry, stored int64) int64 {
	newest := fulls[len(fulls)-1].Revision
	if stored == 0 {
		return newest
	}
	for _, f := range fulls {
		if f.Revision >= stored {
			return f.Revision
		}
	}
	return newest
}

// tail is the run of deltas that goes furthest.
func tail(l *backup.Lineage) *backup.Stream {
	var best *backup.Stream
	for i := range l.Streams {
		if st := &l.Streams[i]; best == nil || st.Last >= best.Last {
			best = st
		}
	}
	return best
}
