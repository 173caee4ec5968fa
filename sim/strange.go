package sim

import (
	"fmt"
	"slices"

	"cke"
)

// CorruptData lets the database of every member on the node differ from what its log says, as a fault of the disk or of
// etcd does. Only a comparison notices it.
func (n *Node) CorruptData() {
	n.change("data corrupted", func() {
		for _, v := range n.volumes {
			if v.wal != nil {
				v.wal.corrupt = true
			}
		}
	})
}

// Readdress gives the machine another address: what listened at the old one exits.
func (n *Node) Readdress(address string) {
	n.change("address "+address, func() {
		n.address, n.former = address, ""
		n.crashAll(1, "listen tcp: bind: cannot assign requested address")
	})
}

// AddAddress gives the machine one more address, which it is declared with from now on. The former one works until DropAddress.
func (n *Node) AddAddress(address string) {
	n.change("one more address "+address, func() { n.address, n.former = address, n.address })
}

// DropAddress takes the former address away, if the machine still has it: what listened there exits.
func (n *Node) DropAddress() {
	n.change("former address dropped", func() {
		n.former = ""
		for _, c := range n.sorted() {
			if c.Running() && !c.foreign && !n.has(c.spec.Join.Node.Address) {
				c.crash(1, "listen tcp: bind: cannot assign requested address")
			}
		}
	})
}

// Join adds a foreign member on a node, as an operator does with etcdctl and docker. It is a voter, and with run it runs. Join
// reports whether etcd accepted it.
func (n *Node) Join(name string, run bool) bool { return n.join(name, n.address, run) }

// JoinAs is Join for a member that runs in no container, and is known to the others by another host than the address of its node: a host
// name, or another address of the machine.
func (n *Node) JoinAs(name, host string) bool {
	n.change("also called "+host, func() { n.alias = host })
	joined := n.join(name, host, true)
	n.change(name+" is in no container", func() {
		if c := n.containers[name]; c != nil {
			c.bare = true
		}
	})
	return joined
}

// JoinLearner is Join for a learner that runs.
func (n *Node) JoinLearner(name string) bool {
	return n.add("adds learner", name, n.address, true, true)
}

func (n *Node) join(name, host string, run bool) bool {
	return n.add("adds member", name, host, false, run)
}

func (n *Node) add(what, name, host string, learner, run bool) bool {
	return n.changeList(what, name, func(l process, hand cke.Join, ask func(entry) bool) bool {
		w := n.world
		hand.Node.Address = host
		now := w.now()
		id := memberID(hand.PeerURL(), w.another(), &now)
		joined := ask(entry{kind: entryAdd, id: id, peer: hand.PeerURL(), learner: learner})
		if joined && run {
			n.runByHand(hand, l.member)
		}
		return joined
	})
}

// hand is a membership that cke knows nothing of.
func (n *Node) hand(name, version string) cke.Join {
	return cke.Join{Node: n.Declared(), Member: name, Volume: name, ClientPort: cke.DefaultClientPort, PeerPort: cke.DefaultPeerPort, Etcd: cke.EtcdOptions{Version: version}}
}

// runByHand starts a member with its own volume, without cke's labels.
func (n *Node) runByHand(j cke.Join, l *member) {
	s := cke.MemberSpec{Join: j, Mode: cke.StartJoin}
	for _, m := range l.present() {
		s.Peers = append(s.Peers, cke.Peer{Name: m.name, URL: m.peer})
	}
	v := &volume{name: j.Volume, createdAt: n.world.now(), files: map[string]bool{}}
	n.volumes[j.Volume] = v
	n.makeByHand(s)
}

func (n *Node) makeByHand(s cke.MemberSpec) {
	c := newContainer(n, s)
	c.Image = "quay.io/coreos/etcd:v3.6.16"
	n.containers[c.Name] = c
	c.run()
}

// PutBack runs a foreign member again on its volume, after its container was removed.
func (n *Node) PutBack(name string) {
	n.change("the operator runs "+name+" again", func() {
		if v := n.volumes[name]; v != nil && v.wal != nil && n.containers[name] == nil {
			version := fmt.Sprintf("3.%d.99", max(v.wal.minor(), v.wal.runs.minor))
			n.makeByHand(cke.MemberSpec{Join: n.hand(name, version), Mode: cke.StartOwnData})
		}
	})
}

// RollBack puts the machine's disk back to an earlier state, and reboots it: members have forgotten their last entries.
func (n *Node) RollBack(entries int) {
	n.change("disk put back to an earlier state", func() {
		n.powerOff()
		for _, v := range n.volumes {
			if v.wal != nil && len(v.wal.log) > 0 {
				m := *v.wal
				m.log = slices.Clone(m.log[:max(0, len(m.log)-entries)])
				m.commit = min(m.commit, len(m.log))
				m.database, m.proved, m.snapshot = database{file: m.database.file}, 0, min(m.snapshot, len(m.log))
				v.wal = &m
			}
		}
	})
	n.PowerOn()
}

// Expel removes a foreign member from the list, as an operator does with etcdctl.
func (w *World) Expel() {
	w.change("the operator removes a foreign member", func() {
		s := w.standing()
		strangers := w.strangersOf(s)
		if s.leader == nil || strangers == nil {
			return
		}
		l := s.running[slices.IndexFunc(s.running, func(p process) bool { return p.member == s.leader })]
		w.groups[l.history()].reconfigure(w, l, s.running, entry{kind: entryRemove, id: strangers[0]})
	})
}

// Forget removes the member of a node from the list, as an operator does with etcdctl; one whose id is not on record is known by
// its peer URL.
func (w *World) Forget(node string) {
	w.change("the operator removes the member of "+node, func() {
		s := w.standing()
		for _, j := range w.store.identity.Joins {
			if j.Node.Name() == node && s.leader != nil {
				l := s.running[slices.IndexFunc(s.running, func(p process) bool { return p.member == s.leader })]
				for _, m := range s.list {
					if hexID(m.id) == j.MemberID || j.MemberID == "" && m.peer == j.PeerURL() {
						w.groups[l.history()].reconfigure(w, l, s.running, entry{kind: entryRemove, id: m.id})
						return
					}
				}
			}
		}
	})
}

// countListed counts entries of the member list that the leader has; -1: there is no leader.
func (w *World) countListed(count func(standing) int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tick()
	s := w.standing()
	if s.leader == nil {
		return -1
	}
	return count(s)
}

// ForeignMembers counts the foreign members in the list; -1: there is no leader that has one.
func (w *World) ForeignMembers() int {
	return w.countListed(func(s standing) int { return len(w.strangersOf(s)) })
}

func (w *World) strangersOf(s standing) []uint64 {
	var ids []uint64
	for _, m := range s.list {
		if !slices.ContainsFunc(w.store.identity.Joins, func(j cke.Join) bool {
			return j.MemberID == hexID(m.id) || j.MemberID == "" && j.PeerURL() == m.peer
		}) {
			ids = append(ids, m.id)
		}
	}
	return ids
}

// RepairData ends a CorruptData.
func (n *Node) RepairData() {
	n.change("data repaired", func() {
		for _, v := range n.volumes {
			if v.wal != nil {
				v.wal.corrupt = false
			}
		}
	})
}

// Serving returns how many voters of the formed cluster run and reach a quorum; 0: there is none.
func (w *World) Serving() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tick()
	s := w.standing()
	if !s.quorate || s.unwell(0) > 0 || s.pending(0) > 0 {
		return 0
	}
	return len(s.voters)
}
