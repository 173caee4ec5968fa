package sabakan

import (
	"slices"
	"strings"

	"cke"
)

// Uses of machines.
const (
	UseMember = "member"
	UseSpare  = "spare"
)

// Machine is one machine of an inventory, with its part in the cluster.
type Machine struct {
	cke.Host
	Zone string `json:"zone,omitempty"`
	// Use is member or spare, and Node the name of the node; empty: it is not declared.
	Use  string `json:"use,omitempty"`
	Node string `json:"node,omitempty"`
	// Unfit is why no further member may be put on it; empty: it is a candidate.
	Unfit string `json:"unfit,omitempty"`
}

// Machines returns all machines of a read by their serials, as Choose judges them.
func Machines(in Input) []Machine {
	c := newChooser(in)
	c.gather()
	s := c.newSearch()
	all := make([]Machine, 0, len(in.Read.Hosts))
	for i := range in.Read.Hosts {
		h := &in.Read.Hosts[i]
		why, _ := s.judge(h, true)
		m := Machine{Host: *h, Zone: c.zoneOf(h), Unfit: unfitWords[why]}
		if at, declared := s.declared[h.ID]; declared {
			n := in.Spec.Cluster.Nodes[at]
			if m.Use, m.Node = UseSpare, n.Name(); n.ControlPlane {
				m.Use, m.Unfit = UseMember, ""
			}
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b Machine) int { return strings.Compare(a.ID, b.ID) })
	return all
}
