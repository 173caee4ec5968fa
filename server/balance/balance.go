// Package balance decides which daemon leads which cluster. It is a pure function of what all daemons see alike, so each daemon
// knows which of its own clusters it hands over, and no two hand over for the same purpose.
package balance

import (
	"cmp"
	"slices"

	"cke"
)

// Reason is why a cluster changes hands.
type Reason string

// Reasons.
const (
	// Prefer: its cluster file prefers a management host whose daemon is alive.
	Prefer Reason = "prefer"
	// Even: its leader daemon leads more clusters than another one.
	Even Reason = "balance"
	// Stop: its leader daemon stops.
	Stop Reason = "stop"
	// Unreachable: its leader daemon reaches none of its nodes, and another one may.
	Unreachable Reason = "unreachable"
)

// Reasons returns all of them.
func Reasons() []Reason { return []Reason{Prefer, Even, Stop, Unreachable} }

// Move is one handover.
type Move struct {
	Cluster string `json:"cluster"`
	From    string `json:"from"`
	To      string `json:"to"`
	Reason  Reason `json:"reason"`
}

// Options are what a daemon adds to what all see.
type Options struct {
	// Settled reports whether a daemon takes part; nil: each does. One that has just come may be gone again.
	Settled func(daemon string) bool
	// Shuns reports whether a cluster is not to move to a daemon that waits for it; nil: none is.
	Shuns func(cluster, daemon string) bool
	// Pinned reports whether a cluster stays where it is; nil: none does.
	Pinned func(cluster string) bool
	// Eager: balance also where the difference is small.
	Eager bool
}

// The least difference between two daemons for which a cluster is moved: smallest clusters, and a part of an even share.
const (
	smallest = 2
	part     = 10
)

// Plan returns the handovers after which each cluster is led by a daemon on a host that it prefers, if one is alive, and no daemon
// leads a tenth more than another one that could take one of its clusters. Where each daemon may lead each cluster, there are no fewer,
// and once some of them are made, the plan is the others.
func Plan(f cke.Fleet, o Options) []Move {
	s, _ := planned(f, o)
	var moves []Move
	for _, c := range s.clusters {
		if c.now != c.was {
			moves = append(moves, s.moved(c, c.now))
		}
	}
	return moves
}

// Steps returns those handovers of a plan that a daemon makes now. Others of the plan may not be made: their daemons know what this
// one does not. So to even out, it hands over only to one that leads fewer as it is. Each such handover makes the loads more even, so
// no cluster goes to and fro.
func Steps(f cke.Fleet, daemon string, o Options) []Move {
	s, least := planned(f, o)
	me, ok := s.index[daemon]
	if !ok {
		return nil
	}
	load := newState(f, o).load
	var moves []Move
	for _, st := range s.steps {
		c := st.cluster
		if c.was != me || c.now == me || st.from != me || slices.ContainsFunc(moves, func(m Move) bool { return m.Cluster == c.name }) {
			continue
		}
		if c.may[me] && load[me]-load[c.now] < least {
			continue
		}
		load[me]--
		load[c.now]++
		moves = append(moves, s.moved(c, c.now))
	}
	return moves
}

// planned is the state that a plan leads to, and the least difference of which it leaves none.
func planned(f cke.Fleet, o Options) (s *state, least int) {
	s = newState(f, o)
	least = max(smallest, ceil(len(s.clusters), part*max(1, len(s.daemons))))
	if o.Eager {
		least = smallest
	}
	for _, c := range s.clusters {
		if !c.may[c.now] && !c.pinned {
			s.move(c, s.least(c))
		}
	}
	for s.level(least) {
	}
	return s, least
}

// moved is the handover of a cluster from the daemon that leads it to another one.
func (s *state) moved(c *cluster, to int) Move {
	m := Move{c.name, s.daemons[c.was].ID, s.daemons[to].ID, Even}
	if !c.may[c.was] {
		m.Reason = Prefer
	}
	return m
}

// Leave returns who gets the clusters of a daemon that stops. One that no other daemon waits for is left out.
func Leave(f cke.Fleet, daemon string) []Move {
	s := newState(f, Options{})
	from, ok := s.index[daemon]
	if !ok {
		return nil
	}
	var moves []Move
	for _, c := range s.clusters {
		if c.now != from {
			continue
		}
		if c.may[from] = false; !slices.Contains(c.may, true) { // none that it prefers, but this one
			copy(c.may, c.waits)
		}
		if to := s.least(c); to >= 0 {
			s.move(c, to)
			moves = append(moves, Move{c.name, daemon, s.daemons[to].ID, Stop})
		}
	}
	return moves
}

// Elsewhere returns who gets a cluster whose leader daemon reaches none of its nodes; false: none may. It is the daemon that has waited
// longest, whatever is preferred: a daemon that hands over queues up last, so each is tried before one is tried again.
func Elsewhere(f cke.Fleet, name string, o Options) (Move, bool) {
	s := newState(f, o)
	i := slices.IndexFunc(s.clusters, func(c *cluster) bool { return c.name == name })
	k := slices.IndexFunc(f.Clusters, func(l cke.Led) bool { return l.Cluster == name })
	if i < 0 {
		return Move{}, false
	}
	for _, id := range f.Clusters[k].Waiting {
		if to, ok := s.index[id]; ok && s.clusters[i].waits[to] {
			return Move{name, f.Clusters[k].By, id, Unreachable}, true
		}
	}
	return Move{}, false
}

// Loads returns how many clusters each daemon leads, after some moves.
func Loads(f cke.Fleet, after []Move) map[string]int {
	loads := map[string]int{}
	for _, c := range f.Clusters {
		loads[c.By]++
	}
	for _, m := range after {
		loads[m.From]--
		loads[m.To]++
	}
	return loads
}

// state is who leads what while a plan is made.
type state struct {
	daemons  []cke.Daemon // that take part
	index    map[string]int
	load     []int
	clusters []*cluster // that one of them leads, by name
	steps    []step
}

// step is one move of a plan, before others of it.
type step struct {
	cluster  *cluster
	from, to int
}

// cluster has its leader daemons, and who may be that, by their index.
type cluster struct {
	name     string
	was, now int
	waits    []bool
	may      []bool
	pinned   bool
}

func newState(f cke.Fleet, o Options) *state {
	s := &state{index: map[string]int{}}
	for _, d := range f.Daemons {
		if d.Schema >= f.Schema && (o.Settled == nil || o.Settled(d.ID)) {
			s.daemons = append(s.daemons, d)
		}
	}
	slices.SortFunc(s.daemons, func(a, b cke.Daemon) int { return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.ID, b.ID)) })
	for i, d := range s.daemons {
		s.index[d.ID] = i
	}
	s.load = make([]int, len(s.daemons))
	for _, l := range f.Clusters {
		by, ok := s.index[l.By]
		if !ok {
			continue
		}
		c := &cluster{name: l.Cluster, was: by, now: by, waits: make([]bool, len(s.daemons)), may: make([]bool, len(s.daemons)), pinned: o.Pinned != nil && o.Pinned(l.Cluster)}
		for _, id := range l.Waiting {
			if i, ok := s.index[id]; ok && i != by && (o.Shuns == nil || !o.Shuns(l.Cluster, id)) {
				c.waits[i] = true
			}
		}
		preferred := false
		for i, d := range s.daemons {
			c.may[i] = (c.waits[i] || i == by) && slices.Contains(l.Prefer, d.Host)
			preferred = preferred || c.may[i]
		}
		if !preferred {
			copy(c.may, c.waits)
			c.may[by] = true
		}
		s.load[by]++
		s.clusters = append(s.clusters, c)
	}
	slices.SortFunc(s.clusters, func(a, b *cluster) int { return cmp.Compare(a.name, b.name) })
	return s
}

func (s *state) move(c *cluster, to int) {
	s.steps = append(s.steps, step{c, c.now, to})
	s.load[c.now]--
	s.load[to]++
	c.now = to
}

// least is the daemon with the fewest clusters that may lead this one; -1: none may.
func (s *state) least(c *cluster) int {
	best := -1
	for i, may := range c.may {
		if may && (best < 0 || s.load[i] < s.load[best]) {
			best = i
		}
	}
	return best
}

// level moves one cluster from the daemon that leads the most to the one that leads the fewest of those that may lead it. It reports
// false if no two differ by least that can be brought together. A cluster is not passed on through a third daemon, which may not do its
// part.
func (s *state) level(least int) bool {
	best, from, to := 0, 0, 0
	edges := s.edges()
	for i := range s.daemons {
		for k, c := range edges[i] {
			if differ := s.load[i] - s.load[k]; c != nil && differ >= least && differ > best {
				best, from, to = differ, i, k
			}
		}
	}
	if best > 0 {
		s.move(edges[from][to], to)
	}
	return best > 0
}

// edges has a cluster that the first daemon could hand over to the second; nil: there is none. One that is moved anyway comes first.
func (s *state) edges() [][]*cluster {
	edges := make([][]*cluster, len(s.daemons))
	for i := range edges {
		edges[i] = make([]*cluster, len(s.daemons))
	}
	rank := func(c *cluster, to int) int {
		switch {
		case c.now == c.was:
			return 2
		case c.was != to:
			return 1
		}
		return 0 // it would stay where it is
	}
	for _, c := range s.clusters {
		if c.pinned {
			continue
		}
		for to, may := range c.may {
			if known := edges[c.now][to]; may && to != c.now && (known == nil || rank(c, to) < rank(known, to)) {
				edges[c.now][to] = c
			}
		}
	}
	return edges
}

func ceil(a, b int) int { return (a + b - 1) / b }
