package sim

import (
	"context"
	"slices"

	"cke"
)

// Observer looks at the world as the real one does: each node and each member by itself. What a node showed last is
// kept while it does not answer.
type Observer struct {
	d        *Daemon
	spec     cke.Cluster
	identity cke.Identity
	last     map[string]cke.NodeStatus // by address
	changed  chan struct{}
}

func newObserver(d *Daemon) *Observer {
	return &Observer{d: d, last: map[string]cke.NodeStatus{}, changed: make(chan struct{}, 1)}
}

// Update tells what to look at.
func (o *Observer) Update(spec cke.Cluster, identity cke.Identity) {
	o.spec, o.identity = spec, identity
}

// Changed receives after something in the world has changed.
func (o *Observer) Changed() <-chan struct{} { return o.changed }

// Retry does nothing: simulated nodes are connected to at once.
func (o *Observer) Retry() {}

// poke tells daemons that something has changed.
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

// Observe looks at every declared node, then at nodes of joins that are declared no more, then at the members.
func (o *Observer) Observe(ctx context.Context) cke.Observation {
	w := o.d.world
	seen := cke.Observation{}
	declared := slices.Clone(o.spec.Nodes)
	for _, j := range slices.Concat(o.identity.MayRun(), o.identity.Leaving(w.Now())) {
		if !slices.ContainsFunc(declared, func(n cke.Node) bool { return n.Address == j.Node.Address }) {
			declared = append(declared, j.Node)
		}
	}
	for _, n := range declared {
		seen.Nodes = append(seen.Nodes, o.node(ctx, n))
	}
	err := o.d.call(ctx, Call{Port: "look", Name: "Etcd"}, nil, cke.Node{}, func(bool) error {
		seen.Etcd = w.members(o.identity.Joins, clusterIDOf(o.identity))
		seen.ObservedAt = w.host()
		return nil
	})
	if err != nil {
		seen.ObservedAt = w.Now()
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
			s.Problem = &cke.Problem{Code: trouble.Code, Node: declared.Name(), Message: trouble.What, Remedy: wayOut(trouble.Code)}
			s.ClientPort, s.PeerPort = cke.PortUnknown, cke.PortUnknown
			return nil
		}
		n.look(o.spec.Options.Etcd, o.spec.Name, &s)
		o.last[declared.Address] = s
		return nil
	})
	if err != nil {
		s.Problem = &cke.Problem{Code: cke.CodeUnreachable, Node: declared.Name(), Message: err.Error()}
	}
	return s
}

func wayOut(code cke.Code) string {
	for _, e := range cke.Explain() {
		if e.Code == code {
			return e.WayOut
		}
	}
	return ""
}

// members is what etcd answers through the endpoints of joins, and what strangers answer.
func (w *World) members(joins []cke.Join, clusterID string) cke.EtcdStatus {
	w.tick()
	var s cke.EtcdStatus
	for _, j := range joins {
		e := w.endpoint(j.ClientURL())
		e.Join = j.ID
		s.Endpoints = append(s.Endpoints, e)
		if !e.Linearizable || clusterID != "" && e.ClusterID != clusterID {
			continue
		}
		if _, list, err := w.list(e.URL); err == nil {
			s.Quorate, s.Members, s.MembersSource = true, list, cke.MembersLinearizable
			s.Alarms = w.alarmsOf(e.URL)
		}
	}
	for _, m := range s.Members {
		if m.Name == "" || slices.ContainsFunc(joins, func(j cke.Join) bool { return j.MemberID == m.ID || slices.Contains(m.PeerURLs, j.PeerURL()) }) {
			continue
		}
		if url, ok := cke.StrangerURL(m, joins); ok {
			if e := w.endpoint(url); e.Problem != "" || e.MemberID == m.ID {
				s.Endpoints = append(s.Endpoints, e)
			}
		}
	}
	return s
}

// clusterIDOf is the one on record; empty: none is yet.
func clusterIDOf(id cke.Identity) string {
	if id.Incarnation == nil {
		return ""
	}
	return id.Incarnation.ClusterID
}
