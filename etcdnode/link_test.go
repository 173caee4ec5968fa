package etcdnode

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"cke"
)

// fleetOf makes a fleet that logs in with the nodes' own keys.
func fleetOf(t testing.TB, keys *memoryHostKeys, change func(*Config), nodes ...*fakeNode) *Fleet {
	t.Helper()
	c := Config{HostKeys: keys, Keys: func(_ context.Context, n cke.Node) ([]byte, error) {
		for _, f := range nodes {
			if f.node.Address == n.Address {
				return f.keyPEM, nil
			}
		}
		return nil, cke.ErrNotFound
	}}
	if change != nil {
		change(&c)
	}
	fleet := New(c)
	t.Cleanup(fleet.Close)
	return fleet
}

func clusterOf(nodes ...*fakeNode) cke.Cluster {
	c := cke.Cluster{Name: "demo"}
	for _, f := range nodes {
		c.Nodes = append(c.Nodes, f.node)
	}
	return c
}

// problemNow observes one node.
func problemNow(t testing.TB, f *Fleet) *cke.Problem {
	t.Helper()
	return f.Observe(t.Context()).Nodes[0].Problem
}

// awaitProblem observes, whenever something has changed, until the first node has a problem with this code; "": none.
func awaitProblem(t testing.TB, f *Fleet, code cke.Code, limit time.Duration) *cke.Problem {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for {
		p := problemNow(t, f)
		if p == nil && code == "" || p != nil && p.Code == code {
			return p
		}
		select {
		case <-f.Changed():
		case <-deadline.C:
			t.Fatalf("waited %s for problem %q; there is %+v", limit, code, p)
		}
	}
}

func TestLink_OneAttemptAtATime(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.8.1", "ed25519", "ed25519")
	fleet := fleetOf(t, newMemoryHostKeys(), nil, node)
	fleet.Update(clusterOf(node), cke.Identity{})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := fleet.session(t.Context(), node.node); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if accepted, most := node.count(); accepted != 1 || most != 1 {
		t.Errorf("%d connections, %d at once", accepted, most)
	}
}

func TestLink_ComesBackByItselfAndAtOnceWhenAsked(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.9.1", "ed25519", "ed25519")
	fleet := fleetOf(t, newMemoryHostKeys(), nil, node)
	fleet.Update(clusterOf(node), cke.Identity{})
	awaitProblem(t, fleet, "", patience)
	node.stop()
	p := awaitProblem(t, fleet, cke.CodeUnreachable, patience)
	if _, err := fleet.session(t.Context(), node.node); !errors.Is(err, cke.ErrUnreachable) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("while it is down: %v", err)
	}
	node.restart()
	if _, err := fleet.session(t.Context(), node.node); err != nil {
		t.Error(err)
	}
	awaitProblem(t, fleet, "", patience)
	least := time.Hour // of some: a pause takes its time whenever nobody pokes
	for range 5 {
		node.stop()
		awaitProblem(t, fleet, cke.CodeUnreachable, patience)
		for range 8 { // the pause grows to seconds
			if _, err := fleet.session(t.Context(), node.node); !errors.Is(err, cke.ErrUnreachable) {
				t.Errorf("while it is down: %v", err)
			}
		}
		node.restart()
		began := time.Now()
		if _, err := fleet.session(t.Context(), node.node); err != nil {
			t.Error(err)
		}
		if least = min(least, time.Since(began)); least < reconnectMax/4 {
			break
		}
	}
	if least >= reconnectMax/4 {
		t.Errorf("a call does not poke: connected after %s", least)
	}
	awaitProblem(t, fleet, "", patience)
	node.stop()
	if again := awaitProblem(t, fleet, cke.CodeUnreachable, patience); !again.Since.After(p.Since) {
		t.Errorf("a new problem began at %s, the old one at %s", again.Since, p.Since)
	}
	node.restart()
	awaitProblem(t, fleet, "", patience)
}

func TestLink_FrozenNodeIsNoticedAndItsCallsEnd(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.10.1", "ed25519", "ed25519")
	fleet := fleetOf(t, newMemoryHostKeys(), nil, node)
	fleet.Update(clusterOf(node), cke.Identity{})
	awaitProblem(t, fleet, "", patience)
	node.set(func() { node.mute = true })
	node.freeze()
	_, err := fleet.Machine(node.node).Container(t.Context(), cke.Join{Volume: "v"}) // its own limit is longer
	if cke.CodeOf(err) != cke.CodeUnreachable {
		t.Errorf("a call under way: %v", err)
	}
	awaitProblem(t, fleet, cke.CodeUnreachable, patience)
}

func TestEngine_ForwardingRefused(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.11.1", "ed25519", "ed25519")
	node.set(func() { node.forbid = true })
	fleet := fleetOf(t, newMemoryHostKeys(), nil, node)
	fleet.Update(clusterOf(node), cke.Identity{})
	p := awaitProblem(t, fleet, cke.CodeForward, patience)
	if !strings.Contains(p.Message, "/var/run/docker.sock") || p.Remedy == "" {
		t.Errorf("%+v", p)
	}
	_, err := fleet.Machine(node.node).Container(t.Context(), cke.Join{Volume: "v"})
	if cke.CodeOf(err) != cke.CodeForward {
		t.Errorf("a call: %v", err)
	}
	if accepted, _ := node.count(); accepted != 1 {
		t.Errorf("%d connections", accepted)
	}
}

func TestEngine_ThatHangsIsToldFromASilentNodeAndNoConnectionsPileUp(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.12.1", "ed25519", "ed25519")
	fleet := fleetOf(t, newMemoryHostKeys(), nil, node)
	fleet.Update(clusterOf(node), cke.Identity{})
	awaitProblem(t, fleet, "", patience)
	node.engine.pause()
	awaitProblem(t, fleet, cke.CodeEngine, patience)
	if _, err := fleet.Machine(node.node).Container(t.Context(), cke.Join{Volume: "v"}); cke.CodeOf(err) != cke.CodeEngine {
		t.Errorf("a call: %v", err)
	}
	before := node.engine.connections()
	for range 50 {
		if p := problemNow(t, fleet); p == nil || p.Code != cke.CodeEngine {
			t.Fatalf("problem: %+v", p)
		}
	}
	if after := node.engine.connections(); after != before {
		t.Errorf("%d connections more", after-before)
	}
	node.engine.resume()
	awaitProblem(t, fleet, "", patience)
}

func TestEngine_ShortDeadlineOfTheCallerIsNoHang(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.13.1", "ed25519", "ed25519")
	fleet := fleetOf(t, newMemoryHostKeys(), nil, node)
	s, err := fleet.session(t.Context(), node.node)
	if err != nil {
		t.Fatal(err)
	}
	err = s.call(t.Context(), 10*time.Millisecond, "wait", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	if cke.CodeOf(err) != cke.CodeEngine || !strings.Contains(err.Error(), "slowly") {
		t.Errorf("%v", err)
	}
	if _, hangs := s.hangs(); hangs {
		t.Error("the engine counts as hanging")
	}
}

func TestMachine_ChangesNothingOnceDeposed(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.14.1", "ed25519", "ed25519")
	fleet := fleetOf(t, newMemoryHostKeys(), func(c *Config) { c.Guard = func() error { return cke.ErrDeposed } }, node)
	m, j, ctx := fleet.Machine(node.node), cke.Join{Volume: "v", Etcd: cke.EtcdOptions{Image: "etcd:1"}}, t.Context()
	spec := cke.MemberSpec{Join: j}
	for name, err := range map[string]error{
		"EnsureImage": m.EnsureImage(ctx, "etcd:1", nil), "EnsureVolume": m.EnsureVolume(ctx, spec), "EnsureContainer": m.EnsureContainer(ctx, spec),
		"PutFiles": m.PutFiles(ctx, j, nil), "StartContainer": m.StartContainer(ctx, j), "KeepRunning": m.KeepRunning(ctx, j),
		"StopContainer": m.StopContainer(ctx, j, time.Second), "RemoveContainer": m.RemoveContainer(ctx, j), "RemoveVolume": m.RemoveVolume(ctx, j),
		"ProveWrite": fleet.ProveWrite(ctx, "https://127.0.14.1:1"),
	} {
		if !errors.Is(err, cke.ErrDeposed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := node.engine.asked("POST") + node.engine.asked("PUT") + node.engine.asked("DELETE"); n != 0 {
		t.Errorf("%d changes", n)
	}
}

func TestObserve_ContainerOfInterestWakesAndOthersDoNot(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.15.1", "ed25519", "ed25519")
	fleet := fleetOf(t, newMemoryHostKeys(), nil, node)
	fleet.Update(clusterOf(node), cke.Identity{})
	awaitProblem(t, fleet, "", patience)
	node.engine.answer("GET /containers/json", `[
		{"Id":"1","Names":["/web"],"Image":"nginx:1","State":"running"},
		{"Id":"2","Names":["/old"],"Image":"quay.io/coreos/etcd:v3.5.0","State":"exited"},
		{"Id":"3","Names":["/etcd-cke.abc"],"Image":"sha256:1234","State":"created"},
		{"Id":"4","Names":["/x"],"Image":"y","State":"running","Labels":{"cke.cluster":"other","cke.place":"https://127.0.15.1:3379 https://127.0.15.1:3380"}}]`)
	for _, id := range []string{"2", "3"} {
		node.engine.answer("GET /containers/"+id+"/json", `{"Id":"`+id+`","State":{"Status":"exited"},"HostConfig":{},"Config":{}}`)
	}
	node.engine.answer("GET /volumes", `{"Volumes":[{"Name":"web"},{"Name":"etcd-cke.old"},{"Name":"z","Labels":{"cke.cluster":"other","cke.join":"j"}}]}`)
	for _, event := range []string{
		`{"Type":"container","Action":"die","Actor":{"ID":"1","Attributes":{"name":"web","image":"nginx:1"}}}`,
		`{"Type":"container","Action":"die","Actor":{"ID":"2","Attributes":{"name":"old","image":"quay.io/coreos/etcd:v3.5.0"}}}`,
	} {
		node.engine.events <- event
	}
	select {
	case <-fleet.Changed():
	case <-time.After(patience):
		t.Fatal("the event woke nobody")
	}
	n := fleet.Observe(t.Context()).Nodes[0]
	var names []string
	for _, c := range n.Containers {
		names = append(names, c.Name)
	}
	for _, v := range n.Volumes {
		names = append(names, v.Name)
	}
	if got := strings.Join(names, " "); got != "etcd-cke.abc old etcd-cke.old" {
		t.Errorf("observed %q", got)
	}
	if len(n.Neighbors) != 1 || n.PortOwner(3379) != "other" || n.PortOwner(3380) != "other" || n.PortOwner(2379) != "" {
		t.Errorf("neighbors: %+v", n.Neighbors)
	}
	if n.ClientPort != cke.PortClosed || n.PeerPort != cke.PortClosed {
		t.Errorf("ports: %q, %q", n.ClientPort, n.PeerPort)
	}
}

func TestUpdate_LeavesNodesThatAreGoneAndFollowsChangedAccess(t *testing.T) {
	t.Parallel()
	a, b := newFakeNode(t, "127.0.16.1", "ed25519", "ed25519"), newFakeNode(t, "127.0.16.2", "ed25519", "ed25519")
	fleet := fleetOf(t, newMemoryHostKeys(), nil, a, b)
	join := cke.Join{ID: "j", Node: b.node, ClientPort: 1, PeerPort: 2}
	fleet.Update(clusterOf(a), cke.Identity{Joins: []cke.Join{join}})
	o := fleet.Observe(t.Context())
	if len(o.Nodes) != 2 || o.Nodes[1].Node.Address != b.node.Address || o.Nodes[1].Problem != nil || len(o.Etcd.Endpoints) != 1 {
		t.Fatalf("%+v", o)
	}
	port := a.node.SSH.Port
	a.stop()
	a.listen("0") // the cluster file names another port
	if a.node.SSH.Port == port {
		t.Skip("the same port again")
	}
	fleet.Update(clusterOf(a), cke.Identity{})
	if o := fleet.Observe(t.Context()); len(o.Nodes) != 1 || o.Nodes[0].Problem != nil {
		t.Errorf("%+v", o)
	}
	// A membership remembers the node as it was: what is declared now goes before that.
	old := a.node
	old.SSH.Port = port
	if _, err := fleet.session(t.Context(), old); err != nil {
		t.Errorf("by way of an old declaration: %v", err)
	}
}
