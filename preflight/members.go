package preflight

import (
	"slices"

	"cke"
)

// Members distinguishes containers of the cluster's members from other containers.
type Members struct {
	// Cluster is its name.
	Cluster string
	// Identity is the cluster's; nil: it could not be read, and the name decides.
	Identity *cke.Identity
}

// has reports whether a container is labeled as one of the cluster's. What another incarnation of it left under its name is not;
// an abandoned one is no obstacle.
func (m Members) has(c cke.Container) bool {
	if c.Cluster != m.Cluster || m.Identity == nil {
		return c.Cluster == m.Cluster
	}
	life := m.Identity.Incarnation
	return life.Life(c.Incarnation) || life.WasAbandoned(c.Incarnation)
}

// runsOn reports whether a container of the cluster's member runs on a node.
func (m Members) runsOn(st cke.NodeStatus) bool {
	return slices.ContainsFunc(st.Containers, func(c cke.Container) bool { return m.has(c) && c.Running() })
}
