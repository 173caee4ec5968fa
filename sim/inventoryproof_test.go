package sim_test

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"cke"
	"cke/sabakan"
	"cke/sim"
)

// stocked is how the inventory is where a safeguard of it is taken away.
type stocked struct {
	blind  func(*sabakan.Input)
	mode   cke.InventoryMode // empty: auto
	settle time.Duration
	perDay int // zero: many
	spares int
}

// nodes is how many machines there are: with an inventory there are some to take.
func (k *stocked) nodes(n int) int {
	if k == nil {
		return n
	}
	return 5 + n%2
}

func (k *stocked) begin(n *nemesis) {
	if k != nil {
		n.rate = 0.01
		n.s.inventory(cmp.Or(k.mode, cke.InventoryAuto), 3, cmp.Or(k.settle, time.Second), cmp.Or(k.perDay, 20))
		n.s.stock.template.Inventory.Spares = k.spares
	}
}

func (k *stocked) blinds(s *stage) {
	if k != nil {
		s.stock.blind = k.blind
	}
}

// inventoryMutations take each stop of Choose away, and that a state counts which two answers show.
var inventoryMutations = []mutation{
	{name: "an inventory that is off, or only proposes", wants: []string{"without an order in mode"},
		stock: &stocked{mode: cke.InventoryPropose, blind: func(in *sabakan.Input) { in.Template.Inventory.Mode = cke.InventoryAuto }}, often: retires},
	{name: "an inventory that cannot be read", wants: []string{"could not be read"}, stock: &stocked{blind: func(in *sabakan.Input) {
		in.Problem, in.Read.ReadAt = "", in.Now
	}}, begin: func(n *nemesis) {
		n.pause(true)
		n.voter(0).InventorySays(cke.HostRetired, time.Minute)
		n.s.pass(time.Minute)
		n.s.InventoryFails(sim.InventoryAway)
		n.s.pass(time.Minute)
		n.pause(false)
		n.s.pass(time.Minute)
	}},
	{name: "an inventory while changes are not allowed", wants: []string{"while changes are paused", "while the cluster is frozen", "while the cluster is hibernated"},
		stock: &stocked{blind: func(in *sabakan.Input) {
			in.Status.Hibernation, in.Status.Health = nil, cke.HealthReady
			in.Status.Conditions = slices.DeleteFunc(slices.Clone(in.Status.Conditions), func(c cke.Condition) bool { return c.Type == cke.CondPaused })
			allIsWell(in)
		}}, begin: func(n *nemesis) {
			n.pause(true)
			n.s.pass(time.Minute)
			n.voter(0).InventorySays(cke.HostRetired, time.Minute)
			n.s.pass(time.Minute)
		}},
	{name: "an inventory and an old status", wants: []string{"by a status that is old"}, stock: &stocked{blind: func(in *sabakan.Input) {
		in.Status.ObservedAt = in.Now
	}}, begin: func(n *nemesis) {
		n.s.eachNode(func(node *sim.Node) { node.SlowDown(5 * time.Minute) })
		n.s.pass(2 * time.Minute)
		n.voter(0).InventorySays(cke.HostRetired, time.Minute)
		n.s.pass(10 * time.Minute)
	}},
	{name: "an inventory without a quorum", wants: []string{"while there is no quorum"}, stock: &stocked{blind: func(in *sabakan.Input) {
		in.Status.Tolerance, in.Status.Etcd.Quorate = max(0, in.Status.Tolerance), true
		allIsWell(in)
	}}, begin: func(n *nemesis) {
		n.voter(1).PowerOff()
		n.voter(2).PowerOff()
		n.s.pass(time.Minute)
		n.voter(0).InventorySays(cke.HostRetired, time.Minute)
		n.s.pass(time.Minute)
	}},
	{name: "an inventory while another change is under way", wants: []string{"has a learner"}, stock: &stocked{blind: idle}, begin: func(n *nemesis) {
		c := n.s.cluster(n.s.Nodes())
		for i := range c.Nodes {
			c.Nodes[i].ControlPlane = i < 4
		}
		n.s.Nodes()[3].Trickle(true)
		n.s.Store().SetSpec(c)
		n.s.pass(2 * time.Minute)
		n.s.Nodes()[0].InventorySays(cke.HostRetired, time.Minute)
		n.s.pass(time.Minute)
	}},
	{name: "machines of other clusters, in an inventory", wants: []string{"a node of cluster other"}, stock: &stocked{blind: func(in *sabakan.Input) {
		in.Taken, in.TakenProblem = nil, ""
	}}, store: func(s *stage) { s.Store().GiveTwice() }, often: slices.Concat(retires, []func(*nemesis, *sim.Node){func(_ *nemesis, node *sim.Node) { node.GiveTo("other") }})},
	{name: "many machines that turn bad at once", wants: []string{"though many machines turned bad"}, stock: &stocked{blind: func(in *sabakan.Input) {
		states := statesOf(in)
		in.Past.Hosts = maps.Clone(in.Past.Hosts)
		for serial, h := range in.Past.Hosts {
			h.Accepted = states[serial]
			in.Past.Hosts[serial] = h
		}
	}}, often: retires},
	{name: "an inventory settles", wants: []string{"too soon after the last change"}, stock: &stocked{settle: 10 * time.Minute, blind: func(in *sabakan.Input) {
		in.Past.Changes = slices.Clone(in.Past.Changes)
		for i := range in.Past.Changes {
			c := &in.Past.Changes[i]
			c.At, c.ConvergedAt = c.At.Add(-time.Hour), time.Time{}
		}
	}}, often: retires},
	{name: "so many exchanges a day", wants: []string{"changes moved members in a day"}, stock: &stocked{perDay: 1, blind: func(in *sabakan.Input) {
		in.Past.Changes = nil
	}}, often: retires},
	{name: "a machine that was exchanged today", wants: []string{"though it was exchanged less than a day ago"}, stock: &stocked{blind: func(in *sabakan.Input) {
		in.Past.Changes = slices.Clone(in.Past.Changes)
		for i := range in.Past.Changes {
			in.Past.Changes[i].Old, in.Past.Changes[i].RolledBackAt = "", time.Time{}
		}
	}}, begin: func(n *nemesis) {
		n.voter(0).InventorySays(cke.HostRetired, time.Minute)
		n.s.pass(3 * time.Minute)
		n.reverts()
		n.s.pass(3 * time.Minute)
	}},
	{name: "an exchange that does no good", wants: []string{"which serves, while"}, stock: &stocked{blind: allIsWell},
		often: slices.Concat(retires, []func(*nemesis, *sim.Node){flip((*sim.Node).PowerOff, (*sim.Node).PowerOn)})},
	{name: "an exchange makes no zones worse", wants: []string{"makes zones worse"}, stock: &stocked{blind: func(in *sabakan.Input) {
		in.Read.Hosts = slices.Clone(in.Read.Hosts)
		for i := range in.Read.Hosts { // each machine seems to be in a zone of its own
			if h := &in.Read.Hosts[i]; !slices.ContainsFunc(in.Spec.Cluster.Nodes, func(n cke.Node) bool { return n.Name() == h.ID && n.ControlPlane }) {
				h.Zone = h.ID
			}
		}
	}}, often: retires},
	{name: "one answer of an inventory is not enough", wants: []string{"because of one answer"}, stock: &stocked{blind: func(in *sabakan.Input) {
		states := statesOf(in)
		in.Past.Hosts = maps.Clone(in.Past.Hosts)
		for serial, h := range in.Past.Hosts {
			h.State, h.Reads = states[serial], 2
			in.Past.Hosts[serial] = h
		}
	}}, often: retires},
}

// voter is the machine of one of the declared members.
func (n *nemesis) voter(i int) *sim.Node {
	return n.s.Node(n.s.Store().Spec().Cluster.ControlPlane()[i].Name())
}

// retires lets one machine retire, and all others be as they were for long.
var retires = []func(*nemesis, *sim.Node){
	func(n *nemesis, node *sim.Node) { node.InventorySays(cke.HostRetired, time.Minute) },
	func(_ *nemesis, node *sim.Node) { node.InventorySays(cke.HostHealthy, time.Hour) },
	func(n *nemesis, _ *sim.Node) { n.s.InventoryFails(sim.InventoryAnswers) },
}

// idle lets nothing be under way.
func idle(in *sabakan.Input) {
	s := &in.Status
	s.Generation, s.ObservedGeneration, s.Operation, s.Drains, s.Electing = in.Spec.Generation, in.Spec.Generation, nil, nil, nil
	s.Members = slices.Clone(s.Members)
	for i := range s.Members {
		if s.Members[i].Role == "learner" {
			s.Members[i].Role = "follower"
		}
	}
	allIsWell(in)
}

// allIsWell lets any work end well.
func allIsWell(in *sabakan.Input) {
	in.Simulate = func(cke.Cluster) (sabakan.Simulated, error) { return sabakan.Simulated{Least: 3, Tolerance: 3}, nil }
}

// statesOf are the states of all machines by the last answer.
func statesOf(in *sabakan.Input) map[string]cke.HostState {
	states := map[string]cke.HostState{}
	for serial := range in.Past.Hosts {
		states[serial] = cke.HostMissing
	}
	for _, h := range in.Read.Hosts {
		states[h.ID] = h.State
	}
	return states
}
