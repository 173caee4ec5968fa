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
	{name: "move the leader", brings: "move-leader", weight: 1, do: func(n *nemesis, node *sim.Node) { n.s.ask(cke.TaskMoveLeader, node.Name(), "", "") }},
	{name: "defragment", weight: 1, do: func(n *nemesis, node *sim.Node) { n.s.ask(cke.TaskDefragment, node.Name(), "", "") }},
	{name: "compare", brings: "compare end-finding", weight: 1, do: func(n *nemesis, _ *sim.Node) { n.s.ask(cke.TaskCompare, "", "", "") }},
	{name: "replace", brings: "replace purge-volume undelete-volume end-membership", weight: 1, do: func(n *nemesis, node *sim.Node) {
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
	{name: "disarm", brings: "disarm", weight: 1, do: func(n *nemesis, _ *sim.Node) { n.s.ask(cke.TaskDisarm, "", "", "") }},
	{name: "give a machine another address", brings: "change-address", weight: 1, do: func(n *nemesis, node *sim.Node) { n.move(node) }},
	{name: "back up, restore or recover", brings: "cancel-restore begin-restore begin-recovery restore finish-restore", weight: 1, do: func(n *nemesis, node *sim.Node) { n.restore(node) }},
	{name: "cancel a restore", brings: "cancel-restore", weight: 1, do: func(n *nemesis, _ *sim.Node) { n.cancel() }},
	{name: "rotate an authority", brings: "rotate-authority advance-authority finish-authority", weight: 1, do: func(n *nemesis, _ *sim.Node) { n.rotate() }},
	{name: "bring the store back from a copy", brings: "freeze reclaim record-start", weight: 1, do: func(n *nemesis, _ *sim.Node) { n.bringBack() }},
	{name: "restore on another management host", brings: "begin-restore restore finish-restore cancel-restore delete-cluster", weight: 1, do: func(n *nemesis, _ *sim.Node) { n.anotherHost() }},
	{name: "remove a member manually", brings: "end-membership", weight: 1, do: func(n *nemesis, node *sim.Node) { n.expelOurs(node) }},
	{name: "switch restarts off manually", brings: "keep-running", weight: 1, do: func(_ *nemesis, node *sim.Node) { node.SwitchRestartsOff() }},
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
	if f := n.s.freeze(); f.Active() {
		n.judged = n.judged || f.Kind == cke.FreezeOlderStore
		n.s.ask(cke.TaskUnfreeze, "", f.ID, "judged")
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

// move gives a machine another address while all is well, and the file that address.
func (n *nemesis) move(node *sim.Node) {
	status := n.s.told()
	if n.moved[node.Name()] != "" || status.Health != cke.HealthReady || status.Ready < 3 {
		return
	}
	if n.moved == nil {
		n.moved = map[string]string{}
	}
	n.moved[node.Name()] = node.Declared().Address
	n.readdress(node, fmt.Sprintf("10.0.1.%d", len(n.moved)))
}

func (n *nemesis) readdress(node *sim.Node, address string) {
	node.Readdress(address)
	c := n.s.Store().Spec().Cluster
	nodes := append([]cke.Node(nil), c.Nodes...)
	for i := range nodes {
		if nodes[i].Hostname == node.Name() {
			nodes[i].Address = address
		}
	}
	c.Nodes = nodes
	n.s.Store().SetSpec(c)
}

// restore takes a backup, or puts the cluster back to it, or to the data of one node.
func (n *nemesis) restore(node *sim.Node) {
	switch n.IntN(4) {
	case 0:
		o := fromBackup
		o.Stored = n.IntN(2) == 0
		n.s.order(o)
	case 1:
		n.s.order(cke.RestoreOrder{Survivor: node.Name()})
	default:
		n.s.TakeBackup()
	}
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
	n.s.order(fromBackup)
}

// content takes back what people asked for that keeps the cluster from being as declared. What was asked for once is to
// be answered.
func (n *nemesis) content() {
	n.s.Store().Hibernate(false)
	n.pause(false)
	n.s.Store().Ask("undrain", func(r *cke.Requests) { r.Drains = nil })
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

// attend is what a person does who stands by until the world has come where it can come, at each look.
func (n *nemesis) attend() {
	n.correct()
	switch f := n.s.freeze(); {
	case (!f.Active() || f.Kind == cke.FreezeOlderStore) && n.unrecorded() && !n.s.asks(cke.TaskReclaim) && n.reclaim(): // what else is asked for may wait for it
	case len(n.s.asked()) > 0:
	case !f.Active() && n.judged && n.bringNewer(): // what they lifted turned out to be needed
	case !f.Active():
	case f.Kind == cke.FreezeOlderStore && (n.reclaim() || n.bringNewer()):
	default: // also where another store's cluster of this name was taken away
		n.unfreeze()
	}
	n.forgo()
	n.discard()
	n.makeRoom()
	if n.s.Refuses() {
		n.s.SetAuth(true, true)
	}
	if len(n.s.latest().Term().Requests().Drains) > 0 { // asked for before, done only now
		n.s.Store().Ask("undrain", func(r *cke.Requests) { r.Drains = nil })
	}
	if n.hand {
		n.tidy()
	}
	dec, _ := n.s.latest().now()
	n.disown(dec.Blockers)
	n.sweep(dec.Blockers)
	if inc := n.s.Store().Identity().Incarnation; inc != nil && (inc.State == cke.Restoring || inc.State == cke.Awaiting) && dec.Operation == nil && dec.Blockers != nil && !n.s.asks(cke.TaskRestore) {
		n.s.order(fromBackup)
	}
	if n.moved != nil && !n.back && time.Since(n.healed) > 30*time.Minute {
		n.moveBack()
		n.back = true
	}
}

// disown removes containers of founders that may hold what clients wrote, where nobody ever used the cluster.
func (n *nemesis) disown(blockers []cke.Problem) {
	inc := n.s.Store().Identity().Incarnation
	switch {
	case inc == nil:
		return
	case inc.State == cke.Formed: // those of a founding before it, of which a node answers only now
		for _, node := range n.s.Nodes() {
			if !n.s.reports(cke.CodeOlderStore, node.Name()) {
				continue
			}
			containers, _ := node.Look()
			for _, c := range containers {
				if c.Cluster == clusterName && inc.WasAbandoned(c.Incarnation) {
					node.Remove(c.Name)
				}
			}
		}
		return
	case inc.State != cke.Forming && inc.State != cke.Abandoned:
		return
	}
	for _, p := range blockers {
		if node := n.s.Node(p.Node); p.Code == cke.CodeOlderStore && node != nil {
			node.RemoveContainers()
		}
	}
}

// unrecorded reports whether members vote where they are not on record.
func (n *nemesis) unrecorded() bool {
	d := n.s.latest()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.input.Identity.VotesElsewhere(d.input.Seen.Etcd)
}

// forgo removes what an older store has no record of, where an operator has judged that it is not missed.
func (n *nemesis) forgo() {
	id := n.s.Store().Identity()
	f := id.Freeze
	if n.copied == nil || n.s.Store().Spec().Deleting() {
		return
	}
	for _, j := range id.Joins { // one that was added after the copy was made, at an address that is on record
		if j.MemberID == "" && n.s.reports(cke.CodeStranger, j.Node.Name()) && n.s.Store().Spec().Cluster.Policies.Foreign != cke.ForeignRemove {
			n.s.Forget(j.Node.Name())
		}
	}
	switch strangers := n.s.Strangers(); {
	case (f == nil || f.Kind != cke.FreezeOlderStore) && !n.judged: // it may have no record of a learner that was never started, which nothing else shows
		if strangers > 0 && n.s.reports(cke.CodeStranger, "") && n.s.Store().Spec().Cluster.Policies.Foreign != cke.ForeignRemove {
			n.s.Expel()
		}
	case strangers < 0: // those that are not on record are needed for the quorum
		stopped := false
		for _, node := range n.s.Nodes() {
			if containers, _ := node.Look(); !n.recovers && slices.ContainsFunc(containers, func(c cke.Container) bool {
				return c.Cluster == clusterName && !c.Running() && !id.OnRecord(c.Incarnation, c.Join)
			}) {
				node.StartByHand()
				stopped = true
			}
		}
		if !stopped && time.Since(n.healed) > 30*time.Minute && !n.s.asks(cke.TaskRestore) {
			n.recover()
		}
	case f.Active():
	case strangers > 0 && n.s.Store().Spec().Cluster.Policies.Foreign != cke.ForeignRemove:
		n.s.Expel()
	case strangers == 0:
		unknown := func(v cke.Volume) bool {
			ours := id.Incarnation.Life(v.Incarnation) || n.recovers && id.Incarnation.WasReplaced(v.Incarnation)
			return v.Cluster == clusterName && ours && !id.Has(v.Join)
		}
		for _, node := range n.s.Nodes() {
			_, volumes := node.Look()
			for _, v := range volumes {
				if unknown(v) {
					node.Remove(v.Name)
				}
			}
		}
	}
}

// recover goes on from a member on record that runs, as the status says where somebody removed the container of one that is needed
// and not on record. It refuses while others run that are not on record.
func (n *nemesis) recover() {
	n.recovers = true
	n.stopUnknown()
	id := n.s.Store().Identity()
	var o cke.RestoreOrder
	for _, node := range n.s.Nodes() {
		containers, _ := node.Look()
		runs := slices.ContainsFunc(containers, func(c cke.Container) bool {
			return c.Cluster == clusterName && c.Running() && id.OnRecord(c.Incarnation, c.Join)
		})
		_, carries := id.On(node.Declared())
		switch {
		case runs && carries && o.Survivor == "":
			o.Survivor = node.Name()
		case !runs && node.Declared().ControlPlane:
			o.Destroyed = append(o.Destroyed, node.Name())
		}
	}
	if o.Survivor != "" {
		n.s.order(o)
	}
}

// discard removes what the copy of the store does not know of, as the status says: what a restore made and never ran, and volumes of lives
// that a restore replaced.
func (n *nemesis) discard() {
	if n.copied == nil {
		return
	}
	id := n.s.Store().Identity()
	for _, node := range n.s.Nodes() {
		if !n.s.reports(cke.CodeNotOnRecord, node.Name()) {
			continue
		}
		containers, volumes := node.Look()
		for _, c := range containers {
			if c.Cluster == clusterName && !id.OnRecord(c.Incarnation, c.Join) && !c.EverRan() {
				node.Remove(c.Name)
			}
		}
		for _, v := range volumes {
			used := slices.ContainsFunc(containers, func(c cke.Container) bool { return c.Name == v.Name })
			if v.Cluster == clusterName && !used && !id.Has(v.Join) && id.Incarnation.WasReplaced(v.Incarnation) && !n.s.asks(cke.TaskPurge) {
				n.s.ask(cke.TaskPurge, "", v.Name, "")
			}
		}
	}
}

// stopUnknown stops what the store has no record of, or none of where it is.
func (n *nemesis) stopUnknown() {
	id := n.s.Store().Identity()
	unknown := func(c cke.Container) bool {
		j, lasts := id.Join(c.Join)
		return c.Cluster == clusterName && (!id.OnRecord(c.Incarnation, c.Join) || lasts && !c.StandsAt(j)) && (c.Running() || !c.KeptDown)
	}
	for _, node := range n.s.Nodes() {
		if containers, _ := node.Look(); slices.ContainsFunc(containers, unknown) {
			node.SwitchRestartsOff()
			node.StopByHand()
		}
	}
}

// moveBack gives machines the addresses again that are on record: without a quorum no member can be told that another
// one moved, and a cluster is deleted where it is on record.
func (n *nemesis) moveBack() {
	id := n.s.Store().Identity()
	for _, node := range n.s.Nodes() {
		joins := append(slices.Clone(id.Joins), id.MayRun()...)
		i := slices.IndexFunc(joins, func(j cke.Join) bool { return j.Node.Name() == node.Name() })
		switch was := n.moved[node.Name()]; {
		case i >= 0 && joins[i].Node.Address != node.Declared().Address:
			n.readdress(node, joins[i].Node.Address)
		case i < 0 && was != "" && node.Holds("hand") && !n.restored(): // the voter that a person added here may be needed for the quorum
			n.readdress(node, was)
			node.StartByHand()
		case i < 0 && was != "": // a copy of the store may have brought the file back from before
			n.readdress(node, node.Declared().Address)
		}
	}
	n.apply()
}

// tidy removes what was added by hand, first from the list, unless cke is to do so.
func (n *nemesis) tidy() {
	switch strangers := n.s.Strangers(); {
	case strangers > 0 && n.s.Store().Spec().Cluster.Policies.Foreign != cke.ForeignRemove:
		n.s.Expel()
	case strangers == 0:
		n.hand = false
		for _, node := range n.s.Nodes() {
			node.Remove("hand")
		}
	}
}
