package sabakan

import (
	"maps"
	"strconv"
	"strings"

	"cke"
	"cke/quorum"
)

// zoneOf returns the zone of a machine as the template wants it; empty: it has none.
func (c *chooser) zoneOf(h *cke.Host) string {
	label, isLabel := strings.CutPrefix(c.o.Zone, cke.ZoneLabel)
	switch {
	case isLabel:
		return h.Labels[label]
	case c.o.Zone != cke.ZoneRack:
		return h.Zone
	}
	name, known := c.racks[h.Rack]
	if !known {
		name = cke.ZoneRack + strconv.Itoa(h.Rack)
		c.racks[h.Rack] = name
	}
	return name
}

// spread counts voters by their zones.
type spread map[string]int

// spreadOf counts the control-plane nodes of a cluster.
func spreadOf(c cke.Cluster) spread {
	declared, s := c.DeclaredSpread(), spread{}
	for _, z := range declared.Zones {
		s[z.Name] = len(z.Voters)
	}
	if n := len(declared.Unplaced()); n > 0 {
		s[""] = n
	}
	return s
}

// with returns the spread with one more voter.
func (s spread) with(zone string) spread {
	more := maps.Clone(s)
	more[zone]++
	return more
}

// without returns the spread with one voter less.
func (s spread) without(zone string) spread {
	less := maps.Clone(s)
	if less[zone]--; less[zone] <= 0 {
		delete(less, zone)
	}
	return less
}

// fatal counts the zones whose loss would end the quorum of so many voters. Those without a zone count as in one: to compare two
// spreads, nothing has to be known of them.
func (s spread) fatal(voters int) int {
	all, n := quorum.Tally{Voters: voters, Healthy: voters}, 0
	for _, inside := range s {
		if all.Pause(inside) != "" {
			n++
		}
	}
	return n
}
