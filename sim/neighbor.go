package sim

import "cke"

// Neighbor is a member of another cluster on a node, or of one of the same name that another store has. Another cke manages
// it.
type Neighbor struct {
	Cluster              string
	ClientPort, PeerPort int
}

func (b Neighbor) join(n *Node) cke.Join {
	return cke.Join{ID: cke.JoinID("of-" + b.Cluster), Incarnation: "of another store", Node: n.Declared(), Member: n.name, Volume: "etcd-cke.of-" + b.Cluster,
		ClientPort: b.ClientPort, PeerPort: b.PeerPort}
}

// AddNeighbor puts a neighbor on the node, which runs. It reports false where a container on the node has one of its ports:
// its cke adds no member then.
func (n *Node) AddNeighbor(b Neighbor) (added bool) {
	n.change("a member of cluster "+b.Cluster, func() {
		j := b.join(n)
		if added = n.portOwner(j) == ""; !added {
			return
		}
		c := newContainer(n, cke.MemberSpec{Cluster: b.Cluster, Join: j, Mode: cke.StartOwnData})
		c.foreign = true
		n.containers[c.Name] = c
		c.run()
		n.volumes[c.Name] = &volume{name: c.Name, cluster: b.Cluster, incarnation: j.Incarnation, join: j.ID, createdAt: n.world.now(), files: map[string]bool{}}
	})
	return added
}

// IgnoreNeighbors lets machines make containers for ports of other clusters: for mutations.
func (w *World) IgnoreNeighbors() { w.crowded = true }

// StopNeighbor lets a neighbor be hibernated or crash; StartNeighbor lets it run again.
func (n *Node) StopNeighbor(cluster string) {
	n.change("the member of "+cluster+" stops", func() {
		if c := n.containers["etcd-cke.of-"+cluster]; c != nil {
			c.ends(0, "")
		}
	})
}

// StartNeighbor ends a StopNeighbor.
func (n *Node) StartNeighbor(cluster string) {
	n.change("the member of "+cluster+" starts", func() {
		if c := n.containers["etcd-cke.of-"+cluster]; c != nil && !c.Running() {
			c.run()
		}
	})
}

// RemoveNeighbor lets the cluster of a neighbor be deleted; its volume goes, too.
func (n *Node) RemoveNeighbor(cluster string) {
	n.change("the member of "+cluster+" is removed", func() {
		delete(n.containers, "etcd-cke.of-"+cluster)
		delete(n.volumes, "etcd-cke.of-"+cluster)
	})
}

// portOwner is the cluster whose member has one of a membership's ports, whether it runs or not; empty: no container on the
// node was made for them, other than the membership's own.
func (n *Node) portOwner(j cke.Join) string {
	for _, c := range n.sorted() {
		if c.Join == j.ID || c.Cluster == "" {
			continue
		}
		for _, port := range []int{j.ClientPort, j.PeerPort} {
			if c.spec.Join.ClientPort == port || c.spec.Join.PeerPort == port {
				return c.Cluster
			}
		}
	}
	return ""
}

// isTouched observes what a daemon is about to stop, remove or overwrite: it belongs to a membership on record.
func (c *checker) isTouched(what, cluster, incarnation string, j cke.JoinID) {
	s := c.world.store
	if c.world.stale || s.deleted || cluster == "" || s.named(j) {
		return
	}
	if cluster != c.cluster || !s.identity.OnRecord(incarnation, j) {
		c.violated("%s of cluster %s is touched, which is not on record", what, cluster)
	}
}

// named reports whether an operator asks for the volume of a membership to be removed.
func (s *Store) named(j cke.JoinID) bool {
	for _, t := range s.requests.Tasks {
		if v := s.world.volumeOf(j); v != nil && t.Kind == cke.TaskPurge && t.Subject == v.name {
			return true
		}
	}
	return false
}

func (w *World) volumeOf(j cke.JoinID) *volume {
	for _, n := range w.nodes {
		for _, v := range n.volumes {
			if v.join == j {
				return v
			}
		}
	}
	return nil
}

// sharesPort observes a container that a daemon has made.
func (c *checker) sharesPort(k *container) {
	if owner := k.node.portOwner(k.spec.Join); owner != "" && owner != k.Cluster {
		c.violated("clusters %s and %s share a port on %s", k.Cluster, owner, k.node.name)
	}
}
