package sim_test

import (
	"slices"
	"testing"
	"time"

	"cke"
	"cke/sabakan"
	"cke/sim"
)

// succeeded plays a cluster of three whose inventory has so many machines, one of which leaves that has a member. Another machine has its
// address and has been healthy for long.
func succeeded(t *testing.T, machines, spares int, scene func(s *stage, next *sim.Node)) {
	t.Helper()
	play(t, machines, func(s *stage) {
		s.inventory(cke.InventoryAuto, 3, time.Second, 20)
		s.stock.template.Inventory.Spares = spares
		s.declare(s.Nodes()[:3]...)
		s.daemon()
		s.must("formed", s.settled)
		s.pass(time.Minute)
		next := s.Node("n2").Succeed("n2b")
		next.InventorySays(cke.HostHealthy, time.Hour)
		scene(s, next)
		s.isUnharmed(t)
	})
}

// shows awaits that the status shows a change for this reason, which waits for the operator, and returns it.
func (s *stage) shows(cause cke.InventoryCause) *cke.InventoryProposal {
	s.t.Helper()
	is := func() bool {
		i := s.told().Inventory
		return i != nil && i.Change != nil && i.Change.Cause == cause
	}
	s.must("shows "+string(cause), is)
	before := s.Store().Spec().Generation
	if s.pass(20 * time.Minute); s.Store().Spec().Generation != before || !is() || s.told().Inventory.Change.Auto {
		s.t.Fatalf("revision %d, was %d: %+v", s.Store().Spec().Generation, before, s.told().Inventory)
	}
	return s.told().Inventory.Change
}

// carriesMembers reports whether members serve on these machines and no others.
func (s *stage) carriesMembers(names ...string) bool {
	return s.settled() && slices.Equal(s.declared(), names) && len(s.faults(names...)) == 0
}

// The member moves to another machine by itself. The successor becomes a spare once an operator has accepted that the host key of the
// machine before is forgotten.
func TestInventory_ASuccessorIsDeclaredWhenAnOperatorSaysSo(t *testing.T) {
	succeeded(t, 5, 2, func(s *stage, next *sim.Node) {
		s.must("exchanged", func() bool { return s.settled() && !slices.Contains(s.declared(), "n2") && len(s.declared()) == 3 })
		p := s.shows(cke.CauseSpare)
		if address := next.Declared().Address; p.New != "n2b" || !slices.Equal(p.Forget, []string{address}) || len(p.Confirm) == 0 {
			t.Fatalf("%+v", p)
		}
		s.Store().OrderInventory(p.Hash)
		s.must("declared", func() bool {
			return slices.ContainsFunc(s.told().Nodes, func(n cke.NodeStatus) bool { return n.Node.Name() == "n2b" && n.Answered() })
		})
	})
}

// Only the successor is left: the membership of the machine before ends first, then the successor gets a member. The operator orders both.
func TestInventory_TheMembershipEndsBeforeItsSuccessorIsDeclared(t *testing.T) {
	succeeded(t, 3, 0, func(s *stage, _ *sim.Node) {
		for _, cause := range []cke.InventoryCause{cke.CauseSuccessor, cke.CauseMore} {
			s.Store().OrderInventory(s.shows(cause).Hash)
			s.must("ordered", func() bool { return s.settled() })
		}
		s.must("moved", func() bool { return s.carriesMembers("n1", "n3", "n2b") })
	})
}

// successorMutations take away that the operator orders the declaration of a successor, and that its place is free then.
var successorMutations = []mutation{
	{name: "an operator orders that a successor is declared", wants: []string{"another host key than the machine before"}, stock: &stocked{spares: 4, blind: func(in *sabakan.Input) {
		in.Past.Serials = nil
	}}, begin: successor, often: retires},
	{name: "a membership ends before its successor is declared", wants: []string{"whose membership has not ended"}, stock: &stocked{spares: 4, blind: func(in *sabakan.Input) {
		idle(in)
		in.Past.Serials = nil
		in.Status.Members = slices.DeleteFunc(slices.Clone(in.Status.Members), func(m cke.MemberStatus) bool {
			return !slices.ContainsFunc(in.Spec.Cluster.Nodes, func(n cke.Node) bool { return n.Name() == m.Name })
		})
	}}, begin: successor, often: retires},
}

// successor lets one machine with a member have one.
func successor(n *nemesis) {
	n.voter(0).Succeed(n.voter(0).Name()+"b").InventorySays(cke.HostHealthy, time.Hour)
	n.s.pass(5 * time.Minute)
}
