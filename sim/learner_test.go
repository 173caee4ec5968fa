package sim

// JoinLearner adds a foreign member on a node, as an operator does with etcdctl and docker: a learner, which runs.
func (n *Node) JoinLearner(name string) (joined bool) {
	w := n.world
	n.change("the operator adds learner "+name, func() {
		for _, j := range w.store.identity.Joins {
			c, problem := w.serving(Management, j.ClientURL())
			if problem != "" {
				continue
			}
			l, g, running, ok := w.leads(c)
			if !ok {
				continue
			}
			hand, now := n.hand(name, l.c.spec.Join.Etcd.Version), w.now()
			id := memberID(hand.PeerURL(), w.another(), &now)
			if joined = g.reconfigure(w, l, running, entry{kind: entryAdd, id: id, peer: hand.PeerURL(), learner: true}); joined {
				n.runByHand(hand, l.member)
			}
			return
		}
	})
	return joined
}

// PromoteByHand makes the learner on the node a voter, as an operator does with etcdctl.
func (n *Node) PromoteByHand(name string) (promoted bool) {
	w := n.world
	n.change("the operator promotes "+name, func() {
		for _, j := range w.store.identity.Joins {
			c, problem := w.serving(Management, j.ClientURL())
			if problem != "" {
				continue
			}
			l, g, running, ok := w.leads(c)
			if !ok {
				continue
			}
			peer := n.hand(name, l.c.spec.Join.Etcd.Version).PeerURL()
			for _, m := range l.member.present() {
				if m.peer == peer {
					promoted = g.reconfigure(w, l, running, entry{kind: entryPromote, id: m.id})
				}
			}
			return
		}
	})
	return promoted
}
