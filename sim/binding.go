package sim

// binding is the container that a call was meant for when it was made. The engine is told of containers by its own ids,
// which are never used again: a call that lands late has its effect on that very one, or none. It never makes one where
// one of that name has come to stand meanwhile, either.
type binding struct {
	node      *Node
	name      string
	container *container // nil: there was none
}

// bind looks what a call is about while it is made.
func (n *Node) bind(name string) *binding {
	n.world.mu.Lock()
	defer n.world.mu.Unlock()
	return &binding{node: n, name: name, container: n.containers[name]}
}

// holds reports whether that container, or none, is still there.
func (b *binding) holds() bool { return b.node.containers[b.name] == b.container }
