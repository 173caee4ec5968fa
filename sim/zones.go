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
			if zone := zoneOf(m); zone != "" && zone != z.Name && servesIn(s.Etcd, m) {
				left++
			}
		}
		can := s.Etcd.Quorate && left >= majority(voters)
		if z.CanBeLost && !can || can && !z.CanBeLost && s.Health == cke.HealthReady {
			c.violated("daemon %d reports of zone %s that it can be lost: %t, while %d of %d voters serve outside", d.number, z.Name, z.CanBeLost, left, voters)
		}
	}
}

// zoneOf is the zone of a member's peer URL.
func zoneOf(m cke.Member) string {
	if len(m.PeerURLs) == 0 {
		return ""
	}
	u, err := url.Parse(m.PeerURLs[0])
	if err != nil {
		return ""
	}
	return zoneAt(u.Hostname())
}

// servesIn reports whether a member that cke knows answered a linearizable read.
func servesIn(s cke.EtcdStatus, m cke.Member) bool {
	for _, e := range s.Endpoints {
		if e.Join != "" && e.MemberID == m.ID && e.Problem == "" && e.Linearizable {
			return true
		}
	}
	return false
}
