package sim

import (
	"context"
	"fmt"
	"slices"

	"cke"
)

const (
	// longLife is how many entries every log has had and compacted, once a client has written.
	longLife = 100_000
	// farBehind is how many entries a member is behind to which little comes through.
	farBehind = 5000
)

// etcdPort is a daemon's way to the members.
type etcdPort struct{ d *Daemon }

var _ cke.Etcd = etcdPort{}

// serving returns the container whose member listens at a client URL.
func (w *World) serving(from, url string) (*container, string) {
	for _, n := range w.nodes {
		if !n.hosts(url) {
			continue
		}
		if !w.connected(from, n.name) || n.filtered && from == Management {
			return nil, "context deadline exceeded"
		}
		for _, c := range n.sorted() {
			if c.foreign || c.spec.Join.ClientURL() != url {
				continue
			}
			switch {
			case c.State == cke.ContainerPaused:
				return nil, "context deadline exceeded"
			case c.member() == nil:
				continue
			case !c.ready():
				return nil, "context deadline exceeded"
			case !c.trusted() || c.Cluster != "" && !c.takes(w.personAt(from)):
				return nil, "tls: bad certificate"
			}
			return c, ""
		}
		return nil, "connection refused"
	}
	return nil, "no route to host"
}

// personAt is who asks from somewhere: cke, or operators' clients.
func (w *World) personAt(from string) person {
	if from == Clients {
		return w.clients
	}
	return clientsOf(w.store.identity.Authorities)
}

// voting returns the container whose member listens at a client URL, unless it is a learner: those answer status and
// serializable reads only. Source: etcd, isRPCSupportedForLearner.
func (w *World) voting(url string) (*container, error) {
	c, problem := w.serving(Management, url)
	if problem != "" {
		return nil, fmt.Errorf("%s: %s", url, problem)
	}
	m := c.member()
	if slices.ContainsFunc(m.members(), func(l listed) bool { return l.id == m.id && l.learner && !l.gone }) {
		return nil, fmt.Errorf("%s: etcdserver: rpc not supported for learner", url)
	}
	return c, nil
}

// leads returns the leader of c's member, the group and its processes, if c reaches the leader and it has committed
// something in its term: before that no linearizable read succeeds.
func (w *World) leads(c *container) (process, *group, []process, bool) {
	m := c.member()
	g, running := w.groups[m.history()], w.running(m.history())
	for _, p := range running {
		if g != nil && p.member == g.leader && w.reach(process{m, c}, p) && p.commit > 0 && p.log[p.commit-1].term == p.term &&
			slices.ContainsFunc(p.present(), func(l listed) bool { return l.id == m.id }) { // a leader closes its connections with whom it has removed
			return p, g, running, true
		}
	}
	return process{}, nil, nil, false
}

// endpoint is what a member answers about itself.
func (w *World) endpoint(url string) cke.EndpointStatus {
	s := cke.EndpointStatus{URL: url}
	c, problem := w.serving(Management, url)
	if problem != "" {
		s.Problem = problem
		return s
	}
	m := c.member()
	s.Serializable = true
	s.ClusterID, s.MemberID = hexID(m.cluster), hexID(m.id)
	s.Version, s.StorageVersion = c.version(), c.storage()
	s.RaftTerm, s.RaftIndex, s.RaftApplied, s.Revision = m.term, uint64(len(m.log)), uint64(m.commit), m.apply().revision()
	if s.Revision > cke.FirstRevision { // before, the log has what a bootstrap leaves
		s.RaftIndex, s.RaftApplied = longLife+s.RaftIndex, longLife+s.RaftApplied
	}
	if c.node.trickles {
		s.RaftApplied -= min(s.RaftApplied, farBehind)
	}
	behind := c.strained()
	if behind {
		since := uint64(w.now().Sub(c.StartedAt).Milliseconds() / 100)
		s.RaftApplied -= min(s.RaftApplied, farBehind-min(farBehind-1, since))
	}
	d := m.apply()
	s.DBSize, s.DBSizeInUse = d.file, d.told
	for _, l := range m.members() {
		if l.id == m.id {
			s.Learner = l.learner
		}
	}
	s.Denied = w.denied() != nil
	worth := c.volume().certificates(w.certificateLife())
	s.CertNotBefore, s.CertNotAfter = worth.NotBefore, worth.NotAfter
	if l, _, _, ok := w.leads(c); ok {
		s.LeaderID = hexID(l.id)
		if s.Linearizable = !s.Learner && !behind; s.Linearizable { // the read waits until the member is level with the leader
			s.RaftTerm, s.Revision = l.term, l.apply().revision()
		}
	} else if s.Learner && m.runs.follows != 0 { // it never campaigns, and names the leader that it heard last
		s.LeaderID = hexID(m.runs.follows)
	} else {
		s.Errors = []string{"etcdserver: no leader"}
	}
	for _, a := range d.alarms { // NOSPACE keeps nobody from serving, nor does a stop of writes
		s.NoSpace = s.NoSpace || a.Kind == noSpace
		s.Corrupt = s.Corrupt || a.Kind == corrupt && !a.StopsWrites()
		if a.Kind != noSpace && !a.StopsWrites() {
			s.Errors = append(s.Errors, fmt.Sprintf("memberID:%d alarm:%s", number(a.MemberID), a.Kind))
		}
	}
	return s
}

func (e etcdPort) call(ctx context.Context, url, name string, writes bool, do func() error) error {
	node := url
	for _, n := range e.d.world.nodes {
		if n.hosts(url) {
			node = n.name
		}
	}
	return e.d.call(ctx, Call{Port: "etcd", Node: node, Name: name, Writes: writes, begins: writes}, nil, cke.Node{}, func(bool) error { return do() })
}

// Endpoint implements cke.Etcd.
func (e etcdPort) Endpoint(ctx context.Context, url string) cke.EndpointStatus {
	s := cke.EndpointStatus{URL: url}
	var of *container
	e.d.asks(func(j cke.Join) bool { return j.ClientURL() == url })
	err := e.call(ctx, url, "Endpoint", false, func() error {
		s = e.d.world.endpoint(url)
		of, _ = e.d.world.serving(Management, url)
		return nil
	})
	if err != nil {
		return cke.EndpointStatus{URL: url, Problem: err.Error()}
	}
	e.d.saw(of)
	return s
}

// Members implements cke.Etcd.
func (e etcdPort) Members(ctx context.Context, url string) (id string, members []cke.Member, err error) {
	err = e.call(ctx, url, "Members", false, func() (err error) {
		id, members, err = e.d.world.list(url)
		return err
	})
	return id, members, err
}

// Listed implements cke.Etcd.
func (e etcdPort) Listed(ctx context.Context, url string) (id string, list cke.MemberList, err error) {
	err = e.call(ctx, url, "Listed", false, func() error {
		c, err := e.d.world.voting(url)
		if err == nil {
			m := c.member()
			id, list = hexID(m.cluster), cke.MemberList{Members: m.entries(), Source: cke.MembersLocal, At: e.d.world.endpoint(url).RaftApplied}
		}
		return err
	})
	return id, list, err
}

// list is the linearizable member list through one endpoint.
func (w *World) list(url string) (string, []cke.Member, error) {
	c, err := w.voting(url)
	switch {
	case err != nil:
		return "", nil, err
	case w.muted:
		return "", nil, fmt.Errorf("%s: etcdserver: request timed out", url)
	}
	l, _, _, ok := w.leads(c)
	if !ok {
		return "", nil, fmt.Errorf("%s: etcdserver: no leader", url)
	}
	return hexID(l.cluster), l.entries(), nil
}

// MembersSettle lets etcd add members only once its voters have been connected for five seconds, as it does; each change that is
// tried again meanwhile takes hundreds of calls.
func (w *World) MembersSettle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settles = true
}

// MuteLists lets members answer all but the question for a member list through a quorum, as when that takes too long.
func (w *World) MuteLists(on bool) {
	w.change(fmt.Sprintf("member lists are not answered: %v", on), func() { w.muted = on })
}

// entries is the member list as a member answers it.
func (m *member) entries() (all []cke.Member) {
	for _, l := range m.present() {
		e := cke.Member{ID: hexID(l.id), Name: l.name, PeerURLs: []string{l.peer}, Learner: l.learner}
		if l.client != "" {
			e.ClientURLs = []string{l.client}
		}
		all = append(all, e)
	}
	return all
}

// ProveWrite implements cke.Etcd.
func (e etcdPort) ProveWrite(ctx context.Context, url string) error {
	return e.call(ctx, url, "ProveWrite", true, func() error { return e.d.world.propose(Management, url, entry{kind: entryAsk}) })
}

// propose takes an entry through raft by way of one endpoint.
func (w *World) propose(from, url string, x entry) error {
	c, problem := w.serving(from, url)
	if problem != "" {
		return fmt.Errorf("%s: %s", url, problem)
	}
	l, g, running, ok := w.leads(c)
	if !ok {
		return fmt.Errorf("%s: etcdserver: no leader", url)
	}
	if err := w.takes(c.member(), l, g, running, x); err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	if !g.propose(w, l, running, x) {
		return fmt.Errorf("%s: etcdserver: request timed out", url)
	}
	return nil
}

// Write is a client's write through one member of the cluster; no client has a certificate before the cluster is formed. It
// reports whether the write was acknowledged: it must never be lost then.
func (w *World) Write(node, value string) bool {
	return w.put(node, entry{kind: entryPut, value: value}, value)
}

// AddUser adds a user of etcd through one member, as operators do, and reports whether that was acknowledged. It leaves no
// revision.
func (w *World) AddUser(node, name string) bool { return w.put(node, entry{}, "the user "+name) }

func (w *World) put(node string, e entry, what string) bool {
	ok := false
	w.change("a client writes "+what+" through "+node, func() {
		w.events-- // nothing that anybody could have to know of
		life := w.serves()
		if life == nil {
			return
		}
		for _, carrier := range w.Node(node).sorted() { // clients know where members serve, whatever is on record
			url := carrier.spec.Join.ClientURL()
			c, _ := w.serving(Clients, url)
			if ok || carrier.foreign || c == nil || hexID(c.member().cluster) != life.ClusterID || w.propose(Clients, url, e) != nil {
				continue
			}
			if ok = true; e.kind == entryPut {
				w.wasAcknowledged(c.member(), e.value)
			}
		}
	})
	return ok
}
