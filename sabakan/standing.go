package sabakan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"cke"
)

// contradicted is for how long a member has to be silent on a healthy machine before that is reported.
const contradicted = time.Minute

// standing is what is known of a declared node that comes from the inventory.
type standing struct {
	cke.Node
	serial string
	host   *cke.Host // nil: the read lacks it
	state  cke.HostState
	past   HostPast
	member *cke.MemberStatus // of a control-plane node; nil: unknown
	// serves: its member serves or, where it should carry none, its node answers; else silent is for how long that was observed.
	serves bool
	silent time.Duration
	// cause is why it has to be exchanged; empty: it has not. held is why not now.
	cause cke.InventoryCause
	held  string
}

// standing returns what is known of a node; false: it is not from the inventory.
func (c *chooser) standing(n cke.Node) (standing, bool) {
	s := standing{Node: n, serial: serialOf(n, func(serial string) bool { return c.hosts[serial] != nil || c.Past.Hosts[serial].State != "" })}
	if s.serial == "" {
		return s, false
	}
	s.host, s.state, s.past = c.hosts[s.serial], missing, c.Past.Hosts[s.serial]
	if s.host != nil {
		s.state = s.host.State
	}
	if i := slices.IndexFunc(c.Status.Members, func(m cke.MemberStatus) bool { return m.Name == n.Name() }); i >= 0 {
		m := &c.Status.Members[i]
		s.member, s.serves, s.silent = m, m.Ready, time.Duration(m.Watched)
	}
	if !n.ControlPlane {
		s.serves, s.silent = c.answers(n.Address, s.past)
	}
	return s, true
}

// answers reports whether the node at an address answers, and if not, for how long reads in a row found that.
func (c *chooser) answers(address string, p HostPast) (answers bool, silent time.Duration) {
	if i := slices.IndexFunc(c.Status.Nodes, func(o cke.NodeStatus) bool { return o.Node.Address == address }); i >= 0 {
		if o := c.Status.Nodes[i]; o.Answered() || o.SeenAt.After(c.Past.ReadAt) {
			return o.Answered(), 0
		}
	}
	return false, time.Duration(p.Silent)
}

// lasting reports whether at least two good reads in a row had the state of the machine.
func (c *chooser) lasting(s *standing) bool { return s.past.State == s.state && c.seen(s.past) }

// seen reports whether an earlier read than this one had the state and the address of a machine.
func (c *chooser) seen(p HostPast) bool {
	return p.Reads > 1 || p.Reads == 1 && !c.Past.ReadAt.Equal(c.Read.ReadAt)
}

// in reports whether the machine is in a state for so long.
func (s *standing) in(state cke.HostState, grace cke.Duration) bool {
	return s.state == state && s.host.For >= time.Duration(grace)
}

// exchanges are the causes for which a machine has to go, by their urgency. Of each, two reads have to show the state.
var exchanges = []struct {
	cause cke.InventoryCause
	due   func(*chooser, *standing) bool
	words string
}{
	{cke.CauseRetired, func(c *chooser, s *standing) bool { return s.state == cke.HostRetired }, "is retired"},
	{cke.CauseMissing, func(c *chooser, s *standing) bool {
		return s.state == missing && s.past.Watched >= c.o.Grace.Missing && slices.Contains(c.Unregistered, s.serial)
	}, "is no longer registered"},
	{cke.CauseSuccessor, func(c *chooser, s *standing) bool {
		return s.state == missing && c.silentFor(s) && c.successor(s) != nil
	}, "is gone, and another machine has its address"},
	{cke.CauseRetiring, func(c *chooser, s *standing) bool { return s.in(cke.HostRetiring, c.o.Grace.Retiring) }, "is retiring"},
	{cke.CauseUnreachable, func(c *chooser, s *standing) bool {
		return s.in(cke.HostUnreachable, c.o.Grace.Unreachable) && c.silentFor(s)
	}, "is unreachable"},
	{cke.CauseUnhealthy, func(c *chooser, s *standing) bool {
		return s.serves && s.in(cke.HostUnhealthy, c.o.Grace.Unhealthy) || s.in(cke.HostUnhealthy, c.o.Grace.Unreachable) && c.silentFor(s)
	}, "is unhealthy"},
	{cke.CauseMaintenance, func(c *chooser, s *standing) bool {
		return s.in(cke.HostMaintenance, c.o.Grace.Maintenance) && c.silentFor(s)
	}, "is in maintenance for too long"},
}

// silentFor reports whether the member, or the node, was observed not to serve for as long as an unreachable machine is waited for.
func (c *chooser) silentFor(s *standing) bool {
	return !s.serves && s.silent >= time.Duration(c.o.Grace.Unreachable)
}

// successor returns the machine that has the address of a node whose own machine is missing, if the read before had it, too.
func (c *chooser) successor(s *standing) *cke.Host {
	if h := c.at[s.Address]; h != nil && h.ID != s.serial && c.Past.Hosts[h.ID].Address == s.Address && c.seen(c.Past.Hosts[h.ID]) {
		return h
	}
	return nil
}

// judge finds why a machine has to be exchanged, or what is waited for, and what contradicts itself.
func (c *chooser) judge(s *standing) {
	for _, e := range exchanges {
		if s.cause == "" && c.lasting(s) && e.due(c, s) {
			s.cause, s.held = e.cause, c.heldBack(s)
		}
	}
	switch silent := !s.serves && s.silent >= contradicted; {
	case s.cause != "" && s.held != "":
		c.note(Note{Node: s.Name(), Text: s.words() + "; " + s.held})
	case s.cause != "":
	case s.state == missing && c.lasting(s) && s.past.Watched >= c.o.Grace.Missing:
		c.out.Ask = append(c.out.Ask, s.serial)
		c.note(Note{Node: s.Name(), Text: fmt.Sprintf("machine %s is not in the inventory; it is asked for", s.serial)})
	case bad(s.state) || s.state == cke.HostMaintenance:
		c.inGrace(s)
	case s.state == cke.HostHealthy && silent && s.ControlPlane && s.member.Join != "":
		c.note(Note{Node: s.Name(), Code: cke.CodeHostDisagrees, Text: fmt.Sprintf("the inventory says that machine %s is healthy, and its member does not serve", s.serial)})
	}
}

// inGrace notes for what a machine that is not well is waited for.
func (c *chooser) inGrace(s *standing) {
	g := c.o.Grace
	grace := map[cke.HostState]cke.Duration{cke.HostRetiring: g.Retiring, cke.HostUnreachable: g.Unreachable, cke.HostUnhealthy: g.Unhealthy, cke.HostMaintenance: g.Maintenance, missing: g.Missing}[s.state]
	if s.state == cke.HostUnhealthy && !s.serves {
		grace = g.Unreachable
	}
	been := time.Duration(0)
	if s.host != nil {
		been = s.host.For
	} else if c.lasting(s) {
		been = time.Duration(s.past.Watched)
	}
	is := map[cke.HostState]string{cke.HostMaintenance: "in maintenance", missing: "not in the inventory"}[s.state]
	is = fmt.Sprintf("machine %s is %s", s.serial, cmp.Or(is, string(s.state)))
	n := Note{Node: s.Name(), Text: fmt.Sprintf("%s; it is exchanged after %s", is, grace.Short())}
	left := time.Duration(grace) - been
	switch needsSilence := s.state == cke.HostUnreachable || s.state == cke.HostMaintenance; {
	case needsSilence && s.serves:
		n = Note{Node: s.Name(), Text: is + ", and its member serves"}
		if s.state == cke.HostUnreachable {
			n.Code = cke.CodeHostDisagrees
		}
	case !s.serves && s.state != cke.HostRetiring && s.state != missing:
		left = max(left, time.Duration(g.Unreachable)-s.silent)
		fallthrough
	default:
		if n.Until = c.Now.Add(left); left <= 0 {
			n = Note{Node: s.Name(), Text: is + "; it is exchanged if the next read says so, too"}
		}
	}
	c.note(n)
}

// words say why the machine has to go.
func (s *standing) words() string {
	for _, e := range exchanges {
		if e.cause == s.cause {
			return fmt.Sprintf("machine %s %s", s.serial, e.words)
		}
	}
	return ""
}

// heldBack returns why a machine is not exchanged now although it is due; empty: it may be.
func (c *chooser) heldBack(s *standing) string {
	if flapping(s.past, c.Now) {
		return fmt.Sprintf("it changed its state %d times in 24h", flaps)
	}
	for _, a := range c.Past.Changes {
		switch {
		case a.Old != s.serial:
		case within(a.RolledBackAt, c.Now, day):
			return "its exchange was rolled back less than 24h ago"
		case within(a.At, c.Now, day):
			return "it was exchanged less than 24h ago"
		}
	}
	return ""
}
