package sim

import (
	"slices"

	"cke"
)

// RemoveData deletes etcd's data directory in every volume, as `rm -r` does, and stops what ran on it. What else is in the
// volumes, certificates above all, stays.
func (n *Node) RemoveData() {
	n.change("the operator removes the data directories", func() {
		for _, v := range n.volumes {
			v.wal = nil
		}
		n.crashAll(1, "open member/snap/db: no such file or directory")
	})
}

// Unlink deletes etcd's data directory in every volume, as `rm -r` does; what runs, or is paused, continues with the files that it
// has open.
func (n *Node) Unlink() {
	n.change("the operator removes the data directories under what runs", func() {
		for _, c := range n.sorted() {
			if v := c.volume(); v != nil && !c.foreign && c.Running() && !c.hangs && c.open == nil {
				c.open = v.wal
			}
		}
		for _, v := range n.volumes {
			v.wal = nil
		}
	})
}

// RemoveCertificates deletes the certificates in every volume.
func (n *Node) RemoveCertificates() {
	n.change("the operator removes the certificates", func() {
		for _, v := range n.volumes {
			v.files, v.worth = map[string]bool{}, nil
		}
	})
}

// StartByHand starts every stopped container, as `docker start` does, except one that cke did not make and whose data is gone: with
// the arguments of its first start that would be a member that has forgotten its votes, which cke cannot prevent.
func (n *Node) StartByHand() {
	n.change("the operator starts the containers", func() {
		n.world.byHand = true
		defer func() { n.world.byHand = false }()
		for _, c := range n.sorted() {
			if v := c.volume(); n.on && !n.hung && !c.Running() && (c.Cluster != "" || c.foreign || v != nil && v.wal != nil) {
				n.world.startsFormer(c)
				c.run()
			}
		}
	})
}

// startsFormer notes that an operator starts what a restore under way has stopped.
func (w *World) startsFormer(c *container) {
	id, records := w.store.identity, w.store.records
	former := slices.ContainsFunc(id.Superseded(), func(j cke.Join) bool { return j.ID == c.Join })
	if !former || id.Incarnation.State != cke.Restoring || len(records) == 0 {
		return
	}
	if r := records[len(records)-1]; slices.ContainsFunc(r.Steps, func(s cke.StepRecord) bool { return s.Name == "check-fence" && r.Operation == "restore" }) {
		w.mark(FormerStarted)
	}
}

// changeList lets an operator change the member list with etcdctl, through a member of cke that serves. change gets the leader, the membership that a
// member of this name has on the node, and what asks etcd for an entry. It reports what change does; false also if no leader can be asked.
func (n *Node) changeList(what, name string, change func(l process, hand cke.Join, ask func(entry) bool) bool) (changed bool) {
	w := n.world
	n.change("the operator "+what+" "+name, func() {
		for _, j := range w.store.identity.Joins {
			c, problem := w.serving(Management, j.ClientURL())
			if problem != "" {
				continue
			}
			l, g, running, ok := w.leads(c)
			if !ok {
				continue
			}
			hand := n.hand(name, l.c.spec.Join.Etcd.Version)
			changed = change(l, hand, func(e entry) bool { return g.reconfigure(w, l, running, e) })
			return
		}
	})
	return changed
}

// changeListed is changeList about a listed member, by its peer URL.
func (n *Node) changeListed(what, name string, kind entryKind) bool {
	return n.changeList(what, name, func(l process, hand cke.Join, ask func(entry) bool) (changed bool) {
		for _, m := range l.member.present() {
			if m.peer == hand.PeerURL() {
				changed = ask(entry{kind: kind, id: m.id})
			}
		}
		return changed
	})
}

// Leave removes the member at a peer URL, as etcdctl does, through a member that serves.
func (n *Node) Leave(name string) bool { return n.changeListed("removes member", name, entryRemove) }

// PromoteByHand makes the learner on the node a voter, as an operator does with etcdctl.
func (n *Node) PromoteByHand(name string) bool { return n.changeListed("promotes", name, entryPromote) }
