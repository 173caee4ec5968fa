package etcdnode

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
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

// fakeEngine answers what a probe asks.
type fakeEngine struct {
	socket string
	server *http.Server

	mu       sync.Mutex
	hang     chan struct{} // not nil: requests wait until it is closed
	hangOn   string        // those alone that contain it
	opened   int           // connections
	requests []string
	heard    func(request string) // nil: nobody listens; not told of pings and of who follows events
	events   chan string          // lines for whoever listens to events
	answers  map[string]string
}

func newFakeEngine(t testing.TB) *fakeEngine {
	t.Helper()
	e := &fakeEngine{socket: filepath.Join(t.TempDir(), "docker.sock"), events: make(chan string, 10), answers: map[string]string{
		"GET /containers/json": "[]",
		"GET /volumes":         `{"Volumes":[]}`,
	}}
	l, err := net.Listen("unix", e.socket)
	if err != nil {
		t.Fatal(err)
	}
	e.server = &http.Server{Handler: http.HandlerFunc(e.handle), ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			e.mu.Lock()
			e.opened++
			e.mu.Unlock()
		}
	}}
	var wg sync.WaitGroup
	wg.Go(func() { e.server.Serve(l) })
	t.Cleanup(func() {
		e.resume()
		e.server.Close()
		wg.Wait()
	})
	return e
}

func (e *fakeEngine) pause() { e.pauseOn("") }

// pauseOn lets requests wait that contain a text.
func (e *fakeEngine) pauseOn(text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hang, e.hangOn = make(chan struct{}), text
}

func (e *fakeEngine) resume() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.hang != nil {
		close(e.hang)
		e.hang = nil
	}
}

func (e *fakeEngine) connections() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.opened
}

// calls are the requests made on behalf of somebody, in their order. A connection pings and follows events on its own, at any time.
func (e *fakeEngine) calls() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(e.requests), byItself)
}

func byItself(request string) bool {
	return request == "GET /events" || strings.HasSuffix(request, " /_ping")
}

// asked reports how many requests began with prefix.
func (e *fakeEngine) asked(prefix string) (n int) {
	for _, r := range e.calls() {
		if strings.HasPrefix(r, prefix) {
			n++
		}
	}
	return n
}

func (e *fakeEngine) answer(request, body string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answers[request] = body
}

func (e *fakeEngine) handle(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if rest, ok := strings.CutPrefix(path, "/v1.41"); ok {
		path = rest
	}
	request := r.Method + " " + path
	e.mu.Lock()
	e.requests = append(e.requests, request)
	hang := e.hang
	if !strings.Contains(request, e.hangOn) {
		hang = nil
	}
	body, known := e.answers[request]
	heard := e.heard
	e.mu.Unlock()
	if heard != nil && !byItself(request) {
		heard(request)
	}
	if hang != nil {
		select {
		case <-hang:
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Server", "Docker/20.10.24+dfsg1 (linux)")
	w.Header().Set("Api-Version", "1.41")
	w.Header().Set("Content-Type", "application/json")
	switch {
	case path == "/_ping":
	case path == "/events":
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		for {
			select {
			case line := <-e.events:
				fmt.Fprintln(w, line)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	case !known:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"message":"no such thing: %s"}`, path)
	case strings.HasPrefix(body, "500 "):
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, `{"message":%q}`, body[4:])
	default:
		if strings.HasSuffix(path, "/archive") {
			w.Header().Set("X-Docker-Container-Path-Stat", base64.StdEncoding.EncodeToString([]byte(`{"size":1}`)))
		}
		io.WriteString(w, body)
		if body == endless {
			for chunk := []byte(strings.Repeat("x", 1<<16)); ; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}
	}
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
