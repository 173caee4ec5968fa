package sim

import (
	"context"
	"fmt"

	"cke"
)

// method is one method of a node's port on its way: the requests that it makes to the engine, one after the other. Each of
// them may be the last one of its daemon, be refused or lost, or land late.
type method struct {
	machine
	ctx   context.Context
	name  string
	begun bool // a request was made, or the method only reads
}

// method starts one that changes something.
func (m machine) method(ctx context.Context, name string) *method {
	return &method{machine: m, ctx: ctx, name: name}
}

// request makes one request. The one that the method is about bears its name alone, and what is "". id is the container that
// the engine is told of; nil: none.
func (r *method) request(what string, writes bool, id *container, do effect) error {
	n := r.d.world.at(r.declared.Address)
	if n == nil {
		return noMachine()
	}
	c := Call{Port: "node", Node: n.name, Name: r.name, Writes: writes, begins: !r.begun}
	if what != "" {
		c.Name += " " + what
	}
	if id != nil {
		c.of = &binding{n, id}
	}
	r.begun = true
	return r.d.call(r.ctx, c, n, r.declared, func(half bool) error { return do(n, half) })
}

// inspected is a container as the engine showed it.
type inspected struct {
	cke.Container
	id   *container
	keep bool
}

// inspect asks for the join's container. ErrNotFound: there is none. ErrConflict: it is another one's.
func (r *method) inspect(j cke.Join) (seen inspected, err error) {
	err = r.request("inspect", false, nil, func(n *Node, _ bool) error {
		seen, err = n.inspect(j)
		return err
	})
	return seen, err
}

// inspect finds the join's container by its name or, if it was renamed, by its labels.
func (n *Node) inspect(j cke.Join) (inspected, error) {
	of := func(c *container) bool { return !c.bare && c.Join == j.ID && c.Incarnation == j.Incarnation }
	c := n.containers[j.Volume]
	if c == nil || !of(c) {
		for _, other := range n.sorted() {
			if of(other) {
				c = other
			}
		}
	}
	switch {
	case c == nil || c.bare:
		return inspected{}, fmt.Errorf("container %s on %s: %w", j.Volume, n.name, cke.ErrNotFound)
	case !of(c):
		return inspected{}, fmt.Errorf("container %s on %s carries the labels of another membership: %w", c.Name, n.name, cke.ErrConflict)
	}
	return inspected{c.shown(), c, c.keep}, nil
}

// binding is the container that a request names. The engine is told of containers by its own ids, which are never used
// again: a request has its effect on that very one, or none.
type binding struct {
	node *Node
	id   *container
}

// holds reports whether that container is still there.
func (b *binding) holds() bool { return b.node.containers[b.id.Name] == b.id }
