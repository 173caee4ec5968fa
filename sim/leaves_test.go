package sim

// Leave removes the member at a peer URL by hand, through a member that serves.
func (n *Node) Leave(name string) bool {
	w, left := n.world, false
	n.change("the operator removes member "+name, func() {
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
					left = g.reconfigure(w, l, running, entry{kind: entryRemove, id: m.id})
				}
			}
			return
		}
	})
	return left
}
