package cke

import (
	"fmt"
	"slices"
)

// Misnamed is a hostname that a cluster file gives to one machine while a member that is called so runs on another one.
type Misnamed struct {
	// Node is the declared node of that name, Join the membership whose machine had the name when the member was added.
	Node Node
	Join Join
}

// Misnamed returns the hostnames that a file gives to other machines although those that carry their members are declared,
// too. A machine that moves takes its name along: its old address is not declared any more.
func (i Identity) Misnamed(c Cluster) []Misnamed {
	var all []Misnamed
	for _, n := range c.Nodes {
		for _, j := range i.Joins {
			if j.Node.Name() != n.Name() || j.Node.Address == n.Address {
				continue
			}
			if slices.ContainsFunc(c.Nodes, func(d Node) bool { return d.Address == j.Node.Address }) {
				all = append(all, Misnamed{Node: n, Join: j})
			}
		}
	}
	return all
}

// Problem says whose name it is, and what to do.
func (m Misnamed) Problem() Problem {
	return Problem{Code: CodeMisnamed, Node: m.Node.Name(),
		Message: fmt.Sprintf("the cluster file gives the hostname %s to %s, and the member of that name runs on %s", m.Node.Name(), m.Node.Address, m.Join.Node.Address),
		Remedy:  "give each machine its hostname back in the cluster file; a machine that gets another address is declared with it under its own hostname, one after the other"}
}
