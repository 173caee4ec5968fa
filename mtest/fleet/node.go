package fleet

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// sshd's defaults: from startsFrom connections that have not logged in on, it drops new ones at random, all from startsTo on.
// Source: sshd_config(5), MaxStartups.
const (
	startsFrom, startsRate, startsTo = 10, 30, 100
)

// Node is a machine with an SSH server and a Docker engine.
type Node struct {
	Name, Address string

	fleet    *Fleet
	port     int
	hostKey  string
	config   *ssh.ServerConfig
	listener net.Listener
	engine   *engine
	http     *http.Server
	streams  *streams
	wg       sync.WaitGroup

	mu       sync.Mutex
	conns    map[net.Conn]bool
	starting int // connections that have not logged in yet
	dropped  int // as sshd drops them
}

func (f *Fleet) newNode(name, address string, user ssh.PublicKey) (*Node, error) {
	host, _, err := newKey()
	if err != nil {
		return nil, err
	}
	for _, port := range []string{"2379", "2380"} { // members are to have them
		if err := free(net.JoinHostPort(address, port)); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return nil, err
	}
	n := &Node{Name: name, Address: address, fleet: f, listener: l, port: l.Addr().(*net.TCPAddr).Port, conns: map[net.Conn]bool{},
		hostKey: strings.TrimSpace(string(ssh.MarshalAuthorizedKey(host.PublicKey())))}
	allowed := string(user.Marshal())
	n.config = &ssh.ServerConfig{ServerVersion: "SSH-2.0-OpenSSH_9.2p1", PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) != allowed {
			return nil, errors.New("unknown key")
		}
		return nil, nil
	}}
	n.config.AddHostKey(host)
	n.engine = newEngine(n)
	n.streams = &streams{opened: make(chan net.Conn), closed: make(chan struct{})}
	n.http = &http.Server{Handler: n.engine.handler()}
	n.wg.Go(func() { _ = n.http.Serve(n.streams) }) // ends with Close
	n.wg.Go(n.serve)
	return n, nil
}

func (n *Node) close() {
	n.listener.Close()
	n.cut()
	n.http.Close()
	n.streams.Close()
	n.engine.close()
	n.wg.Wait()
}

// cut breaks all connections to the node and to its members.
func (n *Node) cut() {
	n.mu.Lock()
	for c := range n.conns {
		c.Close()
	}
	n.mu.Unlock()
	n.engine.cut()
}

// Dropped is how many connections the SSH server has dropped because too many had not logged in.
func (n *Node) Dropped() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dropped
}

func (n *Node) serve() {
	for {
		conn, err := n.listener.Accept()
		if err != nil {
			return
		}
		n.mu.Lock()
		over := n.starting - startsFrom
		if over >= 0 && rand.N(100) < startsRate+(100-startsRate)*over/(startsTo-startsFrom) {
			n.dropped++
			n.mu.Unlock()
			conn.Close()
			continue
		}
		n.starting++
		n.conns[conn] = true
		n.mu.Unlock()
		n.fleet.handshake(1)
		n.wg.Go(func() {
			n.session(conn)
			conn.Close()
			n.mu.Lock()
			delete(n.conns, conn)
			n.mu.Unlock()
		})
	}
}

func (n *Node) session(raw net.Conn) {
	conn, channels, requests, err := ssh.NewServerConn(raw, n.config)
	n.mu.Lock()
	n.starting--
	n.mu.Unlock()
	n.fleet.handshake(-1)
	if err != nil {
		return
	}
	defer conn.Close()
	n.wg.Go(func() {
		for r := range requests {
			if r.WantReply {
				_ = r.Reply(false, nil) // as OpenSSH answers a keep-alive
			}
		}
	})
	for ch := range channels {
		var ask struct {
			Path, Reserved0 string
			Reserved1       uint32
		}
		if ch.ChannelType() != "direct-streamlocal@openssh.com" || ssh.Unmarshal(ch.ExtraData(), &ask) != nil || ask.Path != "/var/run/docker.sock" {
			_ = ch.Reject(ssh.ConnectionFailed, "open failed") // what OpenSSH says to everything
			continue
		}
		stream, requests, err := ch.Accept()
		if err != nil {
			return
		}
		n.wg.Go(func() { ssh.DiscardRequests(requests) })
		if !n.streams.open(channel{stream, raw}) {
			return
		}
	}
}

// streams are what the engine accepts: it listens on a socket to which the SSH server connects.
type streams struct {
	opened chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (s *streams) open(c net.Conn) bool {
	select {
	case s.opened <- c:
		return true
	case <-s.closed:
		return false
	}
}

// Accept implements net.Listener.
func (s *streams) Accept() (net.Conn, error) {
	select {
	case c := <-s.opened:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (s *streams) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// Addr implements net.Listener.
func (*streams) Addr() net.Addr { return &net.UnixAddr{Name: "/var/run/docker.sock", Net: "unix"} }

// channel is a stream of an SSH connection as net/http takes it. A read that net/http gives up, to take a connection over, would stay:
// nothing here does that.
type channel struct {
	ssh.Channel
	raw net.Conn
}

// LocalAddr implements net.Conn.
func (c channel) LocalAddr() net.Addr { return c.raw.LocalAddr() }

// RemoteAddr implements net.Conn.
func (c channel) RemoteAddr() net.Addr { return c.raw.RemoteAddr() }

// SetDeadline implements net.Conn.
func (channel) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (channel) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn.
func (channel) SetWriteDeadline(time.Time) error { return nil }
