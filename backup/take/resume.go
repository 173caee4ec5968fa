package take

import (
	"context"
	"fmt"
	"time"

	"cke/backup"
)

// position is where the deltas of a lineage go on.
type position struct {
	stream   int64 // name of the stream
	sequence int64 // of the next delta
	next     int64 // its first revision
	// full is needed before anything can be restored to next-1.
	full bool
	// last are time and revision of users and roles of the newest full.
	lastFull time.Time
	auth     uint64
	authOK   bool
}

// mode says how hard a session tries to go on with what is there.
type mode int

const (
	fromTail mode = iota // go on where the deltas end
	fromFull             // changes after them are gone from etcd: go on after the newest full, if that is newer
	fromNow              // begin anew
)

// resume reads from the target where to go on.
func (t *Taker) resume(ctx context.Context, k *cluster, m mode) (position, error) {
	l, err := t.c.store().Lineage(ctx, t.c.Lineage)
	if err != nil {
		return position{}, fmt.Errorf("read the target: %w", err)
	}
	now, err := k.revision(ctx)
	if err != nil {
		return position{}, err
	}
	p := fresh(now)
	last := tail(&l)
	var sound []backup.Entry
	if n := len(l.Fulls); n > 0 {
		newest := l.Fulls[n-1]
		if newest.Revision > now {
			return p, &stopError{fmt.Errorf("%w: it is at revision %d, a full of lineage %s has %d", ErrDiverged, now, l.Name, newest.Revision)}
		}
		var h backup.Header
		if sound, h, err = t.sound(ctx, l.Fulls); err != nil {
			return p, err
		}
		damaged := len(sound) < n
		if len(sound) > 0 && m != fromNow {
			p = fresh(sound[len(sound)-1].Revision)
			if m == fromTail && last == nil {
				p = fresh(unled(sound, h.Stored))
			}
			p.full = m != fromTail || damaged // a gap was told, or a full is of no use: another one ends that
		}
		p.lastFull, p.auth, p.authOK = newest.Time, h.AuthRevision, !damaged
	}
	if last == nil {
		return p, nil
	}
	if last.Last > now {
		return p, &stopError{fmt.Errorf("%w: it is at revision %d, the deltas of lineage %s go to %d", ErrDiverged, now, l.Name, last.Last)}
	}
	if m != fromTail || last.Damage != nil {
		if p.next <= last.Last+1 { // the full is no newer than what is lost
			auth := p
			p = fresh(now)
			p.lastFull, p.auth, p.authOK = auth.lastFull, auth.auth, auth.authOK
		}
		if m == fromTail {
			p.full = true
			t.tell(Event{Type: Gap, From: last.Last + 1, To: p.next - 1, Err: last.Damage})
		}
		return p, nil
	}
	newest := last.Deltas[len(last.Deltas)-1]
	p.stream, p.sequence, p.next = newest.Stream, newest.Sequence+1, last.Last+1
	p.full = true
	for _, c := range l.Chains()[:len(sound)] {
		if c.Last >= last.Last && c.Damage == nil {
			p.full = false
		}
	}
	return p, nil
}

// sound are the fulls up to the newest one whose header can be read, with that header. A full without is of no use to anybody.
func (t *Taker) sound(ctx context.Context, fulls []backup.Entry) ([]backup.Entry, backup.Header, error) {
	for n := len(fulls); n > 0; n-- {
		h, err := backup.ReadHeader(ctx, t.c.Bucket, fulls[n-1].Place)
		if err == nil {
			return fulls[:n], h, nil
		}
		if !backup.IsDamage(err) {
			return nil, h, err
		}
		t.c.Log.Warn("a full backup is damaged, another one is taken", "full", fulls[n-1].ID(), "error", err)
	}
	return nil, backup.Header{}, nil
}

// fresh begins a new stream after a revision.
func fresh(revision int64) position {
	return position{stream: revision + 1, next: revision + 1, full: true}
}

// unled is where to go on when there is no delta: after the full that the changes follow which are not in the target yet. stored
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
