package keep_test

import (
	"testing"
	"time"

	"cke"
	"cke/sabakan/keep"
)

// Bad case 6: what the inventory said of a node, or where it moved, is rolled back: that is held for a day, too.
func TestKeeper_BadCase6_ARollbackOfADescriptionOrAMoveIsHeld(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(h *house)
		value  func(n cke.Node) string
		was    string
		is     string
		redo   func(n *cke.Node) // what the operator writes; nil: the whole revision before
	}{
		{"a zone", func(h *house) { h.hosts[1].Zone = "wrong" }, func(n cke.Node) string { return n.Zone }, "zone-s2", "wrong", nil},
		{"a label that was added", func(h *house) { h.hosts[1].Labels = map[string]string{"disk": "wrong"} }, func(n cke.Node) string { return n.Labels["disk"] }, "", "wrong", nil},
		{"one of two zones", func(h *house) { h.hosts[0].Zone, h.hosts[1].Zone = "right", "wrong" }, func(n cke.Node) string { return n.Zone }, "zone-s2", "wrong",
			func(n *cke.Node) { n.Zone = "zone-s2" }},
		{"an address", func(h *house) {
			h.hosts[1].Addresses, h.silent = []string{"10.0.9.2"}, "10.0.0.2"
		}, func(n cke.Node) string { return n.Address }, "10.0.0.2", "10.0.9.2", nil},
	} {
		play(t, 5, cke.InventoryAuto, func(t *testing.T, h *house) {
			value := func() string {
				h.mu.Lock()
				defer h.mu.Unlock()
				n, _ := h.spec.Cluster.Node("s2")
				return c.value(n)
			}
			h.lead(func(*keep.Keeper) {
				pass(2 * time.Minute)
				before := h.spec
				h.change(func() { c.change(h) })
				pass(30 * time.Minute)
				is(t, c.name+" that the inventory changed", value(), c.is)
				h.change(func() {
					now := h.spec
					if c.redo != nil {
						before.Cluster.Nodes = append([]cke.Node(nil), now.Cluster.Nodes...)
						c.redo(&before.Cluster.Nodes[1])
					}
					h.spec = now.Following(before.Cluster, now)
					h.spec.SetBy = "me@here"
				})
				pass(time.Hour)
			})
			h.lead(func(k *keep.Keeper) { // another daemon knows it, too
				pass(22 * time.Hour)
				is(t, c.name+" that was rolled back", value(), c.was)
				is(t, c.name+": stop", k.Status().Stop, "node")
				is(t, c.name+": what it replaced is not shown", k.Status().Log.Changes[0].Before == nil, true)
				pass(2 * time.Hour)
				is(t, c.name+" a day later", value(), c.is)
			})
		})
	}
}

// The inventory says something, and then again what it said before: nobody has rolled that back.
func TestKeeper_AnInventoryThatSaysWhatItSaidBeforeIsNoRollback(t *testing.T) {
	play(t, 5, cke.InventoryAuto, func(t *testing.T, h *house) {
		h.lead(func(*keep.Keeper) {
			pass(2 * time.Minute)
			for _, zone := range []string{"other", "zone-s2", "third"} {
				h.change(func() { h.hosts[1].Zone = zone })
				pass(time.Hour)
				n, _ := h.spec.Cluster.Node("s2")
				is(t, "zone", n.Zone, zone)
			}
			is(t, "changes", len(h.log.Changes), 3)
		})
	})
}

// A rollback that is seen by a clock that may be wrong is dated once the clock is right, and nothing is changed meanwhile.
func TestKeeper_ARollbackIsDatedByAClockThatIsRight(t *testing.T) {
	play(t, 5, cke.InventoryAuto, func(t *testing.T, h *house) {
		h.lead(func(k *keep.Keeper) {
			pass(2 * time.Minute)
			before := h.spec
			h.turns("s2", cke.HostRetired)
			pass(2 * time.Minute)
			is(t, "members", h.members(), "s1 s3 s4")
			h.change(func() {
				h.status.Conditions = []cke.Condition{{Type: cke.CondClocksAgree, Status: cke.False, Reason: "DaemonOff", Message: "the clock of the daemon's host is 23h behind"}}
				h.spec = h.spec.Following(before.Cluster, h.spec)
			})
			pass(time.Hour)
			is(t, "members", h.members(), "s1 s2 s3")
			is(t, "stop", k.Status().Stop, "status")
			is(t, "dated", h.log.Changes[0].RolledBackAt.IsZero(), true)
			h.change(func() { h.status.Conditions = nil })
			pass(time.Minute)
			is(t, "once the clock is right, dated", time.Since(h.log.Changes[0].RolledBackAt) < 2*time.Minute, true)
			is(t, "members", h.members(), "s1 s2 s3")
		})
	})
}
