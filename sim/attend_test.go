package sim_test

import (
	"slices"
	"strings"
	"time"

	"cke"
	"cke/sim"
)

// attend is what a person does who stands by until the world has come where it can come, at each look.
func (n *nemesis) attend() {
	n.correct()
	for _, node := range n.s.Nodes() { // a command that was under way may have switched it off since
		if !node.On() && n.s.reports(cke.CodeUnreachable, node.Name()) {
			node.PowerOn()
		}
	}
	n.withoutLeft()
	n.applies()
	inc := n.s.Store().Identity().Incarnation
	switch f := n.s.freeze(); {
	case f.Active() && f.Kind == cke.FreezeOlderStore && inc.State == cke.Restoring && !n.s.Store().Identity().Started():
		if !n.s.asks(cke.TaskCancelRestore) {
			n.s.ask(cke.TaskCancelRestore, "", "", "")
		}
	case (!f.Active() || f.Kind == cke.FreezeOlderStore) && n.unrecorded() && !n.s.asks(cke.TaskReclaim) && n.reclaim(): // what else is asked for may wait for it
	case len(n.s.asked()) > 0:
	case !f.Active() && n.acceptedOlder() && (n.reclaim() || n.bringNewer()):
	case !f.Active() && (n.judged || n.s.reports(cke.CodeOlderStore, "")) && n.bringNewer(): // what they lifted turned out to be needed, or the status asks for it
	case !f.Active():
	case f.Kind == cke.FreezeOlderStore && (n.reclaim() || n.bringNewer()):
	default: // also where another store's cluster of this name was taken away
		n.unfreeze()
	}
	n.outlived()
	n.replaceApart()
	n.recoverChosen()
	n.forgo()
	n.discard()
	n.makeRoom()
	if n.s.Refuses() {
		n.s.SetAuth(true, true)
	}
	ofOperator := func(d cke.Drain) bool { return d.Entry == "" }               // `ckecli node undrain` ends no lease of a queue
	if slices.ContainsFunc(n.s.latest().Term().Requests().Drains, ofOperator) { // asked for before, done only now
		n.s.Store().Ask("undrain", func(r *cke.Requests) { r.Drains = slices.DeleteFunc(slices.Clone(r.Drains), ofOperator) })
	}
	if n.hand {
		n.tidy()
	}
	dec, _ := n.s.latest().now()
	n.disown(dec.Blockers)
	n.expelled(dec.Blockers)
	n.sweep(dec.Blockers)
	n.leaveBehind(dec.Blockers)
	stopped := n.stopsSilent()
	if !stopped && inc != nil && (inc.State == cke.Restoring || inc.State == cke.Awaiting) && dec.Operation == nil && dec.Blockers != nil && !n.s.frozenFor(cke.FreezeOlderStore) && !n.s.asks(cke.TaskRestore) {
		n.s.order(n.fromBackup())
	}
	if n.moved != nil && !n.back && time.Since(n.healed) > 30*time.Minute {
		n.moveBack()
		n.back = true
	}
}

// stopsSilent stops the containers that the status names since they run and do not say who is in their cluster.
func (n *nemesis) stopsSilent() (stopped bool) {
	for _, p := range n.s.told().Problems {
		name, names := strings.CutPrefix(p.Remedy, "docker stop ")
		if p.Code != cke.CodeFence || !names {
			continue
		}
		for _, node := range n.s.Nodes() {
			containers, _ := node.Look()
			if slices.ContainsFunc(containers, func(c cke.Container) bool { return c.Name == name && c.Running() }) {
				node.StopOne(name)
				stopped = true
			}
		}
	}
	return stopped
}

// expelled replaces members that persons took out of the list, where so few are left in it that cke does not take it for a proof.
func (n *nemesis) expelled(blockers []cke.Problem) {
	id := n.s.Store().Identity()
	if id.Freeze.Active() || n.s.Twins() {
		return
	}
	for _, p := range blockers {
		for _, j := range id.Joins {
			asked := slices.ContainsFunc(n.s.asked(), func(t cke.Task) bool { return t.Kind == cke.TaskReplace && t.Subject == string(j.ID) })
			if p.Code == cke.CodeSplitBrain && j.Node.Name() == p.Node && !asked {
				n.s.ask(cke.TaskReplace, p.Node, string(j.ID), "it was taken out of the list on purpose")
			}
		}
	}
}

// machine is where operators go for a node that the status names; nil: nowhere. It is the machine with the address that the file has beside
// that name, or a membership: one that was succeeded by another machine has left.
func (s *stage) machine(node string) *sim.Node {
	if n, declared := s.Store().Spec().Cluster.Node(node); declared {
		if m := s.At(n.Address); m != nil {
			return m
		}
	}
	for _, j := range s.Store().Identity().Joins {
		if j.Node.Name() == node {
			return s.MachineOf(j)
		}
	}
	return s.Node(node)
}

// disown removes containers of founders that may hold what clients wrote, where nobody ever used the cluster.
func (n *nemesis) disown(blockers []cke.Problem) {
	inc := n.s.Store().Identity().Incarnation
	switch {
	case inc == nil:
		return
	case inc.State == cke.Formed: // those of a founding before it, of which a node answers only now
		for _, p := range n.s.told().Problems {
			node := n.s.machine(p.Node)
			if p.Code != cke.CodeOlderStore || node == nil {
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
		if node := n.s.machine(p.Node); p.Code == cke.CodeOlderStore && node != nil {
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

// acceptedOlder reports whether the status names what an older store lacks that was accepted, with a reclaim as the remedy.
func (n *nemesis) acceptedOlder() bool {
	return slices.ContainsFunc(n.s.told().Problems, func(p cke.Problem) bool {
		return p.Code == cke.CodeNotOnRecord && strings.Contains(p.Remedy, "ckecli cluster reclaim")
	})
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
	switch strangers := n.s.ForeignMembers(); {
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
		o.Destroyed = append(o.Destroyed, n.namedByRefusal(o.Survivor)...)
		n.s.order(o)
	}
}

// namedByRefusal are the members that the last refusal of a restore asks to name by their ids, if they are gone: no other machine than the survivor's
// runs any member.
func (n *nemesis) namedByRefusal(survivor string) (ids []string) {
	for _, node := range n.s.Nodes() {
		if containers, _ := node.Look(); node.Name() != survivor && slices.ContainsFunc(containers, cke.Container.Running) {
			return nil
		}
	}
	for _, r := range slices.Backward(n.s.Store().Records()) {
		if r.Operation != string(cke.TaskRestore) || !r.Refused {
			continue
		}
		_, named, _ := strings.Cut(r.Error, "members that no membership of cke names, if they are gone for good: ")
		named, _, _ = strings.Cut(named, ";")
		for _, flag := range strings.Split(named, "--destroyed ")[1:] {
			ids = append(ids, strings.TrimSpace(flag))
		}
		break
	}
	return ids
}

// discard removes what the copy of the store does not know of, as the status says: what a restore made and never ran, and what does not run
// of lives that a restore replaced, or that are over according to the newer store that they kept, such as a canceled restore.
func (n *nemesis) discard() {
	if n.copied == nil {
		return
	}
	id := n.s.Store().Identity()
	over := func(life string) bool {
		return id.Incarnation.WasReplaced(life) || n.newer != nil && n.newer.Identity().Incarnation.WasAbandoned(life)
	}
	for _, node := range n.s.Nodes() {
		if !n.s.reports(cke.CodeNotOnRecord, node.Name()) {
			continue
		}
		containers, volumes := node.Look()
		for _, c := range containers {
			if c.Cluster == clusterName && !id.OnRecord(c.Incarnation, c.Join) && (!c.EverRan() || !c.Running() && over(c.Incarnation)) {
				node.Remove(c.Name)
			}
		}
		for _, v := range volumes {
			used := slices.ContainsFunc(containers, func(c cke.Container) bool { return c.Name == v.Name && c.Running() })
			if v.Cluster == clusterName && !used && !id.Has(v.Join) && over(v.Incarnation) && !n.s.asks(cke.TaskPurge) {
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
	switch strangers := n.s.ForeignMembers(); {
	case strangers > 0 && n.s.Store().Spec().Cluster.Policies.Foreign != cke.ForeignRemove:
		n.s.Expel()
	case strangers == 0:
		n.hand = false
		for _, node := range n.s.Nodes() {
			node.Remove("hand")
		}
	}
}
