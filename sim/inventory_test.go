package sim_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"cke"
	"cke/sabakan"
	"cke/sabakan/keep"
	"cke/server/strategy"
	"cke/sim"
)

// stock is how daemons work with the inventory of the machines.
type stock struct {
	s        *stage
	template cke.Template
	// blind changes what Choose is given: for mutations.
	blind func(*sabakan.Input)
}

// inventory lets there be one, by which cke works in a mode. Its times fit schedules of minutes.
func (s *stage) inventory(mode cke.InventoryMode, members int, settle time.Duration, perDay int) {
	o := cke.InventoryOptions{Source: cke.SourceFile, Mode: mode, ControlPlane: members, Interval: cke.Duration(8 * time.Second),
		Grace: cke.Grace{Retiring: cke.Duration(20 * time.Second), Unreachable: cke.Duration(30 * time.Second), Unhealthy: cke.Duration(40 * time.Second),
			Missing: cke.Duration(30 * time.Second), Maintenance: cke.Duration(time.Minute)},
		Limits: cke.Limits{ChangesPerDay: perDay, Settle: cke.Duration(settle)}}
	k := &stock{s: s, template: cke.Template{Name: clusterName, Nodes: []cke.Node{{ControlPlane: true, SSH: cke.SSH{Port: 22}}}, Inventory: o}.Filled()}
	s.stock = k
	s.RunInventory(k.template.Inventory, sabakan.TemplateHash(k.template))
}

// declared is a node as a file has it that goes by the inventory.
func (k *stock) declared(n cke.Node) cke.Node {
	if k != nil {
		n.Annotations = map[string]string{cke.AnnotationSerial: n.Hostname}
	}
	return n
}

// beside lets a daemon work with the inventory beside its loop.
func (k *stock) beside(d *driver) {
	if k == nil || d.IsOlder() {
		return
	}
	settings := &cke.InventorySettings{Template: "a template", URL: "here", Enabled: true}
	d.keeper = keep.New(keep.Config{
		Cluster: clusterName, Ledger: d.Term(), Past: d.Term().InventoryPast, Others: d.Term().NodesOfOthers,
		Settings: func() *cke.InventorySettings { return settings },
		Order:    k.s.Store().InventoryOrder,
		Template: func(cke.InventorySettings) (cke.Template, error) { return k.template, nil },
		Open: func(cke.InventorySource, string) (sabakan.Source, error) {
			return d.Inventory().(sabakan.Source), nil
		},
		Check: func(ctx context.Context, _ cke.Spec, _ cke.Identity, nodes []cke.Node, forgotten []string) (map[string]string, error) {
			return d.CheckMachines(ctx, nodes, forgotten)
		},
		Choose: func(in sabakan.Input) sabakan.Choice {
			d.Chooses(in.Status, in.Read.ReadAt, in.Now)
			if k.blind != nil {
				k.blind(&in)
			}
			c := sabakan.Choose(in)
			if c.Stop != "" {
				k.s.marks.add(mark{"inventory", stopMark(c.Stop), ""}, 1)
			}
			return c
		},
		Simulate: keep.Simulate,
		Verify:   func([]byte) error { return nil },
		Applied:  func(c cke.InventoryCause) { k.s.marks.add(mark{"inventory", string(c), ""}, 1) },
		Now:      d.Now,
		Log:      slog.New(panics{k.s}),
	})
	k.s.wg.Go(func() { d.keeper.Run(sim.WithActor(d.Context(), "inventory")) })
}

// follows lets what works with the inventory go by the last status.
func (d *driver) follows(spec cke.Spec, in strategy.Input) {
	if d.keeper != nil {
		d.keeper.Update(cke.InventoryWanted{Spec: spec, Identity: in.Identity, Requests: in.Requests, Status: d.before()})
	}
}

// inventoryStops are those of Choose.
var inventoryStops = []sabakan.Stop{sabakan.StopOff, sabakan.StopRead, sabakan.StopState, sabakan.StopStatus, sabakan.StopQuorum, sabakan.StopInFlight,
	sabakan.StopOthers, sabakan.StopMany, sabakan.StopSettle, sabakan.StopPerDay, sabakan.StopNode, sabakan.StopSimulated}

func stopMark(s sabakan.Stop) string { return "stop: " + string(s) }

// panics is a log in which nothing but a panic is of interest.
type panics struct{ s *stage }

func (panics) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }
func (p panics) WithAttrs([]slog.Attr) slog.Handler         { return p }
func (p panics) WithGroup(string) slog.Handler              { return p }

func (p panics) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += fmt.Sprint(" ", a); return true })
	p.s.Violate(text)
	return nil
}

// inventoryEvents are what an inventory says by chance, rightly or not.
var inventoryEvents = []event{
	{name: "the inventory tells the truth", weight: 3, do: func(n *nemesis, _ *sim.Node) {
		n.s.InventoryFails(sim.InventoryAnswers)
		n.s.eachNode((*sim.Node).InventoryIsRight)
	}},
	{name: "a machine retires", weight: 3, do: func(n *nemesis, node *sim.Node) { n.says(node, cke.HostRetired) }},
	{name: "a machine is to retire", weight: 1, do: func(n *nemesis, node *sim.Node) { n.says(node, cke.HostRetiring) }},
	{name: "the inventory calls a machine unreachable", weight: 1, do: func(n *nemesis, node *sim.Node) { n.says(node, cke.HostUnreachable) }},
	{name: "the inventory calls a machine unhealthy", weight: 1, do: func(n *nemesis, node *sim.Node) { n.says(node, cke.HostUnhealthy) }},
	{name: "a machine is in maintenance", weight: 1, do: func(n *nemesis, node *sim.Node) { n.says(node, cke.HostMaintenance) }},
	{name: "the inventory calls a machine healthy that is off", weight: 1, do: func(n *nemesis, node *sim.Node) {
		node.InventorySays(cke.HostHealthy, time.Hour)
		node.PowerOff()
	}},
	{name: "a machine is off, and the inventory knows", weight: 2, do: func(n *nemesis, node *sim.Node) {
		node.PowerOff()
		node.InventorySays(cke.HostUnreachable, 0)
	}},
	{name: "an answer lacks a machine", weight: 1, do: func(n *nemesis, node *sim.Node) { node.InventoryLacks(1) }},
	{name: "an answer lacks all machines", weight: 1, do: func(n *nemesis, _ *sim.Node) {
		n.s.eachNode(func(o *sim.Node) { o.InventoryLacks(1) })
	}},
	{name: "a machine is removed from the inventory", weight: 1, do: func(n *nemesis, node *sim.Node) { node.InventoryLacks(-1) }},
	{name: "all machines retire", weight: 1, do: func(n *nemesis, _ *sim.Node) {
		n.s.eachNode(func(o *sim.Node) { n.says(o, cke.HostRetired) })
	}},
	{name: "the inventory is away", weight: 1, do: func(n *nemesis, _ *sim.Node) {
		n.s.InventoryFails(sim.InventoryFault(n.IntN(int(sim.InventoryFaults))))
	}},
	{name: "a machine is back", weight: 2, do: func(n *nemesis, node *sim.Node) {
		node.PowerOn()
		node.InventorySays(cke.HostHealthy, time.Duration(n.IntN(2))*time.Hour)
	}},
	{name: "a machine leaves, and another one gets its address", weight: 2, do: func(n *nemesis, node *sim.Node) { n.succeeds(node) }},
	{name: "a machine is another cluster's, or no longer", weight: 2, do: func(n *nemesis, node *sim.Node) { node.GiveTo([]string{"", "other"}[n.IntN(2)]) }},
	{name: "an operator orders what the inventory suggests", weight: 2, do: func(n *nemesis, _ *sim.Node) { n.orders() }},
	{name: "an operator reverts what the inventory changed", weight: 1, do: func(n *nemesis, _ *sim.Node) { n.reverts() }},
}

// stockEvery is how many calls there are between two things that an inventory says, on the average.
const stockEvery = 60

// stockStrikes lets something happen to the inventory, mostly to a machine with a member.
func (n *nemesis) stockStrikes() {
	if i := n.s.told().Inventory; i != nil && i.Change != nil && len(i.Change.Forget) > 0 && n.IntN(2) == 0 { // a successor waits for an operator
		n.orders()
	}
	nodes := n.s.Nodes()
	node := nodes[n.IntN(len(nodes))]
	if members := n.s.Store().Spec().Cluster.ControlPlane(); n.IntN(4) > 0 && len(members) > 0 {
		if carries := n.s.Node(members[n.IntN(len(members))].Name()); carries != nil && !carries.Left() {
			node = carries
		}
	}
	var all []event
	for _, e := range inventoryEvents {
		all = append(all, slices.Repeat([]event{e}, e.weight)...)
	}
	e := all[n.IntN(len(all))]
	n.s.marks.add(mark{"inventory", e.name, ""}, 1)
	e.do(n, node)
}

// says lets the inventory say that a machine is in a state, since now or for long.
func (n *nemesis) says(node *sim.Node, s cke.HostState) {
	node.InventorySays(s, time.Duration(n.IntN(3))*time.Minute)
}

// orders lets an operator order the change that the status shows, or one in spite of what is in the way.
func (n *nemesis) orders() {
	i := n.s.told().Inventory
	switch {
	case i == nil:
	case i.Change != nil:
		n.s.Store().OrderInventory(i.Change.Hash)
	case i.Override != nil:
		n.s.Store().OrderInventory(i.Override.Hash)
	}
}

// reverts lets an operator declare what was declared before the last change of the inventory.
func (n *nemesis) reverts() {
	all := n.s.Store().InventoryLog().Changes
	if len(all) == 0 {
		return
	}
	last, c := all[len(all)-1], n.s.Store().Spec().Cluster
	at, node := slices.IndexFunc(c.Nodes, func(o cke.Node) bool { return o.Hostname == last.New }), n.s.Node(last.Old)
	has := func(o cke.Node) bool { return o.Hostname == last.Old && o.ControlPlane }
	if at < 0 || node == nil || node.Left() || last.Old == last.New || slices.ContainsFunc(c.Nodes, has) {
		return
	}
	back := n.s.stock.declared(node.Declared())
	back.ControlPlane = c.Nodes[at].ControlPlane
	c.Nodes = slices.Clone(c.Nodes)
	c.Nodes[at] = back
	c.Nodes = slices.DeleteFunc(c.Nodes, func(o cke.Node) bool { return o.Hostname == last.Old && !o.ControlPlane })
	n.s.Store().SetSpec(c)
}

// mostSuccessors is how many machines of a schedule get a successor: each takes data with it.
const mostSuccessors = 2

// succeeds lets a machine leave, and another one have its address, unless it is the only one that carries a member. One that will reboot or
// that people moved stays.
func (n *nemesis) succeeds(node *sim.Node) {
	left := 0
	for _, o := range n.s.Nodes() {
		left += strings.Count(o.Name(), "b")
	}
	others := slices.ContainsFunc(n.s.Store().Spec().Cluster.ControlPlane(), func(o cke.Node) bool { return o.Name() != node.Name() })
	if n.keepsData || left >= mostSuccessors || !others || n.moved[node.Name()] != "" {
		return
	}
	next := node.Succeed(node.Name() + "b")
	n.says(next, cke.HostHealthy)
	if n.IntN(2) == 0 {
		next.InventorySays(cke.HostHealthy, time.Hour)
	}
}

// withoutLeft takes machines that left out of a file. Another one carries members where none is left that does.
func (n *nemesis) withoutLeft() {
	c := n.s.Store().Spec().Cluster
	c.Nodes = slices.DeleteFunc(slices.Clone(c.Nodes), func(o cke.Node) bool {
		node := n.s.Node(o.Name())
		return node != nil && node.Left()
	})
	switch {
	case len(c.Nodes) == len(n.s.Store().Spec().Cluster.Nodes):
		return
	case len(c.Nodes) == 0:
		c.Nodes = append(c.Nodes, n.s.stock.declared(n.s.Nodes()[0].Declared()))
	case len(c.ControlPlane()) == 0:
		c.Nodes[0].ControlPlane = true
	}
	n.s.Store().SetSpec(c)
}

// applies lets an operator apply what the inventory led to, where that waits for it.
func (n *nemesis) applies() {
	spec := n.s.Store().Spec()
	if spec.Cause != "" && spec.Cluster.Policies.Reconcile == cke.ReconcileManual && n.s.latest().Term().Requests().Applied < spec.Generation {
		n.apply()
	}
}

// stock lets there be an inventory for a schedule.
func (n *nemesis) stock() {
	modes := []cke.InventoryMode{cke.InventoryOff, cke.InventoryPropose, cke.InventoryPropose, cke.InventoryAuto}
	mode := modes[min(n.IntN(8), len(modes)-1)]
	n.rate = []float64{0.003, 0.01, 0.02}[n.IntN(3)]
	members := min([]int{1, 3, 3, 5}[n.IntN(4)], len(n.s.Nodes())-1)
	n.s.inventory(mode, members, time.Duration(1+20*n.IntN(3))*time.Second, 1+n.IntN(3))
	n.s.stock.template.Inventory.Spares = n.IntN(3)
}

// stockedMembers is how many members the file gets: mostly as many as the template has.
func (n *nemesis) stockedMembers(members int) int {
	if n.s.stock == nil || n.IntN(4) == 0 {
		return members
	}
	return n.s.stock.template.Inventory.ControlPlane
}

// someOf are nodes of a file: some machines of an inventory are not declared before they get a member.
func (n *nemesis) someOf(nodes []cke.Node) []cke.Node {
	if n.s.stock == nil {
		return nodes
	}
	return slices.DeleteFunc(nodes, func(o cke.Node) bool { return !o.ControlPlane && n.IntN(3) == 0 })
}

// stocked ends what is wrong with the inventory. All machines that the file lacks are declared without members, so that what is on them is seen.
func (n *nemesis) stocked() {
	if n.s.stock == nil {
		return
	}
	n.s.InventoryFails(sim.InventoryAnswers)
	n.withoutLeft()
	c := n.s.Store().Spec().Cluster
	c.Nodes = slices.Clone(c.Nodes)
	for _, node := range n.s.Nodes() {
		node.GiveTo("")
		node.InventorySays(cke.HostHealthy, time.Hour)
		node.InventoryLacks(0)
		d := n.s.stock.declared(node.Declared())
		if d.ControlPlane = false; !slices.ContainsFunc(c.Nodes, func(o cke.Node) bool { return o.Address == d.Address }) {
			c.Nodes = append(c.Nodes, d)
		}
	}
	if len(c.Nodes) > len(n.s.Store().Spec().Cluster.Nodes) {
		n.s.Store().SetSpec(c)
	}
}
