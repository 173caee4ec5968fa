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
	if cke.CodeOf(err) != cke.CodeUnreachable || !errors.Is(err, cke.ErrUnreachable) || !strings.Contains(err.Error(), NoAnswer(dialLimit)) {
		t.Errorf("session: %v", err)
	}
}

func TestConnect_ReportsEachAttempt(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.2.9", "ed25519", "ed25519")
	stranger := newFakeNode(t, "127.0.2.10", "ed25519", "ed25519")
	var mu sync.Mutex
	connected, failed := 0, 0
	fleet := fleetOf(t, newMemoryHostKeys(), func(c *Config) {
		keys := c.Keys
		c.Keys = func(ctx context.Context, n cke.Node) ([]byte, error) {
			if n.Address == stranger.node.Address {
				return node.keyPEM, nil // which it does not know
			}
			return keys(ctx, n)
		}
		c.Connected = func(err error) {
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				connected++
			} else {
				failed++
			}
		}
	}, node, stranger)
	fleet.Update(clusterOf(node, stranger), cke.Identity{})
	fleet.Observe(t.Context())
	mu.Lock()
	defer mu.Unlock()
	if connected != 1 || failed < 1 {
		t.Errorf("%d attempts succeeded and %d failed", connected, failed)
	}
}
