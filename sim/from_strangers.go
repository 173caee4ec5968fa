package sim

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"cke"
)

// strangers puts members that no membership names into the world: those that serve, on their machine, and while voters are hidden
// also those that tell nothing, each on a machine that nobody reaches.
func (f *from) strangers() {
	for _, m := range f.seen.Etcd.Members {
		host, e := hostOf(m), f.answerOf(m)
		n := f.at(host)
		serves := e.Healthy() && (e.Linearizable || e.Learner)
		if m.Name == "" || host == "" || f.ours(m) || !serves && (!f.hidden || n != nil) {
			continue
		}
		if n == nil {
			n = f.AddNode("foreign member "+m.ID, host)
			n.on = false
		}
		if !n.on { // no machine that is observed, and etcd serves, or must
			n.on, n.refusesKey, n.filtered = true, true, !serves
		}
		f.stranger(n, m, e)
	}
}

// stranger lets a member run on a machine: in the container that was seen to carry it, or in a bare one, which stands for whatever does.
func (f *from) stranger(n *Node, m cke.Member, e cke.EndpointStatus) {
	o := f.spec.Options.Etcd
	o.Version = e.Version
	j := cke.Join{Node: cke.Node{Address: n.address}, Member: m.Name, Volume: m.ID, ClientPort: portIn(m.ClientURLs, o.ClientPort), PeerPort: portIn(m.PeerURLs, o.PeerPort), Etcd: o}
	j.PlainPeers = slices.ContainsFunc(m.PeerURLs, func(url string) bool { return strings.HasPrefix(url, "http://") })
	delete(n.taken, j.ClientPort)
	delete(n.taken, j.PeerPort)
	made := newContainer(n, cke.MemberSpec{Join: j, Mode: cke.StartOwnData})
	c := made
	c.bare = true
	for _, known := range n.containers {
		if known.foreign && known.Running() && known.Carries(m.PeerURLs) {
			c, known.foreign, known.spec = known, false, made.spec
		}
	}
	c.State = cke.ContainerRunning
	n.containers[c.Name] = c
	f.asksOld(m, j.ClientURL())
	n.volumes[m.ID] = &volume{name: m.ID, files: map[string]bool{}, wal: &member{id: number(m.ID), cluster: f.clusterID(), name: m.Name, database: database{used: e.DBSizeInUse, file: e.DBSize}}, bare: true}
	f.joins = append(f.joins, c)
}

// asksOld lets a member of an old cluster be asked where it serves in this world.
func (f *from) asksOld(m cke.Member, url string) {
	if old := f.identity.Incarnation.Importing(); old.Has(m) {
		inc, at := *f.identity.Incarnation, *old
		at.Members = slices.Clone(old.Members)
		for i := range at.Members {
			if at.Members[i].ID == m.ID {
				at.Members[i].URL = url
			}
		}
		inc.Import = &at
		f.identity.Incarnation, f.store.identity.Incarnation = &inc, &inc
	}
}

// ours reports whether a membership names a member.
func (f *from) ours(m cke.Member) bool {
	return slices.ContainsFunc(f.identity.Joins, func(j cke.Join) bool { return j.MemberID == m.ID || slices.Contains(m.PeerURLs, j.PeerURL()) })
}

// answerOf is what a member told of itself; its zero value, which is a problem: nothing.
func (f *from) answerOf(m cke.Member) cke.EndpointStatus {
	for _, e := range f.seen.Etcd.Endpoints {
		if e.MemberID == m.ID && e.Problem == "" {
			return e
		}
	}
	return cke.EndpointStatus{Problem: "it did not answer"}
}

func portIn(urls []string, or int) int {
	for _, text := range urls {
		if u, err := url.Parse(text); err == nil {
			if n, err := strconv.Atoi(u.Port()); err == nil {
				return n
			}
		}
	}
	return or
}
