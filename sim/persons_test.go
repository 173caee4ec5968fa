package sim_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cke"
	"cke/sim"
)

// persons are what people do by chance, wisely or not.
var persons = []event{
	{name: "drain", brings: "drain drain-node", weight: 2, do: func(n *nemesis, node *sim.Node) { n.drain(node.Name()) }},
	{name: "undrain", weight: 1, do: func(n *nemesis, _ *sim.Node) { n.s.Store().Ask("undrain", func(r *cke.Requests) { r.Drains = nil }) }},
	{name: "reboot nodes", brings: rebootOperations, weight: 1, do: func(n *nemesis, node *sim.Node) { n.reboot(node) }},
	{name: "agents ask for reboots", brings: rebootOperations, weight: 2, do: func(n *nemesis, node *sim.Node) { n.askByAgent(node) }},
	{name: "repair machines", brings: repairOperations, weight: 1, do: func(n *nemesis, node *sim.Node) { n.repair(node) }},
	{name: "cancel, retry or skip reboots and repairs", brings: rebootOperations + " " + repairOperations, weight: 1, do: func(n *nemesis, node *sim.Node) { n.judgeQueue(node) }},
	{name: "a machine reboots when it is told to, or does not", brings: rebootOperations, weight: 1, do: func(n *nemesis, node *sim.Node) {
		node.SetRebootMode(sim.RebootMode(n.IntN(int(sim.RebootModes))))
	}},
	{name: "move the leader", brings: "move-leader", weight: 1, do: func(n *nemesis, node *sim.Node) { n.s.ask(cke.TaskMoveLeader, node.Name(), "", "") }},
	{name: "defragment", weight: 1, do: func(n *nemesis, node *sim.Node) { n.s.ask(cke.TaskDefragment, node.Name(), "", "") }},
	{name: "compare", brings: "compare end-finding", weight: 1, do: func(n *nemesis, _ *sim.Node) { n.s.ask(cke.TaskCompare, "", "", "") }},
	{name: "replace", brings: "replace purge-volume undelete-volume end-membership", weight: 1, do: func(n *nemesis, node *sim.Node) {
		if n.s.Twins() && n.s.hasProblem(cke.CodeSplitBrain, node.Name()) {
			return // it would confirm that the others took it out of the list on purpose
		}
		n.s.ask(cke.TaskReplace, node.Name(), string(n.s.join(node.Name()).ID), "")
	}},
	{name: "adopt", brings: "adopt adopt-member", weight: 1, do: func(n *nemesis, node *sim.Node) { n.adopt(node) }},
	{name: "purge a volume", brings: "purge purge-volume", weight: 1, do: func(n *nemesis, _ *sim.Node) { n.volume(cke.TaskPurge) }},
	{name: "undelete a volume", brings: "undelete undelete-volume", weight: 1, do: func(n *nemesis, _ *sim.Node) { n.volume(cke.TaskUndelete) }},
	{name: "unfreeze", brings: "unfreeze end-finding", weight: 1, do: func(n *nemesis, _ *sim.Node) { n.unfreeze() }},
	{name: "hibernate or resume", brings: "hibernate", weight: 1, do: func(n *nemesis, _ *sim.Node) { n.s.Store().Hibernate(n.IntN(3) == 0) }},
	{name: "pause or resume changes", weight: 1, do: func(n *nemesis, _ *sim.Node) { n.pause(n.IntN(3) == 0) }},
	{name: "apply the revision", weight: 2, do: func(n *nemesis, _ *sim.Node) { n.apply() }},
	{name: "add a member manually", brings: "adopt adopt-member", weight: 1, do: func(n *nemesis, node *sim.Node) { n.addByHand(node) }},
	{name: "corrupt data", brings: "freeze unfreeze end-finding", weight: 1, do: func(n *nemesis, node *sim.Node) { n.corrupt(node) }},
	{name: "raise CORRUPT", brings: "disarm", weight: 1, do: func(n *nemesis, _ *sim.Node) { n.s.NoticeCorruption() }},
	{name: "turn authentication on or off", brings: "enable-authentication disable-authentication", weight: 1, do: func(n *nemesis, _ *sim.Node) { n.authenticate() }},
	{name: "change users", brings: "change-user", weight: 1, do: func(n *nemesis, _ *sim.Node) { n.changeUsers() }},
	{name: "disarm", brings: "disarm", weight: 1, do: func(n *nemesis, _ *sim.Node) { n.s.ask(cke.TaskDisarm, "", "", "") }},
	{name: "give a machine another address", brings: "change-address", weight: 1, do: func(n *nemesis, node *sim.Node) { n.move(node) }},
	{name: "back up, restore or recover", brings: "cancel-restore begin-restore begin-recovery restore finish-restore", weight: 1, do: func(n *nemesis, node *sim.Node) { n.restore(node) }},
	{name: "cancel a restore", brings: "cancel-restore", weight: 1, do: func(n *nemesis, _ *sim.Node) { n.cancel() }},
	{name: "rotate an authority", brings: "rotate-authority advance-authority finish-authority", weight: 1, do: func(n *nemesis, _ *sim.Node) { n.rotate() }},
	{name: "bring the store back from a copy", brings: "freeze reclaim record-start", weight: 1, do: func(n *nemesis, _ *sim.Node) { n.bringBack() }},
	{name: "restore on another management host", brings: "begin-restore restore finish-restore cancel-restore delete-cluster", weight: 1, do: func(n *nemesis, _ *sim.Node) { n.anotherHost() }},
	{name: "remove a member manually", brings: "end-membership", weight: 1, do: func(n *nemesis, node *sim.Node) { n.expelOurs(node) }},
	{name: "switch restarts off manually", brings: "keep-running", weight: 1, do: func(_ *nemesis, node *sim.Node) { node.SwitchRestartsOff() }},
	{name: alone, brings: "freeze unfreeze stop-apart", weight: 1, do: func(n *nemesis, node *sim.Node) { n.continueAlone(node) }},
	{name: "another cluster on the node", weight: 1, do: func(n *nemesis, node *sim.Node) { n.neighbor(node) }},
}

// adopt asks for a foreign member to be adopted, where one is seen after its node was declared as a control-plane node.
func (n *nemesis) adopt(node *sim.Node) {
	for _, m := range n.s.told().Members {
		at := slices.IndexFunc(n.s.Nodes(), func(o *sim.Node) bool { return o.Declared().Address == m.Address })
		if m.State != "stranger" || at < 0 {
			continue
		}
		node = n.s.Nodes()[at]
		c := n.s.Store().Spec().Cluster
		c.Nodes = slices.Clone(c.Nodes)
		for i := range c.Nodes {
			c.Nodes[i].ControlPlane = c.Nodes[i].ControlPlane || c.Nodes[i].Address == m.Address
		}
		c.Policies.Foreign = cke.ForeignHold
		n.s.Store().SetSpec(c)
	}
	n.s.adopt(node)
}

// cancel calls off a restore that has begun, or that was asked for.
func (n *nemesis) cancel() {
	if inc := n.s.Store().Identity().Incarnation; inc != nil && inc.State == cke.Restoring {
		n.s.ask(cke.TaskCancelRestore, "", "", "")
	}
}

// rotate asks for an authority to be replaced, or says that clients are ready once they are.
func (n *nemesis) rotate() {
	name := cke.AuthorityNames()[n.IntN(3)]
	if r := n.s.Store().Identity().Authorities; r.WaitsForPerson(name) {
		n.s.clientsAreReady(name)
		return
	}
	n.s.ask(cke.TaskRotate, "", string(name), "")
}

func (n *nemesis) drain(node string) {
	t := cke.NewTask(cke.TaskDrain, node, "", "eve@host", n.s.Now())
	t.For, t.Accepted = cke.Duration(time.Duration(1+n.IntN(60))*time.Minute), n.IntN(2) == 0
	n.s.Store().Ask("drain "+node, func(r *cke.Requests) { r.Tasks = append(r.Tasks, t) })
}

// volume asks for something to be done to an archived volume, or to one in use.
func (n *nemesis) volume(kind cke.TaskKind) {
	id := n.s.Store().Identity()
	joins := append(id.Ended, id.Joins...)
	if len(joins) > 0 {
		n.s.ask(kind, "", joins[n.IntN(len(joins))].Volume, "")
	}
}

func (n *nemesis) unfreeze() {
	if f := n.s.freeze(); f.Active() && !(f.Kind == cke.FreezeOlderStore && n.missed(f)) {
		n.judged = n.judged || f.Kind == cke.FreezeOlderStore
		t := cke.NewTask(cke.TaskUnfreeze, "", f.ID, "eve@host", n.s.Now())
		t.Reason, t.Wrong = "judged", n.settleTwins(f)
		n.s.Store().Ask("unfreeze", func(r *cke.Requests) { r.Tasks = append(r.Tasks, t) })
	}
}

func (n *nemesis) pause(on bool) {
	until := n.s.Now().Add(time.Duration(1+n.IntN(60)) * time.Minute)
	n.s.Store().Ask(fmt.Sprintf("pause: %v", on), func(r *cke.Requests) {
		r.Hold = nil
		if on {
			r.Hold = &cke.Hold{Reason: "looking", Until: until}
		}
	})
}

// apply releases the present revision of the file.
func (n *nemesis) apply() {
	generation := n.s.Store().Spec().Generation
	n.s.Store().Ask("apply", func(r *cke.Requests) { r.Applied, r.Interrupt = generation, generation })
}

// addByHand lets a person add a member with etcdctl while all is well: with fewer voters, or with one dead, that alone
// may be the end of the quorum.
func (n *nemesis) addByHand(node *sim.Node) {
	status := n.s.told()
	carries, _ := node.Look()
	if status.Health == cke.HealthReady && status.Ready >= 3 && len(carries) == 0 && n.s.Serving() == status.Ready {
		n.hand = node.Join("hand", n.IntN(3) > 0) || n.hand
	}
}

func (n *nemesis) corrupt(node *sim.Node) {
	if !n.keepsData {
		node.CorruptData()
	}
}

// move gives a machine another address while all is well, and the file that address; or while others are away one more, and the former is
// gone later.
func (n *nemesis) move(node *sim.Node) {
	status := n.s.told()
	whole, before := status.Health == cke.HealthReady && status.Ready >= 3, n.moved[node.Name()] != ""
	if before && whole {
		node.DropAddress()
	}
	if before || status.Ready < 2 || !whole && n.IntN(2) == 0 {
		return
	}
	if n.moved == nil {
		n.moved = map[string]string{}
	}
	n.moved[node.Name()] = node.Declared().Address
	address := fmt.Sprintf("10.0.1.%d", len(n.moved))
	if whole && n.IntN(2) == 0 {
		n.readdress(node, address)
		return
	}
	node.AddAddress(address)
	n.declares(node)
}

func (n *nemesis) readdress(node *sim.Node, address string) {
	node.Readdress(address)
	n.declares(node)
}

// declares lets the file have the address of a machine.
func (n *nemesis) declares(node *sim.Node) {
	c := n.s.Store().Spec().Cluster
	nodes := append([]cke.Node(nil), c.Nodes...)
	for i := range nodes {
		if nodes[i].Hostname == node.Name() {
			nodes[i].Address, nodes[i].Zone = node.Declared().Address, node.Declared().Zone
		}
	}
	c.Nodes = nodes
	n.s.Store().SetSpec(c)
}

// restore takes a backup, or puts the cluster back to it, or to the data of one node.
func (n *nemesis) restore(node *sim.Node) {
	switch n.IntN(4) {
	case 0:
		o := n.fromBackup()
		o.Stored, o.Destroyed = n.IntN(2) == 0, n.takesForDestroyed()
		n.s.order(o)
	case 1:
		n.s.order(cke.RestoreOrder{Survivor: node.Name(), Destroyed: n.takesForDestroyed()})
	default:
		n.s.TakeBackup()
	}
}

// takesForDestroyed are machines that are only without power or a network, and that an operator calls destroyed.
func (n *nemesis) takesForDestroyed() (names []string) {
	for _, node := range n.s.Nodes() {
		if !node.Reaches() {
			names = append(names, node.Name())
		}
	}
	if n.IntN(2) == 0 {
		return nil
	}
	return names
}

// anotherHost lets the management host burn while all is as declared and backed up; the cluster is declared to be restored on another one.
func (n *nemesis) anotherHost() {
	s := n.s.Store()
	id := s.Identity()
	if len(n.s.drivers) == 0 || !n.s.settled() || id.Incarnation == nil || id.Incarnation.State != cke.Formed || s.Deleted() || s.Spec().Deleting() || n.copied != nil {
		return
	}
	n.s.TakeBackup()
	n.s.latest().Kill()
	copied := s.Copy()
	s.BringBack(copied.With(copied.Identity().Awaiting(n.s.Now())))
	n.newer = nil
	n.s.order(n.fromBackup())
}

// content takes back what people asked for that keeps the cluster from being as declared. What was asked for once is to
// be answered.
func (n *nemesis) content() {
	n.stocked()
	n.s.Store().Hibernate(false)
	n.pause(false)
	n.s.Store().Ask("undrain", func(r *cke.Requests) { r.Drains = nil })
	n.endQueues()
	for _, node := range n.s.Nodes() {
		node.RepairData()
		switch containers, _ := node.Look(); { // its voter may be needed
		case n.restored():
		case slices.ContainsFunc(containers, func(c cke.Container) bool { return c.Name == "hand" }):
			if node.Holds("hand") { // nobody starts a member of their own without its data
				node.StartByHand()
			}
		case len(containers) == 0 && node.Holds("hand"):
			node.PutBack("hand")
		}
	}
	n.correct()
	n.apply()
}

// restored reports whether a restore replaced a life: whoever starts what is left of that starts a second cluster.
func (n *nemesis) restored() bool {
	inc := n.s.Store().Identity().Incarnation
	return inc != nil && inc.Replaced != nil
}

// correct takes out of the file what cannot work: an argument that etcd does not know, a directory that is not there, a
// version that is too old, or too new to be reached in one step.
func (n *nemesis) correct() {
	c := n.s.Store().Spec().Cluster
	o := sane(c.Options.Etcd)
	if is := n.s.Minor(); is > 0 && (n.tooOld() || !mayFollow(is, n.s.Store().Spec().Wanted().Options.Etcd.Version)) {
		n.minor, o.Version = is, map[int]string{5: "3.5.35", 6: "3.6.16", 7: "3.7.3"}[is]
	}
	if o.Equal(c.Options.Etcd) {
		return
	}
	n.etcd, c.Options.Etcd = sane(n.etcd), o
	n.s.Store().SetSpec(c)
	n.apply()
}

// tooOld reports whether people are told that a member was started with a version that is too old for its data: it was
// tried while nobody served who could tell, and cke can name none between that and the file's.
func (n *nemesis) tooOld() bool {
	return slices.ContainsFunc(n.s.told().Problems, func(p cke.Problem) bool {
		return p.Code == cke.CodeEtcdExited && strings.Contains(p.Message, "invalid downgrade")
	})
}

// mayFollow reports whether a cluster of a minor version may be declared to run a version.
func mayFollow(minor int, version string) bool {
	return strings.HasPrefix(version, fmt.Sprintf("3.%d.", minor)) || strings.HasPrefix(version, fmt.Sprintf("3.%d.", minor+1))
}

// authenticate lets people turn etcd's authentication on or off, with or without cke, and with a user for cke or none.
func (n *nemesis) authenticate() {
	switch n.IntN(4) {
	case 0:
		n.s.ask(cke.TaskAuth, "", cke.AuthOn, "")
	case 1:
		n.s.ask(cke.TaskAuth, "", cke.AuthOff, "")
	default:
		n.s.SetAuth(n.IntN(3) > 0, n.IntN(2) == 0)
	}
}

// changeUsers lets people add, permit, forbid and remove users, with cke and without it.
func (n *nemesis) changeUsers() {
	name := []string{"a", "b"}[n.IntN(2)]
	if n.IntN(8) == 0 {
		n.s.AddUserManually(name)
		return
	}
	o := cke.UserOrder{Action: []string{cke.UserAdd, cke.UserAdd, cke.UserGrant, cke.UserRevoke, cke.UserRemove}[n.IntN(5)], Name: name, Shared: n.IntN(2) == 0}
	if o.Action != cke.UserRemove {
		o.Prefix, o.ReadOnly = []string{"/a/", "/a/b/", "/b/"}[n.IntN(3)], n.IntN(2) == 0
	}
	t := cke.NewTask(cke.TaskUser, "", "", "eve@host", time.Now())
	t.User = &o
	n.s.Store().Ask(string(t.Kind), func(r *cke.Requests) { r.Tasks = append(r.Tasks, t) })
}

// makeRoom is what people do about alarms: they compact, and take CORRUPT back once the data is right.
func (n *nemesis) makeRoom() {
	for _, a := range n.s.Alarms() {
		switch {
		case a.Kind == "NOSPACE":
			n.s.Compact()
		case !n.s.freeze().Active() && !n.s.asks(cke.TaskDisarm):
			n.s.ask(cke.TaskDisarm, "", "", "")
		}
	}
}
