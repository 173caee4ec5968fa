package sim

import (
	"slices"

	"cke"
)

// Succeed lets a machine leave for good with all that is on it. A blank one, which is registered under another name and shows another host
// key, gets its address, and is returned.
func (n *Node) Succeed(name string) *Node {
	w := n.world
	next := &Node{world: w, name: name, address: n.address, sshPort: n.sshPort, on: true, hostKey: n.hostKey + 1, pinned: n.pinned, succeeds: true}
	next.wipe()
	if !n.read {
		next.pinned = next.hostKey // cke cannot know that another one is
	}
	n.change("leaves, and "+name+" gets its address", func() {
		n.powerOff()
		n.wipe()
		n.left, n.address, n.former, n.alias = true, "", "", ""
		w.left = append(w.left, n)
		w.nodes[slices.Index(w.nodes, n)] = next // names of successors follow those of the machines before
	})
	return next
}

// Left reports whether the machine is there no more. Nothing happens to it then.
func (n *Node) Left() bool {
	n.world.mu.Lock()
	defer n.world.mu.Unlock()
	return n.left
}

// serials are those of all machines that ever were registered.
func (w *World) serials() (all []string) {
	for _, n := range slices.Concat(w.nodes, w.left) {
		all = append(all, n.name)
	}
	return all
}

// serialOn is the serial of the machine of the membership that is on record on a node; if none is, that of the node.
func (w *World) serialOn(n *Node) string {
	for _, j := range w.store.identity.Joins {
		if n.has(j.Node.Address) {
			return j.Node.Name()
		}
	}
	return n.name
}

// takesSuccessor judges that an inventory leads to the declaration of a machine at the address of one that left only once the membership
// there has ended, and only because an operator ordered it, who forgets the host key of the machine before.
func (w *World) takesSuccessor(n cke.Node, e cke.InventoryEdit, what string) {
	m := w.at(n.Address)
	known := func(o cke.Node) bool { return o.Name() == n.Name() }
	if m == nil || !m.succeeds || m.name != n.Name() || slices.ContainsFunc(w.store.spec.Cluster.Nodes, known) {
		return
	}
	w.mark(SuccessorDeclared)
	for _, j := range w.store.identity.Joins {
		if j.Node.Address == n.Address && j.Node.Name() != n.Name() {
			w.violated("%s declares %s at the address of %s, whose membership has not ended", what, n.Name(), j.Node.Name())
		}
	}
	if e.Order == nil && m.hostKey != m.pinned {
		w.violated("%s declares %s, which shows another host key than the machine before, without an order", what, n.Name())
	}
}
