package lab

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Cut is a cut cable of a node. The zero value cuts it off from everything, both ways. Packets are dropped silently, as
// by a switch that died: connections hang, they are not refused. A cut stays over power cycles and Wipe.
type Cut struct {
	From      string    `json:"from"`      // FromAll (or empty), FromHost, or a node
	Direction Direction `json:"direction"` // Both if empty
}

// Direction says which packets a cut drops, as the node sees it.
type Direction string

// The directions of a cut.
const (
	Both Direction = "both"
	In   Direction = "in"  // nothing reaches the node
	Out  Direction = "out" // nothing leaves the node
)

// Special values of Cut.From; everything else is a node.
const (
	FromAll  = "all"
	FromHost = "host" // this machine, where cke runs
)

// String says what is cut, such as "all", "host in" or "lab-n2 out".
func (c Cut) String() string {
	if c.Direction == Both {
		return c.From
	}
	return c.From + " " + string(c.Direction)
}

// Cut cuts a node's cable. Works on running, paused and stopped nodes; a paused one feels it once it runs again. Cutting what is cut changes nothing.
func (l *Lab) Cut(ctx context.Context, node string, c Cut) error {
	if c.From == "" {
		c.From = FromAll
	}
	if c.Direction == "" {
		c.Direction = Both
	}
	if !slices.Contains([]Direction{Both, In, Out}, c.Direction) {
		return fmt.Errorf("direction %q: want in, out or both", c.Direction)
	}
	return l.changeCuts(ctx, func(s *state) error {
		n := s.find(l.name, node)
		if n == nil {
			return fmt.Errorf("%w: %s in lab %s", errNoNode, node, l.name)
		}
		if c.From != FromAll && c.From != FromHost {
			other := s.find(l.name, c.From)
			if other == nil || other == n {
				return fmt.Errorf("%w to cut %s from: %s: want all, host or another node of lab %s", errNoNode, n.Name, c.From, l.name)
			}
			c.From = other.Name
		}
		if !slices.Contains(n.Cuts, c) {
			n.Cuts = append(n.Cuts, c)
		}
		return nil
	})
}

// Heal repairs every cut a node has part in, also those made at its peers. Healing what is whole changes nothing.
func (l *Lab) Heal(ctx context.Context, node string) error {
	return l.changeCuts(ctx, func(s *state) error {
		n := s.find(l.name, node)
		if n == nil {
			return fmt.Errorf("%w: %s in lab %s", errNoNode, node, l.name)
		}
		n.Cuts = nil
		for i := range s.Nodes {
			s.Nodes[i].Cuts = slices.DeleteFunc(s.Nodes[i].Cuts, func(c Cut) bool { return c.From == n.Name })
		}
		return nil
	})
}

// changeCuts records a change of cuts and brings the nodes it concerns into line.
func (l *Lab) changeCuts(ctx context.Context, change func(*state) error) error {
	if _, err := l.load(); err != nil {
		return err
	}
	// One change at a time, so that rules reach a node in the order in which they were recorded.
	release, err := lockFile(ctx, l.path("cuts.lock"))
	if err != nil {
		return err
	}
	defer release()
	var concerned []nodeState
	var all state
	err = l.update(ctx, func(s *state) error {
		before := make([][]Cut, len(s.Nodes))
		for i, n := range s.Nodes {
			before[i] = slices.Clone(n.Cuts)
		}
		if err := change(s); err != nil {
			return err
		}
		for i, n := range s.Nodes {
			if !slices.Equal(before[i], n.Cuts) {
				concerned = append(concerned, n)
			}
		}
		all = *s
		return nil
	})
	if err != nil {
		return err
	}
	for _, n := range concerned {
		if err := l.applyCuts(ctx, all, n); err != nil {
			return fmt.Errorf("change the cables of %s: %w", n.Name, err)
		}
	}
	return nil
}

// applyCuts puts the rules into the node, where they are applied at boot, and applies them if it runs.
func (l *Lab) applyCuts(ctx context.Context, s state, n nodeState) error {
	rules, err := cutRules(s, n)
	if err != nil {
		return err
	}
	state, err := l.stateOf(ctx, n.Name)
	if err != nil || state == Missing { // gets them when it is made again
		return err
	}
	if err := l.putFiles(ctx, n.Name, file{Name: "lab/cuts.rules", Mode: 0o644, Data: []byte(rules)}); err != nil {
		return err
	}
	if state != Running {
		return nil
	}
	_, err = l.exec(ctx, n.Name, "/lab/cuts")
	return err
}

// cutRules renders a node's cuts for iptables-restore.
func cutRules(s state, n nodeState) (string, error) {
	var b strings.Builder
	b.WriteString("*filter\n:INPUT ACCEPT\n:FORWARD ACCEPT\n:OUTPUT ACCEPT\n")
	for _, c := range n.Cuts {
		peer := ""
		switch c.From {
		case FromAll:
		case FromHost:
			subnet, err := netip.ParsePrefix(s.Subnet)
			if err != nil {
				return "", fmt.Errorf("subnet of the lab: %w", err)
			}
			peer = gateway(subnet).String()
		default:
			for _, other := range s.Nodes {
				if other.Name == c.From {
					peer = other.Address
				}
			}
		}
		in, out := "-A INPUT ! -i lo", "-A OUTPUT ! -o lo"
		if peer != "" {
			in, out = in+" -s "+peer, out+" -d "+peer
		}
		if c.Direction != Out {
			b.WriteString(in + " -j DROP\n")
		}
		if c.Direction != In {
			b.WriteString(out + " -j DROP\n")
		}
	}
	b.WriteString("COMMIT\n")
	return b.String(), nil
}
