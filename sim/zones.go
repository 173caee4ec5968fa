package sim

import (
	"fmt"
	"net/url"

	"cke"
)

// zoneAt is the zone that a file names for the machine at an address. Every fifth machine has none.
func zoneAt(address string) string {
	if address == "" {
		return ""
	}
	last := int(address[len(address)-1] - '0')
	if last%5 == 0 {
		return ""
	}
	return fmt.Sprintf("rack%d", last%3)
}

// fatalZones counts the zones without which the members of a file are no quorum, by where its machines are. While a cluster grows, the
// quorum is that of as many as it grows to. Machines without a zone count as in one.
func (i *inventory) fatalZones(c cke.Cluster) (fatal int) {
	inside, voters := map[string]int{}, c.ControlPlane()
	for _, n := range voters {
		inside[zoneAt(n.Address)]++
	}
	all := max(len(voters), i.options.ControlPlane)
	for _, n := range inside {
		if all-n < majority(all) {
			fatal++
		}
	}
	return fatal
}

// wasSpread checks that a status reports zones as they can be lost by its own answers of members, counted zone by zone. Of a
// cluster that is not ready it may report less.
func (c *checker) wasSpread(d *Daemon, s cke.Status) {
	if s.Spread == nil {
		return
	}
	for _, z := range s.Spread.Zones {
		voters, left := 0, 0
		for _, m := range s.Etcd.Members {
			if m.Learner {
				continue
			}
			voters++
			if zone := zoneIn(s.Etcd, m); zone != "" && zone != z.Name {
				left++
			}
		}
		can := s.Etcd.Quorate && left >= majority(voters)
		if z.CanBeLost && !can || can && !z.CanBeLost && s.Health == cke.HealthReady {
			c.violated("daemon %d reports of zone %s that it can be lost: %t, while %d of %d voters serve outside", d.number, z.Name, z.CanBeLost, left, voters)
		}
	}
}

// zoneIn is the zone of the place at which a member that cke knows answered a linearizable read, or "". The list may name the place
// that a machine had before it moved.
func zoneIn(s cke.EtcdStatus, m cke.Member) string {
	for _, e := range s.Endpoints {
		if e.Join == "" || e.MemberID != m.ID || e.Problem != "" || !e.Linearizable {
			continue
		}
		if u, err := url.Parse(e.URL); err == nil {
			return zoneAt(u.Hostname())
		}
	}
	return ""
}
