package server_test

import (
	"context"
	"slices"
	"time"

	"cke"
	"cke/server"
)

// stageNodes is access to the stage's nodes.
type stageNodes struct {
	*stage
	cke.Etcd
	changed chan struct{}
	closed  bool
}

var _ server.Nodes = (*stageNodes)(nil)

func (g *stage) connect() *stageNodes {
	g.change(func() { g.open++ })
	return &stageNodes{stage: g, changed: make(chan struct{}, 1)}
}

func (n *stageNodes) Close() {
	n.change(func() {
		if !n.closed {
			n.closed = true
			n.open--
		}
	})
}

func (n *stageNodes) Update(cke.Cluster, cke.Identity, ...cke.Member) {}

func (n *stageNodes) Observe(context.Context) cke.Observation {
	n.mu.Lock()
	look := n.look
	n.mu.Unlock()
	if look != nil {
		look()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.looks = append(n.looks, time.Now())
	o := n.scene.Seen
	o.ObservedAt = time.Now().UTC()
	o.Nodes = slices.Clone(o.Nodes)
	for i := range o.Nodes {
		o.Nodes[i].Containers = slices.Clone(o.Nodes[i].Containers)
		o.Nodes[i].Volumes = slices.Clone(o.Nodes[i].Volumes)
	}
	o.Etcd.Endpoints, o.Etcd.Members = slices.Clone(o.Etcd.Endpoints), slices.Clone(o.Etcd.Members)
	return o
}

// Glance sees what is seen, or what was when the stage became quiet.
func (n *stageNodes) Glance(ctx context.Context) (cke.Observation, bool) {
	o := n.Observe(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.glances++
	if n.quiet != nil {
		o = *n.quiet
		o.ObservedAt = time.Now().UTC()
	}
	return o, n.quiet == nil
}

func (n *stageNodes) Changed() <-chan struct{} { return n.changed }

// wake is what a node does after an event.
func (n *stageNodes) wake() {
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

func (n *stageNodes) Retry() { n.change(func() { n.retries++ }) }

func (n *stageNodes) Endpoint(_ context.Context, url string) cke.EndpointStatus {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.scene.Seen.Etcd.Endpoints {
		if e.URL == url {
			return e
		}
	}
	return cke.EndpointStatus{URL: url, Problem: "nobody there"}
}

func (n *stageNodes) Members(_ context.Context, url string) (string, []cke.Member, error) {
	s := n.Endpoint(context.Background(), url)
	n.mu.Lock()
	defer n.mu.Unlock()
	return s.ClusterID, n.scene.Seen.Etcd.Members, nil
}

func (n *stageNodes) Machine(node cke.Node) cke.Machine {
	return stageMachine{stage: n.stage, name: node.Name()}
}

// stageMachine is a node of the stage.
type stageMachine struct {
	*stage
	cke.Machine
	name string
}

// call has an effect on the node, unless the stage says otherwise.
func (m stageMachine) call(ctx context.Context, call string, effect func(i int)) error {
	m.mu.Lock()
	do := m.do
	m.calls = append(m.calls, call+" "+m.name)
	m.mu.Unlock()
	if do != nil {
		if err := do(ctx, call, m.name); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	effect(slices.IndexFunc(m.scene.Seen.Nodes, func(n cke.NodeStatus) bool { return n.Node.Name() == m.name }) + 1)
	return nil
}

func (m stageMachine) Container(_ context.Context, j cke.Join) (cke.Container, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.scene.Seen.Nodes {
		if c, there := n.Of(j.ID); there {
			return c, nil
		}
	}
	return cke.Container{}, cke.ErrNotFound
}

func (m stageMachine) EnsureContainer(context.Context, cke.MemberSpec) error { return nil }

func (m stageMachine) Data(context.Context, cke.Join) (cke.DataState, error) {
	return cke.DataPresent, nil
}

func (m stageMachine) KeepRunning(context.Context, cke.Join) error { return nil }

func (m stageMachine) StartContainer(ctx context.Context, _ cke.Join) error {
	return m.call(ctx, "start", func(i int) { m.scene.started(i) })
}

func (m stageMachine) StopContainer(ctx context.Context, _ cke.Join, _ time.Duration) error {
	return m.call(ctx, "stop", func(i int) { m.scene.stopped(i) })
}

func (m stageMachine) RemoveContainer(ctx context.Context, _ cke.Join) error {
	return m.call(ctx, "remove", func(i int) { m.scene.node(i).Containers = nil })
}

func (m stageMachine) MarkOver(ctx context.Context, _ string, _ []string) error {
	return m.call(ctx, "mark", func(int) {})
}

// started lets a member run and serve.
func (s *scene) started(i int) {
	c := s.container(i)
	c.State, c.Data = cke.ContainerRunning, cke.DataUnknown
	j := s.join(i)
	*s.endpoint(i) = cke.EndpointStatus{Join: j.ID, URL: j.ClientURL(), Serializable: true, Linearizable: true, ClusterID: "c1", MemberID: j.MemberID, LeaderID: "m1"}
}
