package sim

import (
	"net/url"
	"slices"
	"strconv"
	"time"

	"cke"
)

// FromObservation makes a world that is as a cluster was observed, with the stored revision of its file, its identity and
// requests. All logs are equal and caught up; the member that led leads. For what was not seen it assumes the worst:
//
//   - A node that does not answer stays away. Its member takes part only if it answers, or if the quorum that was seen
//     cannot be without it.
//   - A member that was seen running and does not serve hangs until its container is started again.
//   - Members that had no quorum though enough of them ran continue without one.
//   - A member that no membership names takes part if it was seen to serve, or if the quorum cannot be without it.
//
// A declared node that was never observed answers and is blank, or is the machine of that name where the name was seen
// at an address that is declared no more; FromObservation returns the names of those.
func FromObservation(now func() time.Time, spec cke.Spec, identity cke.Identity, requests cke.Requests, seen cke.Observation) (w *World, assumed []string) {
	w = New(spec.Cluster.Name, now)
	w.store.spec, w.store.identity, w.store.requests = spec, cloneIdentity(identity), requests
	w.clients = clientsOf(identity.Authorities)
	for _, name := range cke.AuthorityNames() {
		for _, c := range identity.Authorities.Of(name).Kept() {
			c.Fingerprint = recorded(name, c)
			w.cas[cke.AuthoritySecret(name, c.Generation)] = c
		}
	}
	f := from{World: w, spec: spec.Cluster, identity: identity, seen: seen, hidden: hidesVoters(seen.Etcd)}
	for _, s := range seen.Nodes {
		f.node(s)
	}
	for _, d := range spec.Cluster.Nodes {
		if w.at(d.Address) == nil {
			w.AddNode(freeName(w, d), d.Address).sshPort = portOf(d)
			f.assumed = append(f.assumed, d.Name())
		}
	}
	for _, j := range identity.Joins {
		f.member(j)
	}
	f.strangers()
	f.found()
	f.lead()
	return w, f.assumed
}

// from is a world under construction.
type from struct {
	*World
	spec     cke.Cluster
	identity cke.Identity
	seen     cke.Observation
	// hidden: voters that do not answer must take part, or there would be no quorum.
	hidden bool
	joins  []*container // of members that run
	// assumed are the nodes that were never seen as they are declared.
	assumed []string
}

// hidesVoters reports whether a quorum was seen that the voters that answered do not make.
func hidesVoters(s cke.EtcdStatus) bool {
	voters, serve := cke.CountVoters(s.Members), 0
	for _, e := range s.Endpoints {
		if e.Linearizable && !e.Learner {
			serve++
		}
	}
	return s.Quorate && serve < majority(voters)
}

func portOf(n cke.Node) int {
	if n.SSH.Port == 0 {
		return cke.DefaultSSHPort
	}
	return n.SSH.Port
}

// freeName is the node's name, or its address where another machine bears the name.
func freeName(w *World, n cke.Node) string {
	if w.Node(n.Name()) != nil {
		return n.Address
	}
	return n.Name()
}

// declared is a node as it is declared now: access to it may have changed since it was observed, or its address.
func (f *from) declared(n cke.Node) (now cke.Node, moved bool) {
	now = n
	for _, d := range f.spec.Nodes {
		if d.Address == n.Address {
			return d, false
		}
		if d.Name() == n.Name() && !slices.ContainsFunc(f.seen.Nodes, func(s cke.NodeStatus) bool { return s.Node.Address == d.Address }) {
			now, moved = d, true
		}
	}
	return now, moved
}

// node puts a machine into the world with what was seen on it.
func (f *from) node(s cke.NodeStatus) {
	d, moved := f.declared(s.Node)
	if moved && s.Answered() {
		f.assumed = append(f.assumed, d.Name())
	}
	n := f.AddNode(freeName(f.World, d), d.Address)
	n.sshPort, n.on = portOf(d), s.Answered()
	if !s.Answered() {
		return
	}
	n.over[f.spec.Name] = slices.Clone(s.Over)
	for _, v := range s.Volumes {
		n.volumes[v.Name] = &volume{name: v.Name, cluster: v.Cluster, incarnation: v.Incarnation, join: v.Join, createdAt: v.CreatedAt}
		n.volumes[v.Name].certify(f.now(), f.identity.Authorities, nil)
	}
	ours := false
	for _, c := range s.Containers {
		ours = ours || c.Cluster == f.spec.Name && c.Running()
		n.images[c.Image] = true
		n.containers[c.Name] = &container{Container: c, node: n, foreign: true, keep: !c.KeptDown, stoppedByHand: !c.Running()}
		if v := n.volumes[c.Name]; v != nil {
			v.certify(f.now(), f.identity.Authorities, c.Certificates)
		}
	}
	if !ours { // else the ports were not asked for
		o := f.spec.Options.Etcd
		n.taken[o.ClientPort], n.taken[o.PeerPort] = s.ClientPort == cke.PortOpen, s.PeerPort == cke.PortOpen
		n.filtered = s.ClientPort == cke.PortUnknown && len(s.Containers) == 0
	}
	for _, j := range f.identity.Ended {
		if v := n.volumes[j.Volume]; v != nil && v.join == j.ID {
			v.wal = &member{id: number(j.MemberID), cluster: f.clusterID(), name: j.Member, removed: true}
		}
	}
}

// member gives a membership its container and its log, as far as they are there.
func (f *from) member(j cke.Join) {
	at, _ := f.declared(j.Node)
	n := f.at(at.Address)
	if n == nil {
		return
	}
	e, _ := f.seen.Etcd.Endpoint(j.ID)
	if !n.on {
		if e.Problem != "" && !f.hidden || j.StartedAt.IsZero() {
			return
		}
		n.on, n.refusesKey, n.filtered = true, true, e.Problem != "" // etcd serves, or must
		n.volumes[j.Volume] = &volume{name: j.Volume, cluster: f.spec.Name, incarnation: j.Incarnation, join: j.ID, createdAt: j.StartedAt}
		n.volumes[j.Volume].certify(f.now(), f.identity.Authorities, nil)
		n.containers[j.Volume] = &container{node: n, keep: true, Container: cke.Container{ID: j.Volume, Name: j.Volume, Image: j.Etcd.Image, State: cke.ContainerRunning,
			Cluster: f.spec.Name, Incarnation: j.Incarnation, Join: j.ID, StartedAt: j.StartedAt}}
	}
	v, c := n.volumes[j.Volume], n.containers[j.Volume]
	if v == nil {
		return // a container without it runs nothing
	}
	data := !j.StartedAt.IsZero()
	if c != nil {
		c.foreign, c.spec = false, f.describe(j, e)
		c.Description = describe(c.spec)
		c.peerCAs, c.clientCAs = f.kept(cke.PeerAuthority), f.kept(cke.ClientAuthority, cke.ServerAuthority)
		data = data && (c.Running() || c.Data != cke.DataMissing)
	}
	if !data {
		return
	}
	v.wal = &member{id: f.memberID(j), cluster: f.clusterID(), name: j.Member, database: database{used: e.DBSizeInUse, file: e.DBSize}}
	switch {
	case c == nil || !c.Running():
	case f.hangs(c, e):
		c.hangs = true
	default:
		n.filtered = n.filtered || e.Problem != ""
		f.joins = append(f.joins, c)
	}
}

// kept are all that are on record: what a process was started with is taken for enough.
func (f *from) kept(names ...cke.AuthorityName) []string {
	var all []string
	for _, name := range names {
		for _, c := range f.identity.Authorities.Of(name).Kept() {
			all = append(all, recorded(name, c))
		}
	}
	return all
}

// hangs reports whether a running member is to take no part.
func (f *from) hangs(c *container, e cke.EndpointStatus) bool {
	switch {
	case f.forming():
		return false
	case c.State == cke.ContainerPaused:
		return true
	case !f.seen.Etcd.Quorate:
		return f.enoughRun()
	case e.Problem != "":
		return !f.hidden
	}
	return !e.Linearizable && !e.Learner
}

// enoughRun reports whether as many containers of members run as a quorum needs.
func (f *from) enoughRun() bool {
	running := 0
	for _, j := range f.identity.Joins {
		for _, s := range f.seen.Nodes {
			if c, there := s.Of(j.ID); there && s.Node.Address == j.Node.Address && s.Answered() && c.Running() {
				running++
			}
		}
	}
	return running >= majority(len(f.identity.Joins))
}

func (f *from) forming() bool {
	inc := f.identity.Incarnation
	return inc != nil && inc.State == cke.Forming
}

// describe is how the membership's container was made.
func (f *from) describe(j cke.Join, e cke.EndpointStatus) cke.MemberSpec {
	s := cke.MemberSpec{Cluster: f.spec.Name, Join: j, Mode: cke.StartOwnData}
	inc := f.identity.Incarnation
	if inc != nil {
		s.Token = inc.Token
	}
	switch {
	case f.forming():
		s.Mode = cke.StartPrepared
		for _, p := range inc.Founders {
			s.Peers = append(s.Peers, cke.Peer{Name: p.Member, URL: p.PeerURL()})
		}
	case e.Learner || j.StartedAt.IsZero():
		s.Mode = cke.StartJoin
	case e.Version != "":
		s.Join.Etcd.Version = e.Version
	}
	return s
}

// found gives every member the log that the member list reports.
func (f *from) found() {
	if f.forming() {
		f.foundAnew()
		return
	}
	term := uint64(1)
	for _, e := range f.seen.Etcd.Endpoints {
		term = max(term, e.RaftTerm)
	}
	var log []entry
	for _, m := range f.listed() {
		id := number(m.ID)
		x := entry{term: term, kind: entryAdd, id: id, learner: m.Learner}
		if len(m.PeerURLs) > 0 {
			x.peer = m.PeerURLs[0]
		}
		log = append(log, x)
		if m.Name != "" {
			p := entry{term: term, kind: entryPublish, id: id, value: m.Name}
			if len(m.ClientURLs) > 0 {
				p.client = m.ClientURLs[0]
			}
			log = append(log, p)
		}
	}
	for _, a := range f.seen.Etcd.Alarms {
		log = append(log, entry{term: term, kind: entryAlarm, id: number(a.MemberID), value: a.Kind})
	}
	for _, n := range f.nodes {
		for _, v := range n.volumes {
			if m := v.wal; m != nil && !m.removed {
				m.term, m.log, m.commit, m.snapshot = term, slices.Clone(log), len(log), len(log)
				f.born[m.id] = v.name
			}
		}
	}
	if inc := f.identity.Incarnation; inc != nil && inc.State == cke.Formed {
		life := *inc
		f.formed = &life
	}
}

// listed is the member list, or what the memberships say while there is none.
func (f *from) listed() []cke.Member {
	if len(f.seen.Etcd.Members) > 0 {
		return f.seen.Etcd.Members
	}
	var all []cke.Member
	for _, j := range f.identity.Joins {
		if j.MemberID != "" {
			all = append(all, cke.Member{ID: j.MemberID, Name: j.Member, PeerURLs: []string{j.PeerURL()}, ClientURLs: []string{j.ClientURL()}})
		}
	}
	return all
}

// foundAnew lets bootstrap members begin as etcd does.
func (f *from) foundAnew() {
	for _, n := range f.nodes {
		for _, c := range n.sorted() {
			if v := n.volumes[c.Name]; !c.foreign && v != nil && v.wal != nil {
				v.wal = foundedMember(c.spec, nil)
				f.wasBorn(c, v.wal)
			}
		}
	}
}

// lead lets the member lead that led.
func (f *from) lead() {
	leader, term := "", uint64(0)
	for _, e := range f.seen.Etcd.Endpoints {
		if e.LeaderID != "" && (leader == "" || e.RaftTerm > term) {
			leader, term = e.LeaderID, e.RaftTerm
		}
	}
	for _, c := range f.joins {
		m := c.member()
		if m == nil {
			continue
		}
		m.starts(c)
		if f.groups[m.history()] == nil {
			f.groups[m.history()] = &group{since: f.now().Add(-electionTime)}
		}
		if hexID(m.id) == leader {
			f.groups[m.history()].leader, f.groups[m.history()].match = m, map[uint64]int{}
		}
	}
	f.settle()
}

func (f *from) clusterID() uint64 {
	if inc := f.identity.Incarnation; inc != nil {
		return number(inc.ClusterID)
	}
	return 0
}

// memberID is the id of the membership's member, from the list where it is not on record.
func (f *from) memberID(j cke.Join) uint64 {
	if j.MemberID != "" {
		return number(j.MemberID)
	}
	for _, m := range f.seen.Etcd.Members {
		if slices.Contains(m.PeerURLs, j.PeerURL()) {
			return number(m.ID)
		}
	}
	return memberID(j.PeerURL(), string(j.ID), nil)
}

// number reads an id in hex; 0: it is none.
func number(id string) uint64 {
	n, _ := strconv.ParseUint(id, 16, 64)
	return n
}

func hostOf(m cke.Member) string {
	if len(m.PeerURLs) == 0 {
		return ""
	}
	u, err := url.Parse(m.PeerURLs[0])
	if err != nil {
		return ""
	}
	return u.Hostname()
}
