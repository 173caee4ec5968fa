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
	if n := len(l.Fulls); n > 0 {
		newest := l.Fulls[n-1]
		if newest.Revision > now {
			return p, &stopError{fmt.Errorf("%w: it is at revision %d, a full of lineage %s has %d", ErrDiverged, now, l.Name, newest.Revision)}
		}
		h, err := backup.ReadHeader(ctx, t.c.Bucket, newest.Place)
		if err != nil && !backup.IsDamage(err) {
			return p, err
		}
		if err == nil && m != fromNow {
			p = fresh(newest.Revision)
			if m == fromTail && last == nil {
				p = fresh(unled(l.Fulls, h.Stored))
			}
			p.full = m != fromTail // a gap was told: a full ends it
		}
		p.lastFull, p.auth, p.authOK = newest.Time, h.AuthRevision, err == nil
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
	for _, c := range l.Chains() {
		if c.Last >= last.Last && c.Damage == nil {
			p.full = false
		}
	}
	return p, nil
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
