package etcdnode

import (
	"context"
	"encoding/pem"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

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

func TestConnect_KeysOfEveryKind(t *testing.T) {
	t.Parallel()
	for i, kind := range []string{"ed25519", "ecdsa", "rsa"} {
		node := newFakeNode(t, "127.0.1."+string(rune('1'+i)), kind, kind)
		fleet := fleetOf(t, newMemoryHostKeys(), nil, node)
		fleet.Update(clusterOf(node), cke.Identity{})
		o := fleet.Observe(t.Context()).Nodes[0]
		if o.Problem != nil || o.EngineVersion != "20.10.24+dfsg1" {
			t.Errorf("%s: %+v", kind, o)
		}
		node.set(func() {
			if node.socketAsked != "/var/run/docker.sock" {
				t.Errorf("%s: asked for %q", kind, node.socketAsked)
			}
		})
	}
}

func TestConnect_HostKeyIsPinnedAtFirstSightAndCheckedAfterwards(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.2.1", "ed25519", "rsa", "ecdsa", "ed25519")
	keys := newMemoryHostKeys()
	first := fleetOf(t, keys, nil, node)
	first.Update(clusterOf(node), cke.Identity{})
	if p := problemNow(t, first); p != nil {
		t.Fatal(p.Message)
	}
	first.Close()
	if line, _ := keys.Pinned(node.node.Address); line != keyLine(node.hostKeys[2].PublicKey()) {
		t.Fatalf("pinned %q, want the ed25519 key", line)
	}
	// A host with several keys shows the pinned one, whichever kind it is.
	for _, host := range node.hostKeys {
		keys.Pin(t.Context(), node.node.Address, keyLine(host.PublicKey()))
		fleet := fleetOf(t, keys, nil, node)
		fleet.Update(clusterOf(node), cke.Identity{})
		if p := problemNow(t, fleet); p != nil {
			t.Errorf("pinned %s: %s", host.PublicKey().Type(), p.Message)
		}
		fleet.Close()
	}
	if offers := keys.offers(); offers != nil {
		t.Errorf("offered %q", offers)
	}
}

func TestConnect_ChangedHostKeyIsAProblemUntilAPersonAcceptsIt(t *testing.T) {
	t.Parallel()
	for i, test := range []struct{ pinned, shown string }{{"ed25519", "ed25519"}, {"rsa", "ed25519"}} {
		node := newFakeNode(t, "127.0.3."+string(rune('1'+i)), "ed25519", test.shown)
		keys := newMemoryHostKeys()
		old, _ := newTestKey(t, test.pinned)
		keys.Pin(t.Context(), node.node.Address, keyLine(old.PublicKey()))
		fleet := fleetOf(t, keys, nil, node)
		fleet.Update(clusterOf(node), cke.Identity{})
		p := awaitProblem(t, fleet, cke.CodeHostKey, patience)
		for _, want := range []string{ssh.FingerprintSHA256(old.PublicKey()), ssh.FingerprintSHA256(node.hostKeys[0].PublicKey())} {
			if !strings.Contains(p.Message, want) {
				t.Errorf("%s: %s is not in %q", test.pinned, want, p.Message)
			}
		}
		if !strings.Contains(p.Remedy, "ckecli node accept-key") {
			t.Errorf("remedy: %q", p.Remedy)
		}
		if offers := keys.offers(); len(offers) != 1 || offers[0] != keyLine(node.hostKeys[0].PublicKey()) {
			t.Fatalf("offered %q", offers)
		}
		// It is tried again, and offered only once.
		fleet.mu.Lock()
		link := fleet.nodes[node.node.Address].link
		fleet.mu.Unlock()
		link.poke()
		if _, err := link.get(t.Context()); cke.CodeOf(err) != cke.CodeHostKey || len(keys.offers()) != 1 {
			t.Errorf("second attempt: %v, offered %q", err, keys.offers())
		}
		keys.Pin(t.Context(), node.node.Address, keys.offers()[0])
		awaitProblem(t, fleet, "", patience)
	}
}

// changingKeys hands a node another host key whenever one of its keys was offered, and makes the fleet try again at once, as the
// loop does when something was written to the store.
type changingKeys struct {
	*memoryHostKeys
	offered func(line string)
}

func (c changingKeys) Offered(_ context.Context, _, line string) { c.offered(line) }

// A host that shows another key at each connection has one of them stored, and not one after the other.
func TestConnect_AHostThatShowsAnotherKeyEachTimeIsOfferedOnce(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.32.1", "ed25519", "ed25519")
	other := func() {
		host, _ := newTestKey(t, "ed25519")
		node.set(func() {
			fresh := &ssh.ServerConfig{PublicKeyCallback: node.config.PublicKeyCallback}
			fresh.AddHostKey(host)
			node.config = fresh
		})
	}
	keys := changingKeys{memoryHostKeys: newMemoryHostKeys()}
	pinned, _ := newTestKey(t, "ed25519")
	keys.pinned[node.node.Address] = keyLine(pinned.PublicKey())
	offers := make(chan string, 100)
	var fleet *Fleet
	keys.offered = func(line string) {
		offers <- line
		fleet.Retry()
	}
	fleet = fleetOf(t, nil, func(c *Config) { c.HostKeys = keys }, node)
	fleet.Update(clusterOf(node), cke.Identity{})
	first := <-offers
	for range 5 {
		other()
		if _, err := fleet.session(t.Context(), node.node); cke.CodeOf(err) != cke.CodeHostKey {
			t.Fatal(err)
		}
	}
	if len(offers) != 0 {
		t.Errorf("%d more keys were offered", len(offers))
	}
	// Once another key is pinned, what the node shows instead is news.
	keys.Pin(t.Context(), node.node.Address, first)
	if _, err := fleet.session(t.Context(), node.node); cke.CodeOf(err) != cke.CodeHostKey {
		t.Fatal(err)
	}
	if len(offers) != 1 {
		t.Errorf("%d keys were offered after another one was pinned", len(offers))
	}
}

func TestOffer_IsReplacedAfterAWhile(t *testing.T) {
	now, present := time.Now(), offer{}
	for _, test := range []struct {
		pinned, shown string
		after         time.Duration
		handOver      bool
	}{
		{"p", "a", 0, true}, {"p", "a", time.Hour, false}, {"p", "b", time.Minute, true}, {"p", "c", offerEvery - 1, false}, {"p", "c", 1, true}, {"q", "d", 0, true}, {"q", "e", 0, false},
	} {
		now = now.Add(test.after)
		next, handOver := present.next(test.pinned, test.shown, now)
		if present = next; handOver != test.handOver {
			t.Errorf("%+v: handed over: %v", test, handOver)
		}
	}
}

func TestConnect_HostKeyThatCannotBeStoredIsNotTrusted(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.4.1", "ed25519", "ed25519")
	keys := newMemoryHostKeys()
	keys.fail = cke.ErrDeposed
	fleet := fleetOf(t, keys, nil, node)
	_, err := fleet.session(t.Context(), node.node)
	if !errors.Is(err, cke.ErrDeposed) {
		t.Errorf("session: %v", err)
	}
	nowhere := New(Config{Keys: fleet.config.Keys})
	defer nowhere.Close()
	if _, err := nowhere.session(t.Context(), node.node); cke.CodeOf(err) != cke.CodeHostKey {
		t.Errorf("without a place for host keys: %v", err)
	}
	declared := node.node
	declared.SSH.HostKey = keyLine(node.hostKeys[0].PublicKey())
	if _, err := nowhere.session(t.Context(), declared); err == nil {
		t.Error("an access that was made without a host key took one over without Update")
	}
	nowhere.Update(cke.Cluster{Name: "demo", Nodes: []cke.Node{declared}}, cke.Identity{})
	if _, err := nowhere.session(t.Context(), node.node); err != nil {
		t.Errorf("with a host key in the cluster file: %v", err)
	}
}

func TestConnect_ProblemsWithTheUsersKey(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.5.1", "ed25519", "ed25519")
	_, private := newTestKey(t, "ed25519")
	locked, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		key  []byte
		err  error
		code cke.Code
		says string
	}{
		{"passphrase", pem.EncodeToMemory(locked), nil, cke.CodeSSHKey, "passphrase"},
		{"no key at all", []byte("hello"), nil, cke.CodeSSHKey, ""},
		{"none", nil, cke.ErrNotFound, cke.CodeNoSSHKey, ""},
		{"refused", pem.EncodeToMemory(other), nil, cke.CodeSSHAuth, "user cke"},
	} {
		fleet := fleetOf(t, newMemoryHostKeys(), func(c *Config) {
			c.Keys = func(context.Context, cke.Node) ([]byte, error) { return test.key, test.err }
		})
		_, err := fleet.session(t.Context(), node.node)
		if cke.CodeOf(err) != test.code || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %s %v", test.name, cke.CodeOf(err), err)
		}
		fleet.Close()
	}
}

func TestConnect_KeyOfAnAgent(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.6.1", "ed25519", "ed25519")
	private, err := ssh.ParseRawPrivateKey(node.keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	keyring := agent.NewKeyring()
	if err := keyring.Add(agent.AddedKey{PrivateKey: private}); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "agent")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { agent.ServeAgent(keyring, conn); conn.Close() })
		}
	})
	fleet := fleetOf(t, newMemoryHostKeys(), func(c *Config) { c.Keys, c.AgentSocket = nil, socket })
	if _, err := fleet.session(t.Context(), node.node); err != nil {
		t.Error(err)
	}
	l.Close()
	wg.Wait()
}

func TestConnect_NodeThatNeverSpeaks(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.7.1", "ed25519", "ed25519")
	node.set(func() { node.mute = true })
	fleet := fleetOf(t, newMemoryHostKeys(), nil, node)
	_, err := fleet.session(t.Context(), node.node)
	if cke.CodeOf(err) != cke.CodeUnreachable || !errors.Is(err, cke.ErrUnreachable) || !strings.Contains(err.Error(), NoAnswer(DialLimit)) {
		t.Errorf("session: %v", err)
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
		if least = min(least, time.Since(began)); least < ReconnectMax/4 {
			break
		}
	}
	if least >= ReconnectMax/4 {
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
