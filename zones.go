package cke

import (
	"fmt"
	"slices"
	"strings"

	"cke/quorum"
)

// Voter is a voter of a member list, with its zone.
type Voter struct {
	Name string `json:"name"`
	// Zone is empty if none is known, as of a foreign member: the voter then counts as in every zone.
	Zone    string `json:"zone,omitempty"`
	Healthy bool   `json:"healthy"`
}

// Zone is a failure zone with voters.
type Zone struct {
	Name   string   `json:"name"`
	Voters []string `json:"voters"`
	// CanBeLost reports whether all nodes of the zone may fail together and the cluster still serves; CannotBecause is
	// the arithmetic if not.
	CanBeLost     bool   `json:"canBeLost"`
	CannotBecause string `json:"cannotBecause,omitempty"`
}

// Spread is how the voters of a member list are spread over zones.
type Spread struct {
	Voters []Voter `json:"voters"`
	// Zones are those of the voters, by name.
	Zones []Zone `json:"zones"`
	// Advice is how the spread could be better; cke never changes it by itself.
	Advice string `json:"advice,omitempty"`
}

// SpreadOf computes which zones can be lost: those without which the healthy voters are still a majority of the list. A
// voter without a zone counts as in every zone. Without a quorum no voter is healthy.
func SpreadOf(voters []Voter) Spread {
	s := Spread{Voters: voters, Zones: []Zone{}}
	t, healthy := quorum.Tally{Voters: len(voters)}, map[string]int{}
	for _, v := range voters {
		if v.Healthy {
			t.Healthy++
			healthy[v.Zone]++
		}
		if v.Zone == "" {
			continue
		}
		i, there := slices.BinarySearchFunc(s.Zones, v.Zone, func(z Zone, name string) int { return strings.Compare(z.Name, name) })
		if !there {
			s.Zones = slices.Insert(s.Zones, i, Zone{Name: v.Zone})
		}
		s.Zones[i].Voters = append(s.Zones[i].Voters, v.Name)
	}
	for i := range s.Zones {
		z := &s.Zones[i]
		away := healthy[z.Name] + healthy[""]
		switch z.CanBeLost = t.Pause(away) == ""; {
		case z.CanBeLost:
		case t.Pause(0) != "":
			z.CannotBecause = "there is no quorum"
		default:
			z.CannotBecause = fmt.Sprintf("%d of %d would be left, %d needed", t.Healthy-away, t.Voters, quorum.Of(t.Voters))
		}
	}
	return s
}

// Losable returns how many zones can be lost, each alone.
func (s Spread) Losable() int {
	n := 0
	for _, z := range s.Zones {
		if z.CanBeLost {
			n++
		}
	}
	return n
}

// AnyOne reports whether any one zone can be lost.
func (s Spread) AnyOne() bool { return len(s.Zones) > 0 && s.Losable() == len(s.Zones) }

// Unplaced returns the names of the voters without a zone.
func (s Spread) Unplaced() (names []string) {
	for _, v := range s.Voters {
		if v.Zone == "" {
			names = append(names, v.Name)
		}
	}
	return names
}

// Without returns the spread while the voter of this name does not serve.
func (s Spread) Without(name string) Spread {
	voters := slices.Clone(s.Voters)
	for i := range voters {
		voters[i].Healthy = voters[i].Healthy && voters[i].Name != name
	}
	return SpreadOf(voters)
}

// WorseThan reports whether, where zones could be lost before, more of them cannot be lost now, or none can.
func (s Spread) WorseThan(before Spread) bool {
	left, was := s.Losable(), before.Losable()
	return was > 0 && (left == 0 || len(s.Zones)-left > len(before.Zones)-was)
}

// DeclaredSpread returns the spread once all is as declared and healthy.
func (c Cluster) DeclaredSpread() Spread {
	var voters []Voter
	for _, n := range c.ControlPlane() {
		voters = append(voters, Voter{Name: n.Name(), Zone: n.Zone, Healthy: true})
	}
	return SpreadOf(voters)
}

// HasZones reports whether a declared node has a zone.
func (c Cluster) HasZones() bool {
	return slices.ContainsFunc(c.Nodes, func(n Node) bool { return n.Zone != "" })
}

// ZoneOf returns the zone of a node that carries a member: as it is declared now or, if it no longer is, as it was.
func (c Cluster) ZoneOf(n Node) string {
	for i := range c.Nodes {
		if c.Nodes[i].Address == n.Address {
			return c.Nodes[i].Zone
		}
	}
	return n.Zone
}
