package plan

import (
	"fmt"

	"cke"
	"cke/quorum"
	"cke/server/strategy"
	"cke/sim"
)

// Zones is how many zones can be lost before, during and after an operation.
type Zones struct {
	Before ZoneCount `json:"before"`
	During ZoneCount `json:"during"`
	After  ZoneCount `json:"after"`
}

// ZoneCount is how many of the zones that have voters can be lost, each alone; zero: there is no quorum.
type ZoneCount struct {
	Losable int `json:"losable"`
	Of      int `json:"of"`
}

// String returns the zones before, during and after an operation.
func (z Zones) String() string { return fmt.Sprintf("%s → %s → %s", z.Before, z.During, z.After) }

// Zones is how many zones can be lost before the plan, at the least meanwhile, and after it; nil: it has no operation, or no zones.
func (p Plan) Zones() (all *Zones) {
	for _, s := range p.Steps {
		switch {
		case s.Zones == nil:
		case all == nil:
			z := *s.Zones
			all = &z
		default:
			all.During, all.After = all.During.least(s.Zones.During), s.Zones.After
		}
	}
	return all
}

// String returns the count, as "2/3".
func (c ZoneCount) String() string {
	if c.Of == 0 {
		return "none"
	}
	return fmt.Sprintf("%d/%d", c.Losable, c.Of)
}

// least returns the worse of two counts.
func (c ZoneCount) least(o ZoneCount) ZoneCount {
	switch {
	case c.Of == 0 || o.Of == 0:
		return ZoneCount{}
	case o.Losable < c.Losable || o.Losable == c.Losable && o.Of > c.Of:
		return o
	}
	return c
}

// zonesIn counts those of a status.
func zonesIn(s *cke.Spread) ZoneCount {
	if s == nil {
		return ZoneCount{}
	}
	return ZoneCount{s.Losable(), len(s.Zones)}
}

// zonesByPeer returns the zones of members by their peer URLs. Those of foreign members are unknown.
func zonesByPeer(in strategy.Input) map[string]string {
	zones := map[string]string{}
	if !in.Spec.HasZones() {
		return zones
	}
	for _, n := range in.Spec.Nodes {
		zones[in.Spec.Options.Etcd.PeerURL(n)] = n.Zone
	}
	for _, j := range in.Identity.Joins {
		zones[j.PeerURL()] = in.Spec.ZoneOf(j.Node)
	}
	for _, m := range in.Seen.Etcd.Members {
		if len(m.PeerURLs) > 0 && joinOf(in, m).ID == "" {
			zones[m.PeerURLs[0]] = ""
		}
	}
	return zones
}

// standing is what can be lost at one moment.
type standing struct {
	tolerance int // -1: there is no quorum
	zones     ZoneCount
}

// unwatched is better than everything that is seen.
var unwatched = standing{quorum.MostVoters, ZoneCount{quorum.MostVoters, quorum.MostVoters}}

// least returns the worse of each.
func (s standing) least(o standing) standing {
	return standing{min(s.tolerance, o.tolerance), s.zones.least(o.zones)}
}

// standingOf returns what the voters of the copy can lose.
func (s *stage) standingOf(voters []sim.Voter) standing {
	if voters == nil {
		return standing{tolerance: -1}
	}
	t, all := quorum.Tally{Voters: len(voters)}, []cke.Voter{}
	for _, v := range voters {
		if v.Serves {
			t.Healthy++
		}
		all = append(all, cke.Voter{Zone: s.zones[v.PeerURL], Healthy: v.Serves})
	}
	spread := cke.SpreadOf(all)
	return standing{t.Tolerance(), zonesIn(&spread)}
}
