package etcdnode

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"

	"cke"
)

// fakeNode is an sshd with a Docker engine's socket behind it. It misbehaves when told to.
type fakeNode struct {
	t        testing.TB
	node     cke.Node
	listener net.Listener
	engine   *fakeEngine
	config   *ssh.ServerConfig
	keyPEM   []byte // of the user
	hostKeys []ssh.Signer

	mu          sync.Mutex
	conns       map[*gatedConn]bool
	accepted    int
	attempts    int // under way
	mostAtOnce  int
	forbid      bool   // refuse forwarding
	mute        bool   // accept and never speak
	socketAsked string // by the last forwarding
	wg          sync.WaitGroup
}

// newFakeNode starts a node on a loopback address of its own, with host keys of the kinds named.
func newFakeNode(t testing.TB, address, userKey string, hostKinds ...string) *fakeNode {
	t.Helper()
	f := &fakeNode{t: t, engine: newFakeEngine(t), conns: map[*gatedConn]bool{}}
	signer, private := newTestKey(t, userKey)
	block, err := ssh.MarshalPrivateKey(private, "test")
	if err != nil {
		t.Fatal(err)
	}
	f.keyPEM = pem.EncodeToMemory(block)
	allowed := string(signer.PublicKey().Marshal())
	f.config = &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) != allowed {
			return nil, errors.New("unknown key")
		}
		return nil, nil
	}}
	for _, kind := range hostKinds {
		host, _ := newTestKey(t, kind)
		f.hostKeys = append(f.hostKeys, host)
		f.config.AddHostKey(host)
	}
	f.node = cke.Node{Address: address, Hostname: "n-" + address, User: "cke", ControlPlane: true}
	f.listen("0")
	t.Cleanup(func() {
		f.stop()
		f.wg.Wait()
	})
	return f
}

func (f *fakeNode) listen(port string) {
	f.t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(f.node.Address, port))
	if err != nil {
		f.t.Fatal(err)
	}
	f.listener = l
	f.node.SSH.Port = l.Addr().(*net.TCPAddr).Port
	f.wg.Go(func() { f.serve(l) })
}

// restart listens again on the same port.
func (f *fakeNode) restart() { f.listen(fmt.Sprint(f.node.SSH.Port)) }

// stop ends sshd and all its connections.
func (f *fakeNode) stop() {
	f.listener.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		c.Close()
	}
}

// freeze makes connections stay and nothing answer.
func (f *fakeNode) freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		c.freeze()
	}
}

func (f *fakeNode) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fakeNode) count() (accepted, mostAtOnce int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.accepted, f.mostAtOnce
}

func (f *fakeNode) serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		c := newGatedConn(conn)
		f.mu.Lock()
		f.conns[c] = true
		f.accepted++
		f.attempts++
		f.mostAtOnce = max(f.mostAtOnce, f.attempts)
		f.mu.Unlock()
		f.wg.Go(func() {
			defer c.Close()
			f.session(c)
			f.mu.Lock()
			delete(f.conns, c)
			f.mu.Unlock()
		})
	}
}

func (f *fakeNode) session(c *gatedConn) {
	f.mu.Lock()
	mute, config := f.mute, f.config
	f.mu.Unlock()
	if mute {
		io.Copy(io.Discard, c)
		return
	}
	conn, channels, requests, err := ssh.NewServerConn(c, config)
	f.set(func() { f.attempts-- })
	if err != nil {
		return
	}
	defer conn.Close()
	f.wg.Go(func() {
		for r := range requests {
			if r.WantReply {
				r.Reply(false, nil) // as OpenSSH answers a keep-alive
			}
		}
	})
	for ch := range channels {
		f.wg.Go(func() { f.forward(ch) })
	}
}

func (f *fakeNode) forward(ch ssh.NewChannel) {
	var ask struct {
		Path, Reserved0 string
		Reserved1       uint32
	}
	f.mu.Lock()
	forbid := f.forbid
	f.mu.Unlock()
	if ch.ChannelType() != "direct-streamlocal@openssh.com" || ssh.Unmarshal(ch.ExtraData(), &ask) != nil || forbid {
		ch.Reject(ssh.ConnectionFailed, "open failed") // what OpenSSH says to everything
		return
	}
	f.set(func() { f.socketAsked = ask.Path })
	to, err := net.Dial("unix", f.engine.socket)
	if err != nil {
		ch.Reject(ssh.ConnectionFailed, "open failed")
		return
	}
	from, requests, err := ch.Accept()
	if err != nil {
		to.Close()
		return
	}
	go ssh.DiscardRequests(requests)
	f.wg.Go(func() {
		io.Copy(to, from)
		to.(*net.UnixConn).CloseWrite()
	})
	io.Copy(from, to)
	from.Close()
	to.Close()
}

// newTestKey makes a key pair: ed25519, ecdsa or rsa.
func newTestKey(t testing.TB, kind string) (ssh.Signer, crypto.PrivateKey) {
	t.Helper()
	var private crypto.PrivateKey
	var err error
	switch kind {
	case "ecdsa":
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "rsa":
		private, err = rsa.GenerateKey(rand.Reader, 2048)
	default:
		_, private, err = ed25519.GenerateKey(rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer, private
}

// gatedConn can be frozen: it stays open, and nothing goes in or out.
type gatedConn struct {
	net.Conn
	mu     sync.Mutex
	frozen chan struct{} // nil: it is not; closed when the connection is
}

func newGatedConn(c net.Conn) *gatedConn { return &gatedConn{Conn: c} }

func (g *gatedConn) freeze() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.frozen == nil {
		g.frozen = make(chan struct{})
	}
}

func (g *gatedConn) pass() {
	g.mu.Lock()
	frozen := g.frozen
	g.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
}

func (g *gatedConn) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	g.pass()
	return n, err
}

func (g *gatedConn) Write(p []byte) (int, error) {
	g.pass()
	return g.Conn.Write(p)
}

func (g *gatedConn) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.frozen != nil {
		select {
		case <-g.frozen:
		default:
			close(g.frozen)
		}
	}
	return g.Conn.Close()
}

// endless is the beginning of a string that never ends.
const endless = `"`

// memoryHostKeys keeps host keys in memory.
type memoryHostKeys struct {
	mu      sync.Mutex
	pinned  map[string]string
	offered []string
	fail    error // of Pin
}

func newMemoryHostKeys() *memoryHostKeys { return &memoryHostKeys{pinned: map[string]string{}} }

func (m *memoryHostKeys) Pinned(address string) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	line, ok := m.pinned[address]
	return line, ok
}

func (m *memoryHostKeys) Pin(_ context.Context, address, line string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	m.pinned[address] = line
	return nil
}

func (m *memoryHostKeys) Offered(_ context.Context, _, line string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.offered = append(m.offered, line)
}

func (m *memoryHostKeys) offers() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.offered...)
}
