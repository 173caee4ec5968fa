package sim

import (
	"context"
	"maps"
	"slices"
	"time"

	"cke"
)

// Observer observes the world as the real one does: each node and each member by itself. What a node showed last is kept while
// it does not answer.
type Observer struct {
	d        *Daemon
	spec     cke.Cluster
	identity cke.Identity
	unlisted []cke.Former
	last     map[string]cke.NodeStatus // by address
	whole    map[string]cke.NodeStatus // as last was when everything was asked, at wholeAt
	wholeAt  time.Time
	changed  chan struct{}
	refused  bool // and etcd refused all changes of cke
	twins    int  // how many observations in a row saw that two histories serve
	served   bool // a leader served from the beginning of the last observation to its end, and nothing else happened
}

func newObserver(d *Daemon) *Observer {
	return &Observer{d: d, last: map[string]cke.NodeStatus{}, changed: make(chan struct{}, 1)}
}

// Update sets what to observe.
func (o *Observer) Update(spec cke.Cluster, identity cke.Identity, last ...cke.Member) {
	o.spec, o.identity, o.unlisted = spec, identity, identity.AskedUnlisted(last)
}

// Changed receives after something in the world has changed.
func (o *Observer) Changed() <-chan struct{} { return o.changed }

// Retry does nothing: simulated nodes are connected to at once.
func (o *Observer) Retry() {}

// poke notifies daemons that something has changed.
func (w *World) poke() {
	for _, d := range w.daemons {
		for _, c := range []chan struct{}{d.look.changed, d.term.changed} {
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}
}

// Glance observes as if every event since the last observation of everything had been lost: where one container of the cluster ran
// with its data, and the node answers and has that data, the node shows what it showed then. A minute after that it observes everything.
func (o *Observer) Glance(ctx context.Context) (seen cke.Observation, whole bool) {
	if o.d.Now().Sub(o.wholeAt).Abs() >= time.Minute {
		return o.Observe(ctx), true
	}
	seen, whole = o.observe(ctx), true
	for i, n := range seen.Nodes {
		then := o.whole[n.Node.Address]
		c, settled := o.settled(then)
		if now, there := n.Of(c.Join); settled && n.Answered() && there && now.ID == c.ID && now.Data == c.Data && c.Data == cke.DataPresent {
			then.Node, then.SeenAt, then.Clock = n.Node, n.SeenAt, n.Clock
			seen.Nodes[i], whole = then, false
		}
	}
	return seen, whole
}

// settled is the one container of the cluster on a node, if it ran.
func (o *Observer) settled(n cke.NodeStatus) (c cke.Container, settled bool) {
	ours := slices.DeleteFunc(slices.Clone(n.Containers), func(c cke.Container) bool { return c.Cluster != o.spec.Name })
	if len(ours) != 1 || !n.Answered() {
		return c, false
	}
	return ours[0], ours[0].State == cke.ContainerRunning
}

// Observe observes everything.
func (o *Observer) Observe(ctx context.Context) cke.Observation {
	seen := o.observe(ctx)
	o.whole, o.wholeAt = maps.Clone(o.last), o.d.Now()
	return seen
}

// observe probes every declared node, then nodes of memberships that are no longer declared, then the members.
func (o *Observer) observe(ctx context.Context) cke.Observation {
	w := o.d.world
	seen := cke.Observation{}
	before, twins := o.d.whoServes(), o.d.seesTwins()
	declared := slices.Clone(o.spec.Nodes)
	for _, j := range slices.Concat(o.identity.MayRun(), o.identity.Leaving(o.d.Now())) {
		if !slices.ContainsFunc(declared, func(n cke.Node) bool { return n.Address == j.Node.Address }) {
			declared = append(declared, j.Node)
		}
	}
	for _, n := range declared {
		seen.Nodes = append(seen.Nodes, o.node(ctx, n))
	}
	var answer []*container
	err := o.d.call(ctx, Call{Port: "look", Name: "Etcd"}, nil, cke.Node{}, func(bool) error {
		seen.Etcd = w.members(o.identity)
		seen.Etcd.Elsewhere = w.elsewhere(cke.ToAskElsewhere(o.spec.Name, seen.Nodes, o.identity.Joins))
		for _, m := range slices.Concat(o.identity.AskedBeside(), seen.Etcd.NotAsked(o.unlisted)) {
			e := w.endpoint(m.URL)
			e.Join = m.Join.ID
			seen.Etcd.Superseded = append(seen.Etcd.Superseded, e)
			list, source := w.reported(e)
			seen.Etcd = seen.Etcd.TakesFormer(m, e, list, source)
		}
		for _, e := range slices.Concat(seen.Etcd.Endpoints, seen.Etcd.Superseded) {
			c, _ := w.serving(Management, e.URL)
			answer = append(answer, c)
		}
		seen.ObservedAt = o.d.host()
		return nil
	})
	if err != nil {
		seen.ObservedAt = o.d.Now()
	} else {
		o.d.saw(answer...)
	}
	if o.twins++; err != nil || !twins || !o.d.seesTwins() {
		o.twins = 0
	}
	o.served, o.refused = false, false
	if before != noLeader && before == o.d.whoServes() {
		o.served, o.refused = true, before.refuses
	}
	return seen
}

func (o *Observer) node(ctx context.Context, declared cke.Node) cke.NodeStatus {
	w := o.d.world
	s, known := o.last[declared.Address]
	if !known {
		s = cke.NodeStatus{}
	}
	s.Node, s.Problem = declared, nil
	var shown []*container
	err := o.d.call(ctx, Call{Port: "look", Node: declared.Name(), Name: "Node"}, nil, cke.Node{}, func(bool) error {
		n := w.at(declared.Address)
		var trouble *cke.Error
		switch {
		case n == nil:
			trouble = &cke.Error{Code: cke.CodeUnreachable, What: "no answer from sshd"}
		case n.trouble(declared) != nil:
			trouble = n.trouble(declared)
		case n.hung:
			trouble = &cke.Error{Code: cke.CodeEngine, What: "the Docker engine does not answer"}
		}
		if trouble != nil {
			s.Problem = &cke.Problem{Code: trouble.Code, Node: declared.Name(), Message: trouble.What, Remedy: cke.WayOut(trouble.Code)}
			s.ClientPort, s.PeerPort = cke.PortUnknown, cke.PortUnknown
			return nil
		}
		n.look(o.spec.Options.Etcd, o.spec.Name, &s)
		o.last[declared.Address], shown = s, n.sorted()
		return nil
	})
	if err == nil {
		o.d.saw(shown...)
	} else {
		s.Problem = &cke.Problem{Code: cke.CodeUnreachable, Node: declared.Name(), Message: err.Error()}
	}
	return s
}

// members is what etcd answers through the endpoints of joins, and what foreign members answer.
func (w *World) members(identity cke.Identity) cke.EtcdStatus {
	joins, clusterID := identity.Joins, clusterIDOf(identity)
	w.tick()
	var s cke.EtcdStatus
	for i, url := range identity.Asked() {
		e := w.endpoint(url)
		if i < len(joins) {
			e.Join = joins[i].ID
		}
		s.Endpoints = append(s.Endpoints, e)
		if !e.Linearizable || clusterID != "" && e.ClusterID != clusterID {
			if s.Alarms == nil && identity.MayStopWritesOf(e.ClusterID) {
				s.Alarms = slices.DeleteFunc(w.alarmsOf(e.URL), func(a cke.Alarm) bool { return !a.StopsWrites() })
			}
			continue
		}
		if cke.IsApart(joins, e) {
			continue
		}
		s.Quorate = true
		if _, list, err := w.list(e.URL); err == nil {
			s = s.Takes(list, cke.MembersLinearizable, e.RaftApplied)
			s.Alarms = w.alarmsOf(e.URL)
		}
	}
	for _, e := range s.Endpoints { // without a quorum each reports what it has applied itself
		if e.Serializable && !cke.IsApart(joins, e) && (clusterID == "" || e.ClusterID == clusterID) {
			if c, err := w.voting(e.URL); err == nil {
				s = s.Takes(c.member().entries(), cke.MembersLocal, e.RaftApplied)
			}
		}
	}
	for _, m := range s.Members {
		if m.Name == "" || slices.ContainsFunc(joins, func(j cke.Join) bool { return j.MemberID == m.ID || slices.Contains(m.PeerURLs, j.PeerURL()) }) {
			continue
		}
		if url, ok := cke.StrangerURL(m, joins); ok && !identity.Incarnation.Importing().Has(m) {
			e := w.endpoint(url)
			if e.Problem == "" && e.MemberID != m.ID {
				e = cke.EndpointStatus{URL: url, Problem: "another member answers there"}
			}
			s.Endpoints = append(s.Endpoints, e)
		}
	}
	return s
}

// elsewhere asks members where they are not on record.
func (w *World) elsewhere(ask []cke.Elsewhere) []cke.Elsewhere {
	for i := range ask {
		a := &ask[i]
		join := a.Join
		a.EndpointStatus = w.endpoint(a.URL)
		a.Join = join
		a.Members, a.Source = w.reported(a.EndpointStatus)
	}
	return ask
}

// reported is the member list that a member reports, and how.
func (w *World) reported(e cke.EndpointStatus) (list []cke.Member, source cke.MembersSource) {
	c, err := w.voting(e.URL)
	if err != nil {
		return nil, cke.MembersUnknown
	}
	if _, list, err := w.list(e.URL); err == nil && e.Linearizable {
		return list, cke.MembersLinearizable
	}
	return c.member().entries(), cke.MembersLocal
}

// clusterIDOf is the one on record; empty: none is yet.
func clusterIDOf(id cke.Identity) string {
	if id.Incarnation == nil {
		return ""
	}
	return id.Incarnation.ClusterID
}
