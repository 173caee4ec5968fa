package cke

import (
	"fmt"
	"slices"
	"strings"
)

// Neighbor is another cluster of cke with containers on a node, running or not.
type Neighbor struct {
	Cluster string `json:"cluster"`
	// Ports are those that its containers were made for, ascending.
	Ports []int `json:"ports,omitempty"`
	// Running: one of its containers runs. It is not stored: a status would change with each start and stop of others.
	Running bool `json:"-"`
}

// SplitNeighbors returns the containers of a cluster and the foreign ones, and the other clusters among the rest, by
// name.
func SplitNeighbors(cluster string, all []Container) (own []Container, others []Neighbor) {
	for _, c := range all {
		if c.Cluster == "" || c.Cluster == cluster {
			own = append(own, c)
			continue
		}
		i, known := slices.BinarySearchFunc(others, c.Cluster, func(b Neighbor, name string) int { return strings.Compare(b.Cluster, name) })
		if !known {
			others = slices.Insert(others, i, Neighbor{Cluster: c.Cluster})
		}
		others[i].Running = others[i].Running || c.Running()
		for _, port := range c.ports() {
			if k, there := slices.BinarySearch(others[i].Ports, port); !there {
				others[i].Ports = slices.Insert(others[i].Ports, k, port)
			}
		}
	}
	return own, others
}

// ports are those that the container was made for, by its label.
func (c Container) ports() (all []int) {
	if client, peer := placeOf(c.Place); client != "" {
		for _, text := range []string{client, peer} {
			_, port := HostPort(text)
			all = append(all, port)
		}
	}
	return all
}

// MadeFor reports whether the container was made for a port, by its label or, if it is foreign, by its settings.
func (c Container) MadeFor(port int) bool {
	if slices.Contains(c.ports(), port) {
		return true
	}
	return slices.ContainsFunc(c.PeerURLs, func(s string) bool {
		_, own := HostPort(s)
		return own == port
	})
}

// RunsNeighbor returns another cluster of which a member runs on the node; "": none is known.
func (s NodeStatus) RunsNeighbor() string {
	for _, b := range s.Neighbors {
		if b.Running {
			return b.Cluster
		}
	}
	return ""
}

// PortOwner returns the other cluster that has a container for a port on the node; "": none is known.
func (s NodeStatus) PortOwner(port int) string {
	for _, b := range s.Neighbors {
		if slices.Contains(b.Ports, port) {
			return b.Cluster
		}
	}
	return ""
}

// PortTaken returns the problem that another cluster has a container for one of these ports on the node; nil: none
// has.
func (s NodeStatus) PortTaken(ports ...int) *Problem {
	for _, port := range ports {
		if owner := s.PortOwner(port); owner != "" {
			return &Problem{Code: CodePortTaken, Node: s.Node.Name(), Message: fmt.Sprintf("port %d belongs to the member of cluster %s, whether it runs or not", port, owner),
				Remedy: "choose other ports in the cluster file: each cluster on a node needs its own"}
		}
	}
	return nil
}
