package strategy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"cke"
	"cke/op"
)

// clocks is what the nodes' clocks say about that of the daemon's host, by which everything is decided.
type clocks struct {
	// nodes is how many there are; told are those that told their time in this look.
	nodes int
	told  []nodeClock
	// ahead is how far the daemon's clock is ahead of the median of theirs; negative: behind.
	ahead time.Duration
}

// nodeClock is a node with how far the daemon's clock is ahead of its own.
type nodeClock struct {
	name  string
	ahead time.Duration
}

// ClocksIn compares the daemon's clock, which dates the observation, with the median of the nodes that answered. Of two in the
// middle, the one that is closer to the daemon's counts.
func ClocksIn(o cke.Observation) clocks {
	c := clocks{nodes: len(o.Nodes)}
	for _, n := range o.Nodes {
		if n.Answered() && !n.Clock.IsZero() {
			c.told = append(c.told, nodeClock{n.Node.Name(), o.ObservedAt.Sub(n.Clock)})
		}
	}
	if len(c.told) == 0 {
		return c
	}
	sorted := slices.SortedFunc(slices.Values(c.told), func(a, b nodeClock) int { return cmp.Compare(a.ahead, b.ahead) })
	low, high := sorted[(len(sorted)-1)/2].ahead, sorted[len(sorted)/2].ahead
	if c.ahead = low; high.Abs() < low.Abs() {
		c.ahead = high
	}
	return c
}

// wrong: the daemon's clock is not the nodes'.
func (c clocks) wrong() bool { return c.ahead.Abs() > op.ClockLimit }

// sure: more than half of all clocks, the daemon's among them, say what the daemon's says.
func (c clocks) sure() bool {
	agree := 1
	for _, n := range c.told {
		if n.ahead.Abs() <= op.ClockLimit {
			agree++
		}
	}
	return agree*2 > c.nodes+1
}

// Why returns why everything that depends on the time waits; empty: it does not wait.
func (c clocks) Why() string {
	if !c.wrong() {
		return ""
	}
	var names []string
	for _, n := range c.told {
		names = append(names, n.name)
	}
	return fmt.Sprintf("the clock of the daemon's host is %s that of the nodes (%s)", apart(c.ahead), strings.Join(names, ", "))
}

// apart is "2h0m0s ahead of", or behind, in minutes: what is told is to be the same from observation to observation.
func apart(d time.Duration) string {
	if d < 0 {
		return (-d).Round(time.Minute).String() + " behind"
	}
	return d.Round(time.Minute).String() + " ahead of"
}

// problems name every clock that is off: the daemon's, and each node's that differs from most others.
func (c clocks) problems() []cke.Problem {
	var all []cke.Problem
	if c.wrong() {
		all = append(all, cke.Problem{Code: cke.CodeClock, Message: c.Why() + "; what depends on the time waits", Remedy: "correct the clock of the daemon's host"})
	}
	for _, n := range c.told {
		if off := c.ahead - n.ahead; off.Abs() > op.ClockLimit {
			all = append(all, cke.Problem{Code: cke.CodeClock, Node: n.name, Message: fmt.Sprintf("its clock is %s most others", apart(off)), Remedy: "correct its clock: members on it may refuse others' certificates"})
		}
	}
	return all
}

// wasSetBack reports whether what is on record lies so far in the future that the clock must have been set back since. What
// has just ended may be a moment later than the observation.
func wasSetBack(since time.Duration) bool { return since < -time.Minute }

// waited is how long ago something on record happened. Where the clock was set back since, that is not known, and counts as long enough:
// nothing waits until the clock is there again.
func (in *Input) waited(at time.Time) time.Duration {
	if since := in.Seen.ObservedAt.Sub(at); !wasSetBack(since) {
		return since
	}
	return math.MaxInt64
}

// untilNow is the time by which leases and pauses end: the nodes', where the daemon's clock is ahead of it. Where that is
// behind they last for longer, which nobody is hurt by.
func (in *Input) untilNow() time.Time {
	if c := ClocksIn(in.Seen); c.wrong() && c.ahead > 0 {
		return in.Seen.ObservedAt.Add(-c.ahead)
	}
	return in.Seen.ObservedAt
}

// behind is how much longer than asked for something has to last that starts by the daemon's clock: that may be behind.
func (in *Input) behind() time.Duration {
	if c := ClocksIn(in.Seen); c.wrong() && c.ahead < 0 {
		return -c.ahead
	}
	return 0
}

// held reports whether an operator's pause lasts.
func (in *Input) held() bool {
	h := in.Requests.Hold
	return h != nil && h.Active(in.untilNow())
}

// withClock holds an operation back that must not be done by a clock that is wrong.
func withClock(in *Input, d Decision) Decision {
	if d.Operation == nil || !d.Operation.Traits().NeedsClock {
		return d
	}
	c := ClocksIn(in.Seen)
	if !c.wrong() {
		return d
	}
	return Decision{Reason: fmt.Sprintf("%s; %s waits: %s", d.Reason, d.Operation.Name(), c.Why()), Blockers: c.problems()[:1], Converged: d.Converged}
}

// clocksAgree reports which clocks are off.
func clocksAgree(in *Input) cke.Condition {
	c := ClocksIn(in.Seen)
	switch p := c.problems(); {
	case c.wrong():
		return condition(cke.CondClocksAgree, cke.False, "DaemonOff", "%s", p[0].Message)
	case p != nil:
		return condition(cke.CondClocksAgree, cke.False, cke.ReasonNodeOff, "%s", list(p))
	case !c.sure():
		return condition(cke.CondClocksAgree, cke.Unknown, "TooFew", "%d of %d nodes reported their time; no volume is removed for its age", len(c.told), c.nodes)
	}
	return condition(cke.CondClocksAgree, cke.True, "Agree", "no clock differs from most others by more than %s", op.ClockLimit)
}
