package sim

import (
	"slices"
	"strings"

	"cke"
)

// oldName is the container and the volume of a member of an old cluster.
const oldName = "old"

// RunOld runs an etcd that an operator made, with a member on each of these machines. plain: without TLS between peers.
func (w *World) RunOld(plain bool, machines ...*Node) {
	w.change("an etcd of an operator runs", func() {
		var joins []cke.Join
		var peers []cke.Peer
		for _, n := range machines {
			j := n.hand(n.name, "3.6.16")
			j.Volume, j.PlainPeers = oldName, plain
			joins, peers = append(joins, j), append(peers, cke.Peer{Name: j.Member, URL: j.PeerURL()})
		}
		for i, n := range machines {
			n.volumes[oldName] = &volume{name: oldName, createdAt: w.now(), files: map[string]bool{}}
			n.makeByHand(cke.MemberSpec{Join: joins[i], Mode: StartNew, Peers: peers, Token: oldName})
		}
	})
}

// Import puts that etcd on record as the old cluster of c, as `ckecli cluster import` does.
func (w *World) Import(c cke.Cluster, plain bool, machines ...*Node) {
	w.change("the operator imports it", func() {
		old, clusterID := cke.Import{PlainPeers: plain}, ""
		for _, n := range machines {
			m := n.volumes[oldName].wal
			clusterID = hexID(m.cluster)
			old.Members = append(old.Members, cke.OldMember{ID: hexID(m.id), Name: n.name, URL: n.containers[oldName].spec.Join.ClientURL()})
		}
		s := w.store
		s.spec = cke.Spec{}.Following(c, cke.Spec{})
		s.spec.SetAt = w.now()
		inc := cke.NewImport(c, clusterID, old, w.now())
		s.put(cke.Identity{Incarnation: &inc})
	})
}

// declared are the nodes that are to carry a member.
func (s *Store) declared() []cke.Node {
	return s.identity.Incarnation.Importing().Wants(s.spec.Cluster).ControlPlane()
}

// KeepOld lets the members of the old cluster stay until the operator continues the import.
func (w *World) KeepOld() {
	w.change("the operator keeps the old members", func() {
		inc := *w.store.identity.Incarnation
		old := *inc.Import
		old.KeepOld, inc.Import = true, &old
		id := cloneIdentity(w.store.identity)
		id.Incarnation = &inc
		w.store.put(id)
	})
}

// OldMembers is how many members of the old cluster the list has; -1: no member leads.
func (w *World) OldMembers() int {
	return w.countListed(func(s standing) int {
		return len(slices.DeleteFunc(slices.Clone(s.list), func(l listed) bool { return !w.isOld(l.id) }))
	})
}

func (w *World) isOld(id uint64) bool {
	inc := w.store.identity.Incarnation
	return inc != nil && inc.Import.Has(cke.Member{ID: hexID(id)})
}

// leavesOld observes a voter of an old cluster that a daemon removes: those of cke must be a quorum of what is left.
func (c *checker) leavesOld(p proposal, id uint64) {
	inc := c.world.store.identity.Incarnation
	if !c.world.isOld(id) || c.world.late {
		return
	}
	if inc.Import.KeepOld || inc.Import.Reverting || !inc.Import.EndedAt.IsZero() {
		c.violated("a member of the old cluster is removed though it is kept, or the import is reverted or over")
	}
	own, voters := 0, 0
	for _, v := range p.leader.voters() {
		if v == id {
			continue
		}
		voters++
		serves := slices.ContainsFunc(p.running, func(r process) bool { return r.id == v && c.world.reach(p.leader, r) })
		if !c.world.isOld(v) && serves {
			own++
		}
	}
	if own < majority(voters) {
		c.violated("a member of the old cluster is removed while %d of the %d others are of cke and serve", own, voters)
	}
}

// withoutScheme is host:port of a member's URL.
func withoutScheme(url string) string {
	return strings.TrimPrefix(strings.TrimPrefix(url, "https://"), "http://")
}
