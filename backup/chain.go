package backup

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Chain is a full and the deltas that follow it: every revision from its own to Last can be restored.
type Chain struct {
	Full   Entry   `json:"full"`
	Deltas []Entry `json:"deltas"`
	// Last is the newest revision that the chain reaches, and End when it was received.
	Last int64     `json:"last"`
	End  time.Time `json:"end"`
	// Damage reports what is missing or broken, so that the chain cannot continue.
	Damage *DamagedError `json:"-"`
}

// Chains returns the chain of every full, ordered by revision. Several chains may share deltas.
func (l *Lineage) Chains() []Chain {
	chains := make([]Chain, len(l.Fulls))
	for i, f := range l.Fulls {
		chains[i] = l.chain(f)
	}
	return chains
}

func (l *Lineage) chain(f Entry) Chain {
	c := Chain{Full: f, Last: f.Revision, End: f.Time}
	for i := range l.Streams {
		st := &l.Streams[i]
		switch {
		case st.First > f.Revision+1 || st.First < 1:
		case st.Last > c.Last:
			// Of several streams the one that goes furthest; they hold the same where they overlap.
			c.Deltas, c.Damage, c.Last, c.End = st.after(f.Revision), st.Damage, st.Last, st.End
		case st.Last <= f.Revision && st.Damage != nil && (st.until == 0 || f.Revision+1 < st.until) && c.Deltas == nil && !l.resumed(st, f):
			c.Damage = st.Damage
		}
	}
	if c.Damage != nil {
		c.Damage = &DamagedError{Object: c.Damage.Object, Err: c.Damage.Err, LastGood: c.Last}
	}
	return l.limited(c)
}

// resumed reports whether another run starts between the damage that ends one and a full: what is lost lies before that full then. Where that run
// was pruned, the full names it.
func (l *Lineage) resumed(ended *Stream, f Entry) bool {
	p := l.newestAt[f.Name()]
	begin := p.Stream
	if p.Stream == ended.Stream {
		begin = p.Revision
	}
	if ended.lost() < begin && begin <= f.Revision+1 {
		return true
	}
	return slices.ContainsFunc(l.Streams, func(st Stream) bool {
		return st.Damage == nil && ended.Last < st.First && st.First <= f.Revision+1
	})
}

// lost is up to where a run's deltas may start and be of no use, for the damage that ends it. One of which the first delta is damaged may have none.
func (st *Stream) lost() int64 {
	at := st.Last
	if n := len(st.Deltas); n > 0 {
		at = st.Deltas[n-1].Revision
	}
	if st.Damage == nil {
		return at
	}
	if p, ok := ParsePlace(st.Damage.Object); ok && p.Revision != st.until { // else the next run starts with it
		at = max(at, p.Revision)
	}
	return at
}

// readNewestAt reads from the fulls that look damaged, because a run ended before them, which delta was the newest when they were started.
func (s *Store) readNewestAt(ctx context.Context, l *Lineage) error {
	l.newestAt = map[string]Place{}
	for _, c := range l.Chains() {
		if c.Damage == nil || c.Deltas != nil {
			continue
		}
		h, err := s.headerIn(ctx, l, c.Full)
		if err != nil && !IsDamage(err) {
			return err
		}
		if err == nil && h.After != nil {
			l.newestAt[c.Full.Name()] = h.After.Place()
		}
	}
	return nil
}

// after returns the deltas up to Last that hold changes after a revision.
func (st *Stream) after(revision int64) []Entry {
	deltas := st.from(revision)
	to := 0
	for to < len(deltas) && deltas[to].Revision <= st.Last {
		to++
	}
	return deltas[:to]
}

// from returns the deltas from the one on that by the names holds the change after a revision.
func (st *Stream) from(revision int64) []Entry {
	from := 0
	for i, d := range st.Deltas {
		if d.Revision <= revision+1 {
			from = i
		}
	}
	return st.Deltas[from:]
}

// upTo returns those deltas of the chain that are needed for a revision.
func (c *Chain) upTo(revision int64) []Entry {
	if revision <= c.Full.Revision {
		return nil
	}
	for i, d := range c.Deltas {
		if d.Revision > revision {
			return c.Deltas[:i]
		}
	}
	return c.Deltas
}

// choose returns the chains that lead to a revision, the best one (the newest full) first.
func (l *Lineage) choose(revision int64) ([]Chain, error) {
	var fits []Chain
	var blocked *DamagedError
	for _, c := range l.Chains() {
		switch {
		case c.Full.Revision > revision:
		case c.Last >= revision:
			fits = append([]Chain{c}, fits...)
		case c.Damage != nil:
			blocked = c.Damage
		}
	}
	if len(fits) > 0 {
		return fits, nil
	}
	for _, s := range l.Strays {
		if blocked == nil && s.First <= revision+1 && revision <= s.Last {
			blocked = &DamagedError{Object: s.Damage.Object, LastGood: l.reach(revision), Err: s.Damage.Err}
		}
	}
	for _, u := range l.Untrusted {
		if u.covers(revision) { // what would lead there was not taken by the cluster, as far as anybody can tell
			return nil, u.damage(l.reach(revision))
		}
	}
	if blocked != nil {
		return nil, blocked
	}
	return nil, fmt.Errorf("%w: revision %d of incarnation %s; %s", ErrNotCovered, revision, l.Name, l.coverage())
}

// coverage says in words what can be restored.
func (l *Lineage) coverage() string {
	s := ""
	for _, c := range l.Chains() {
		if s != "" {
			s += ", "
		}
		s += fmt.Sprintf("%d to %d", c.Full.Revision, c.Last)
	}
	if s == "" {
		return "nothing can be restored"
	}
	return "the backups cover revisions " + s
}
