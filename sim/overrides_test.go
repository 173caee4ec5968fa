package sim_test

import (
	"maps"
	"testing"
	"time"

	"cke"
	"cke/sabakan"
)

// An order accepts that many machines turned bad only if it was given in spite of that, and not if it was in spite of another stop.
func TestChecker_AnOrderAcceptsOnlyWhatItOverrides(t *testing.T) {
	play(t, 9, func(s *stage) {
		s.inventory(cke.InventoryAuto, 5, 2*time.Minute, 20)
		c := s.cluster(s.Nodes())
		for i := range c.Nodes {
			c.Nodes[i].ControlPlane = i < 5
		}
		s.Store().SetSpec(c)
		s.daemon()
		if !s.until(convergence, s.settled) {
			t.Fatal("no cluster")
		}
		n := s.person()
		s.stock.blind = func(in *sabakan.Input) { // what turned bad counts as accepted
			states := statesOf(in)
			in.Past.Hosts = maps.Clone(in.Past.Hosts)
			for serial, h := range in.Past.Hosts {
				h.Accepted = states[serial]
				in.Past.Hosts[serial] = h
			}
		}
		s.Node("n1").InventorySays(cke.HostRetired, time.Minute)
		s.until(5*time.Minute, func() bool { return len(s.Store().InventoryLog().Changes) > 0 })
		for _, name := range []string{"n2", "n3", "n4"} {
			s.Node(name).InventorySays(cke.HostRetired, time.Minute)
		}
		if !s.until(time.Minute, func() bool {
			n.orders()
			return len(s.Store().InventoryLog().Changes) > 1
		}) {
			t.Fatalf("the order is not carried out: %+v", s.told().Inventory)
		}
		s.pass(5 * time.Minute)
		s.mustViolate(t, "though many machines turned bad")
	})
}
