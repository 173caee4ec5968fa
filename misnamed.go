package cke

import (
	"fmt"
	"slices"
)

// Misnamed is a hostname that the cluster file gives to one machine while the member of that name runs on another
// one.
type Misnamed struct {
	// Node is the declared node of that name, Join the membership whose machine had the name when the member was added.
	Node Node
	Join Join
}

// Misnamed returns the hostnames that a file gives to other machines although the machines of their members are still
// declared. A machine that moves keeps its name: its old address is no longer declared.
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

// Problem returns whose name it is, and what to do.
func (m Misnamed) Problem() Problem {
	return Problem{Code: CodeMisnamed, Node: m.Node.Name(),
		Message: fmt.Sprintf("the cluster file gives the hostname %s to %s, but the member of that name runs on %s", m.Node.Name(), m.Node.Address, m.Join.Node.Address),
		Remedy:  "give each machine its own hostname again in the cluster file; if a machine's address changes, declare the new address under its own hostname, one machine at a time"}
}
