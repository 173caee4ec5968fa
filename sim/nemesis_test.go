package sim_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"cke"
	"cke/sim"
)

// nemesis does what can go wrong, by chance, until it is over.
type nemesis struct {
	*rand.Rand
	s    *stage
	rate float64 // of a fault at a call
	// focus is the operation in which faults come often; empty: none.
	focus string
	aimed
	// next is the call from which on something more is done that leads to that operation, away a node that is off for it.
	next   int
	away   string
	writes int
	// replace says whether members whose data is gone are replaced.
	replace   cke.ReplaceMode
	keepsData bool // takes no data away
	twins     bool // a member continued alone: no older store is brought back beside that
	over      bool
	freeze    int // the call at which a frozen daemon wakes and late calls land
	// about are the kinds of events in this schedule.
	about []event
	// minor is the minor version that the file asks for; from the next one there is no way back once all run it.
	minor int
	// etcd is how members are to run apart from that.
	etcd cke.EtcdOptions
	// ported: the file asks for other ports than etcd's usual ones.
	ported bool
	// moved are the machines that got another address, with the one before; back: those on record were given back.
	moved map[string]string
	back  bool
	hand  bool // a member was added by hand
	// hidden: an older store is in place, and the members that it lacks are kept from cke.
	hidden bool
	// hid: that was so at any time; unseen: what lies beside the backups was lost. One excludes the other, since nothing else
	// shows then that the store is older.
	hid, unseen bool
	// elect lets a daemon with the real loop lead; nil: one with a driver.
	elect func()
	// copied is a copy of the store; nil: there is none.
	copied *sim.StoreCopy
	// newer is the store as it was before an older copy took its place; nil: none did. judged: an operator lifted a freeze for such a one.
	newer  *sim.StoreCopy
	judged bool
	// recovers: a person goes on from one member, since what is needed of the others is gone.
	recovers bool
	said     said
	// healed is when the last fault ended; regained is when a deletion was canceled to remove foreign members.
	healed, regained time.Time
}

// judge is asked before every call.
func (n *nemesis) judge(call int, c sim.Call) sim.Verdict {
	if n.over {
		return sim.Proceed
	}
	if n.freeze > 0 && call >= n.freeze {
		n.land()
	}
	if c.Port == sim.AgentPort {
		return n.answering(call)
	}
	focused, waits := n.focused()
	rate := n.rate
	switch {
	case waits:
		return sim.Proceed
	case focused:
		rate = max(rate, n.often)
	case n.focus != "" && call >= n.next && len(n.s.drivers) > 0:
		n.next = call + n.gap()
		nodes := n.s.Nodes()
		n.pursue(nodes[n.IntN(len(nodes))])
	}
	if n.s.stock != nil && n.IntN(stockEvery) == 0 {
		n.stockStrikes()
	}
	if n.Float64() > rate {
		return sim.Proceed
	}
	if n.IntN(3) == 0 || focused && (n.at != "" || n.late > 0 && n.IntN(2) == 0) {
		v := n.fate(focused)
		if v == sim.KillLate || v == sim.Linger || v == sim.Freeze {
			n.freeze = call + 1 + n.IntN(120)
		}
		n.s.mark("call", v.String())
		return v
	}
	for range n.atOnce(focused) {
		n.strike(focused)
	}
	return sim.Proceed
}

func (n *nemesis) land() {
	n.freeze = 0
	n.s.Land()
	for _, d := range n.s.drivers {
		d.Wake()
	}
}

// strike does one thing to the world: something of what this schedule is about, or, within the operation that it is about, anything.
func (n *nemesis) strike(anything bool) {
	if n.about == nil {
		n.choose(events)
	}
	from := n.about
	if anything {
		from = events
	}
	nodes := n.s.Nodes()
	e := n.nextOf(from, anything)
	node := nodes[n.IntN(len(nodes))]
	n.s.mark("fault", e.name)
	e.do(n, node)
}

// choose lets a schedule be about some kinds of events only, and often about one of them before all: several of one kind
// find more than one of each.
func (n *nemesis) choose(from []event) {
	for _, e := range from {
		weight := e.weight
		if n.focus != "" && slices.Contains(strings.Fields(e.brings), n.focus) {
			weight += 20
		}
		if e.always || weight > e.weight || n.IntN(2) == 0 {
			for range weight {
				n.about = append(n.about, e)
			}
		}
	}
	if e := from[n.IntN(len(from))]; n.IntN(2) == 0 {
		for range 12 {
			n.about = append(n.about, e)
		}
	}
}

// event is something that may happen, and how often.
type event struct {
	name   string
	brings string // operations that it leads to, by name
	weight int
	always bool
	do     func(n *nemesis, node *sim.Node)
}

// events are all that may happen.
var events = slices.Concat(disasters, persons)

// disasters are faults and their ends, writes, and changes of the file; persons are what people ask for beside that.
var disasters = []event{
	{name: "write", weight: 4, always: true, do: func(n *nemesis, _ *sim.Node) { n.write() }},
	{name: "edit the file", weight: 2, always: true, do: func(n *nemesis, _ *sim.Node) { n.edit() }},
	{name: "power off or on", weight: 2, do: flip((*sim.Node).PowerOff, (*sim.Node).PowerOn)},
	{name: "reboot", weight: 1, do: func(_ *nemesis, node *sim.Node) { node.Reboot() }},
	{name: "freeze or thaw a machine", weight: 2, do: flip((*sim.Node).Freeze, (*sim.Node).Thaw)},
	{name: "hang or unhang an engine", weight: 2, do: flip((*sim.Node).Hang, (*sim.Node).Unhang)},
	{name: "isolate or rejoin a node", weight: 2, do: func(n *nemesis, node *sim.Node) {
		if n.IntN(2) == 0 {
			n.s.Isolate(node.Name())
		} else {
			n.s.Rejoin(node.Name())
		}
	}},
	{name: "cut or heal the network", weight: 2, do: func(n *nemesis, node *sim.Node) {
		if places := append(n.s.everyNode(), sim.Management); n.IntN(2) == 0 {
			n.s.Cut(node.Name(), places[n.IntN(len(places))])
		} else {
			n.s.HealNetwork()
		}
	}},
	{name: "cut the management hosts off", weight: 1, do: func(n *nemesis, _ *sim.Node) {
		if n.IntN(2) == 0 {
			n.s.Isolate(sim.Management)
		} else {
			n.s.Rejoin(sim.Management)
		}
	}},
	{name: "fill or free a disk", weight: 2, do: flip((*sim.Node).FillDisk, (*sim.Node).FreeDisk)},
	{name: "take or release a port", weight: 2, do: func(n *nemesis, node *sim.Node) {
		if n.IntN(2) == 0 {
			node.TakePort(cke.DefaultClientPort + n.IntN(2))
		} else {
			node.ReleasePort(cke.DefaultClientPort)
			node.ReleasePort(cke.DefaultPeerPort)
		}
	}},
	{name: "kill etcd", weight: 1, do: func(_ *nemesis, node *sim.Node) { node.KillEtcd() }},
	{name: "pause or unpause containers", weight: 1, do: func(n *nemesis, node *sim.Node) { node.PauseContainers(n.IntN(2) == 0) }},
	{name: "slow a node", weight: 2, do: func(n *nemesis, node *sim.Node) { node.SlowDown(time.Duration(n.IntN(2)*n.IntN(40)) * time.Second) }},
	{name: "slow the network of a node", weight: 2, do: func(n *nemesis, node *sim.Node) { node.Trickle(n.IntN(2) == 0) }},
	{name: "clients write more than a member can write snapshots of", weight: 1, do: func(n *nemesis, node *sim.Node) { node.Strain(n.IntN(4) > 0) }},
	{name: "store down or up", weight: 2, do: func(n *nemesis, _ *sim.Node) { n.s.Store().SetDown(n.IntN(2) == 0) }},
	{name: "the backup target falls silent or answers", weight: 1, do: func(n *nemesis, _ *sim.Node) { n.s.TargetFallsSilent(n.IntN(2) == 0) }},
	{name: "the backup target refuses or takes writes", weight: 1, do: func(n *nemesis, _ *sim.Node) { n.s.TargetRefuses(n.IntN(2) == 0) }},
	{name: "lose or damage what lies beside the backups", weight: 1, do: func(n *nemesis, _ *sim.Node) {
		switch {
		case n.IntN(3) == 0:
			n.s.DamageBeside()
		case !n.hid: // nothing else shows that the store is older
			n.unseen = true
			n.s.LoseBeside(n.IntN(2) == 0)
		}
	}},
	{name: "lose data", weight: 1, do: func(n *nemesis, node *sim.Node) { n.lose(node) }},
	{name: "change a host key", weight: 1, do: func(_ *nemesis, node *sim.Node) { node.ChangeHostKey() }},
	{name: "an engine lies about data", weight: 1, do: func(n *nemesis, node *sim.Node) { node.LieOfData(n.IntN(2) == 0) }},
	{name: "slow volumes", weight: 1, do: func(n *nemesis, node *sim.Node) { node.SlowVolumes(n.IntN(2) == 0) }},
	{name: "foreign etcd", weight: 1, do: func(_ *nemesis, node *sim.Node) { node.AddForeignEtcd("etcd", cke.DefaultClientPort) }},
	{name: "foreign volume", weight: 1, do: func(_ *nemesis, node *sim.Node) { node.AddVolume(cke.Volume{Name: "etcd-cke"}) }},
	{name: "stop members manually", brings: "keep-running", weight: 1, do: func(_ *nemesis, node *sim.Node) { node.StopByHand() }},
	{name: "remove containers manually", brings: "stop-stray", weight: 1, do: func(n *nemesis, node *sim.Node) { n.removeContainers(node) }},
	{name: "start members manually", brings: "stop-stray", weight: 1, do: func(n *nemesis, node *sim.Node) {
		_, volumes := node.Look()
		theirs := slices.ContainsFunc(volumes, func(v cke.Volume) bool { return v.Name == "hand" })
		if theirs && (n.restored() || !node.Holds("hand")) { // nobody starts a member of their own without its data, nor one of the life before
			return
		}
		node.StartByHand()
	}},
	{name: "set a clock", weight: 1, do: func(n *nemesis, node *sim.Node) { n.jump(node) }},
	{name: "another daemon leads", weight: 1, do: func(n *nemesis, _ *sim.Node) { n.depose() }},
	{name: "compact or fill databases", weight: 4, do: func(n *nemesis, node *sim.Node) {
		if n.IntN(5) == 0 {
			n.s.Compact()
		} else {
			n.fill(node)
		}
	}},
	{name: "certificates grow old", brings: "renew-certificates", weight: 1, do: func(n *nemesis, node *sim.Node) { n.ageCertificates(node) }},
	{name: "member lists are answered or not", weight: 1, do: func(n *nemesis, _ *sim.Node) { n.s.MuteLists(n.IntN(2) == 0) }},
	{name: "an engine discards limits", weight: 1, do: func(n *nemesis, node *sim.Node) { node.DiscardLimits(n.IntN(2) == 0) }},
	{name: "change limits manually", weight: 1, do: func(n *nemesis, node *sim.Node) {
		node.SetLimits([]float64{0, 1}[n.IntN(2)], []int64{0, 1 << 30}[n.IntN(2)])
	}},
}

// jump sets a clock: that of all management hosts, of one of them or of a node, by up to an hour or a year, or right again.
func (n *nemesis) jump(node *sim.Node) {
	by := time.Duration(n.IntN(7200)-3600) * time.Second
	switch n.IntN(8) {
	case 0:
		n.s.SetClock()
	case 1:
		node.JumpClock(by)
	case 2:
		node.SetClock()
	case 3:
		n.s.JumpClock(by * 24 * 365)
	case 4:
		n.s.JumpHost(n.IntN(sim.Hosts), by)
	case 5:
		n.s.JumpHost(n.IntN(sim.Hosts), by*24*365)
	default:
		n.s.JumpClock(by)
	}
}

// depose lets another daemon lead.
func (n *nemesis) depose() {
	if n.elect != nil {
		n.elect()
		return
	}
	n.s.daemon()
}

// flip begins a fault or ends it.
func flip(begin, end func(*sim.Node)) func(*nemesis, *sim.Node) {
	return func(n *nemesis, node *sim.Node) {
		if n.IntN(2) == 0 {
			begin(node)
		} else {
			end(node)
		}
	}
}

// lose takes data away; once in a while from every node.
func (n *nemesis) lose(node *sim.Node) {
	if n.keepsData {
		return
	}
	nodes := []*sim.Node{node}
	if n.IntN(4) == 0 {
		nodes = n.s.Nodes()
	}
	how := n.IntN(6)
	for _, node := range nodes {
		switch how {
		case 0:
			node.Blank()
		case 1:
			node.RemoveVolumes()
		case 2:
			node.EmptyVolumes()
		case 3:
			node.RemoveData() // its engine starts etcd again, on what is left
		case 4:
			node.Unlink()
		case 5:
			if n.copied == nil { // those of a member that an older store does not know are renewed by nobody
				node.RemoveCertificates()
			}
		}
	}
}

// edit changes the spec: which nodes are to carry members, and now and then how they run, and what cke may do by
// itself. Nodes without a member are declared, too, so that what is on them is seen.
func (n *nemesis) edit() {
	c := n.file()
	if n.s.older != nil && n.IntN(3) == 0 {
		n.s.Store().SetSpecEarlier(c)
		return
	}
	n.s.Store().SetSpec(c)
}

// file is what edit changes the spec to.
func (n *nemesis) file() cke.Cluster {
	nodes := n.s.Nodes()
	n.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	c := n.s.cluster(nodes)
	members := 1 + n.IntN(len(nodes))
	if members%2 == 0 && n.IntN(2) == 0 { // even sizes are worth less
		members--
	}
	members = n.stockedMembers(members)
	for i := range c.Nodes {
		c.Nodes[i].ControlPlane = i < members
	}
	c.Nodes = n.someOf(c.Nodes)
	n.tune()
	c.Options.Etcd = n.etcd
	if n.IntN(12) == 0 {
		n.ported = !n.ported
	}
	if n.ported {
		c.Options.Etcd.ClientPort, c.Options.Etcd.PeerPort = 3379, 3380
	}
	switch {
	case n.minor == 0:
		n.minor = []int{5, 6, 6, 6}[n.IntN(4)]
	case n.IntN(5) == 0: // also back, which may be too late, or two at once
		n.minor = 5 + n.IntN(3)
	}
	versions := map[int][]string{5: {"3.5.35"}, 6: {"3.6.15", "3.6.16", "3.6.16", ""}, 7: {"3.7.2", "3.7.3", "3.7.3"}}[n.minor]
	c.Options.Etcd.Version = versions[n.IntN(len(versions))]
	c.Policies.Replace.Mode, c.Policies.Replace.Grace = n.replace, cke.Duration(time.Duration(n.IntN(60))*time.Second)
	c.Policies.Foreign = []cke.ForeignPolicy{cke.ForeignHold, cke.ForeignRemove}[n.IntN(2)]
	c.Policies.Reconcile = []cke.ReconcileMode{cke.ReconcileAuto, cke.ReconcileAuto, cke.ReconcileManual, cke.ReconcileWindow}[n.IntN(4)]
	if c.Policies.Window = (cke.Window{}); c.Policies.Reconcile == cke.ReconcileWindow {
		c.Policies.Window = cke.Window{Schedule: "*/10 * * * *", Duration: cke.Duration(2 * time.Minute)}
	}
	if n.IntN(8) == 0 {
		c.Reboot.Window = rebootWindow
	}
	c.Reboot.FleetLock = n.IntN(8) > 0
	c.Policies.Volumes.OnRemoval = []cke.VolumePolicy{cke.VolumeRetain, cke.VolumeArchive, cke.VolumeDelete}[n.IntN(3)]
	c.Policies.Volumes.Keep = cke.Duration(n.IntN(3600)) * cke.Duration(time.Second)
	return c
}

// tune changes one thing of how members are to run, and now and then what cannot work.
func (n *nemesis) tune() {
	if n.IntN(2) == 0 {
		n.etcd = sane(n.etcd)
	}
	switch n.IntN(7) {
	case 0, 1:
		n.etcd.ExtraArgs = [][]string{nil, {"--heartbeat-interval=101"}, {quota(512)}, {quota(512)}, {quota(1024)}, {sim.WrongArgument}}[n.IntN(6)]
	case 2:
		n.etcd.ExtraEnv = []map[string]string{nil, {"GOMAXPROCS": "2"}, {"GOMAXPROCS": "4"}}[n.IntN(3)]
	case 3:
		n.etcd.ExtraBinds = [][]cke.Bind{nil, {{Source: "/etc/pki", Destination: "/etc/pki", ReadOnly: true}}, {{Source: sim.MissingDirectory, Destination: "/x"}}}[n.IntN(3)]
	case 4:
		n.etcd.Resources = []cke.Resources{{}, {CPUs: 2}, {Memory: 1 << 30}, {CPUs: 0.5, Memory: 2 << 30}}[n.IntN(4)]
	}
}

// fill lets a client write big values through a node.
func (n *nemesis) fill(node *sim.Node) {
	for range 1 + n.IntN(3) {
		n.s.Fill(node.Name(), int64(1+n.IntN(5))*100<<20)
	}
}

// quota is the argument that sets it, in MiB.
func quota(mib int) string { return fmt.Sprintf("--quota-backend-bytes=%d", mib<<20) }

// sane is without what cannot work.
func sane(o cke.EtcdOptions) cke.EtcdOptions {
	o.ExtraArgs = slices.DeleteFunc(slices.Clone(o.ExtraArgs), func(a string) bool { return a == sim.WrongArgument })
	o.ExtraBinds = slices.DeleteFunc(slices.Clone(o.ExtraBinds), func(b cke.Bind) bool { return b.Source == sim.MissingDirectory })
	return o
}

// heal ends every fault, as persons would; data that was lost stays lost.
func (n *nemesis) heal() {
	n.over, n.healed = true, time.Now()
	n.land()
	n.s.Store().SetDown(false)
	n.s.HealNetwork()
	n.s.MuteLists(false)
	n.s.TargetFallsSilent(false)
	n.s.TargetRefuses(false)
	n.s.SetClock()
	for _, node := range n.s.Nodes() {
		node.PowerOn()
		node.Thaw()
		node.Unhang()
		node.FreeDisk()
		node.ReleasePort(cke.DefaultClientPort)
		node.ReleasePort(cke.DefaultPeerPort)
		node.PauseContainers(false)
		node.SlowDown(0)
		node.AcceptHostKey()
		node.RefuseKey(false)
		node.LieOfData(false)
		node.SlowVolumes(false)
		node.Remove("etcd")
		node.Remove("etcd-cke")
		node.FilterClientPort(false)
		node.Trickle(false)
		node.Strain(false)
		node.RemoveNeighbor("other")
		node.RemoveNeighbor(clusterName)
		node.SetClock()
	}
	if n.s.older != nil && len(n.s.drivers) > 0 { // all are of one version again
		n.s.older = nil
		n.s.latest().Kill()
	}
	n.content()
}
