package etcdnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"cke"
)

// clientVersion is what sshd writes into its log.
const clientVersion = "SSH-2.0-cke"

// engineSocket is where a Docker engine listens.
const engineSocket = "/var/run/docker.sock"

// session is one SSH connection to a node, with the node's engine behind it. It is never mended: once it is done, the
// link makes another.
type session struct {
	node   cke.Node
	wire   *wire
	ssh    *ssh.Client
	engine *docker
	// recovered is called after an engine that kept a ping waiting has answered it; nil: nobody asks.
	recovered func()

	ctx    context.Context // ends with the session
	end    context.CancelFunc
	wg     sync.WaitGroup
	mu     sync.Mutex
	err    error // why it ended
	closed bool  // no goroutine begins any more

	pinged time.Time     // since when the engine keeps a ping waiting; zero: it does not
	pong   chan struct{} // closed when the engine answers that ping, or the session ends
}

// connect makes a session within DialLimit: TCP, handshake, login. A host key seen for the first time is stored before
// the session is used.
func (f *Fleet) connect(ctx context.Context, n cke.Node, check *hostKeyCheck, recovered func()) (*session, error) {
	if err := f.acquireHandshake(ctx); err != nil {
		return nil, err
	}
	defer f.releaseHandshake()
	ctx, cancel := context.WithTimeout(ctx, DialLimit)
	defer cancel()

	signers, release, err := f.signers(ctx, n)
	defer release()
	if err != nil {
		return nil, err
	}
	w, client, err := handshake(ctx, n, check, signers)
	if err == nil && check.pinned == nil {
		if err = f.config.HostKeys.Pin(ctx, n.Address, keyLine(check.shown)); err != nil {
			client.Close()
			return nil, fmt.Errorf("store the host key of %s: %w", n.Name(), err)
		}
	}
	if err != nil {
		return nil, explainHandshake(ctx, n, check, err)
	}
	s := &session{node: n, wire: w, ssh: client, recovered: recovered}
	if s.engine, err = newDocker(s.dialEngine); err != nil {
		client.Close()
		return nil, err
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.spawn(s.awaitEnd)
	s.spawn(s.keepAlive)
	return s, nil
}

// handshake connects and logs in; ctx's deadline covers all of it.
func handshake(ctx context.Context, n cke.Node, check *hostKeyCheck, signers []ssh.Signer) (*wire, *ssh.Client, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", n.SSHAddress())
	if err != nil {
		return nil, nil, err
	}
	// ssh.ClientConfig.Timeout would cover the TCP connect only.
	w := newWire(conn)
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	sc, channels, requests, err := ssh.NewClientConn(w, n.SSHAddress(), &ssh.ClientConfig{
		User: n.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(signers...)},
		HostKeyCallback: check.verify, HostKeyAlgorithms: check.algorithms(),
		ClientVersion: clientVersion,
	})
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, nil, err
	}
	return w, ssh.NewClient(sc, channels, requests), nil
}

// dialEngine opens a stream to the engine's socket. sshd does it itself: no shell, no command.
func (s *session) dialEngine(ctx context.Context) (net.Conn, error) {
	return s.ssh.DialContext(ctx, "unix", engineSocket)
}

// spawn starts a goroutine that close waits for; it must end with s.ctx. It does nothing once the session is closed.
func (s *session) spawn(work func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.wg.Go(work)
	}
}

// awaitEnd ends s.ctx when the connection ends, for whatever reason.
func (s *session) awaitEnd() {
	err := s.ssh.Wait()
	s.mu.Lock()
	if s.err == nil {
		s.err = fmt.Errorf("the connection was closed: %w", err)
	}
	s.mu.Unlock()
	s.end()
	s.engine.close()
}

// fail ends the session for a reason. All its streams end at once.
func (s *session) fail(err error) {
	s.mu.Lock()
	if s.err == nil {
		s.err = err
	}
	s.mu.Unlock()
	s.ssh.Close()
}

// close ends the session and returns when nothing of it is left.
func (s *session) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.fail(errClosed)
	s.wg.Wait()
}

// ended tells why the session ended; nil while it lasts.
func (s *session) ended() error {
	if s.ctx.Err() == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Ends of a session.
var (
	errSilent = errors.New("the node stopped answering")
	errClosed = errors.New("the connection is no longer wanted")
)

// keepAlive asks a silent node for a sign of life and ends the session if none comes. Without it the connection to a
// frozen node would last, and its event stream would merely be silent.
func (s *session) keepAlive() {
	timer := time.NewTimer(KeepAliveEvery)
	defer timer.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-timer.C:
		}
		silent := s.wire.silentFor()
		if silent >= KeepAliveEvery {
			if !s.alive(KeepAliveLimit) {
				return
			}
			silent = 0
		}
		timer.Reset(max(KeepAliveEvery-silent, KeepAliveEvery/4))
	}
}

// alive asks the node for a sign of life. It returns false, with the session ended, when nothing at all was heard from
// the node for limit: anything that it sends meanwhile counts, since the answer may stand behind a long upload.
func (s *session) alive(limit time.Duration) bool {
	answered := make(chan error, 1)
	s.spawn(func() { // SendRequest has no deadline; it ends with the session
		_, _, err := s.ssh.SendRequest("keepalive@openssh.com", true, nil)
		answered <- err
	})
	asked := time.Now()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case err := <-answered:
			return err == nil
		case <-s.ctx.Done():
			return false
		case <-timer.C:
			silent := min(s.wire.silentFor(), time.Since(asked))
			if silent >= limit {
				s.fail(errSilent)
				return false
			}
			timer.Reset(limit - silent)
		}
	}
}
