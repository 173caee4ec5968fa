package etcdnode

import (
	"cmp"
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
// link makes another. It must be served, by last.
type session struct {
	node   cke.Node
	wire   *wire
	ssh    ssh.Conn
	engine *docker
	faults *faults
	asked  asked
	// recovered is called after an engine that kept a ping waiting has answered it; nil: nobody asks.
	recovered func()

	ctx    context.Context // ends with the session
	end    context.CancelFunc
	wg     sync.WaitGroup
	mu     sync.Mutex
	err    error // why it ended
	closed bool  // no goroutine starts any more

	pinged time.Time     // since when the engine keeps a ping waiting; zero: it does not
	pong   chan struct{} // closed when the engine answers that ping, or the session ends
}

// connect makes a session: TCP, handshake and login within dialLimit. A host key seen for the first time is stored before the
// session is used, within dialLimit again.
func (f *Fleet) connect(ctx context.Context, n cke.Node, check *hostKeyCheck, recovered func()) (*session, error) {
	a := newAttempt(ctx, f.config.Handshakes, allowed(dialLimit))
	defer a.end()
	signers, release, err := f.signers(a.ctx, n)
	defer release()
	if err != nil {
		return nil, err
	}
	s := &session{node: n, faults: &f.faults, recovered: recovered}
	if s.asked, err = s.handshake(a, check, signers); err != nil {
		return nil, explainHandshake(a, n, check, err)
	}
	a.end()
	ctx, cancel := context.WithTimeout(ctx, allowed(dialLimit))
	defer cancel()
	if check.pinned == nil {
		if err = f.config.HostKeys.Pin(ctx, n.Address, keyLine(check.shown)); err != nil {
			s.ssh.Close()
			return nil, fmt.Errorf("store the host key of %s: %w", n.Name(), err)
		}
	}
	if s.engine, err = newDocker(s.dialEngine, f.guard); err != nil {
		s.ssh.Close()
		return nil, err
	}
	s.engine.reach = &f.reach
	s.ctx, s.end = context.WithCancel(context.Background())
	s.checkLater(keepAliveEvery)
	return s, nil
}

// asked is what the node asks of us: nothing that we grant.
type asked struct {
	requests <-chan *ssh.Request
	channels <-chan ssh.NewChannel
}

// handshake connects and logs in, within the limit of the attempt.
func (s *session) handshake(a *attempt, check *hostKeyCheck, signers []ssh.Signer) (asked, error) {
	address := s.node.SSHAddress()
	conn, err := (&net.Dialer{}).DialContext(a.ctx, "tcp", address)
	if err != nil {
		return asked{}, cmp.Or(context.Cause(a.ctx), err)
	}
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.SetLinger(0) // what was not sent when we give up is not to arrive later
	}
	// ssh.ClientConfig.Timeout would cover the TCP connect only.
	s.wire = newWire(conn)
	stop := context.AfterFunc(a.ctx, func() { conn.Close() })
	c, channels, requests, err := ssh.NewClientConn(attemptConn{s.wire, a}, address, &ssh.ClientConfig{
		User: s.node.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(signers...)},
		HostKeyCallback: check.verify, HostKeyAlgorithms: check.algorithms(),
		ClientVersion: clientVersion,
	})
	if !stop() || err != nil {
		conn.Close()
		return asked{}, cmp.Or(context.Cause(a.ctx), err)
	}
	s.ssh = c
	return asked{requests, channels}, nil
}

// dialEngine opens a stream to the engine's socket. sshd does it itself: no shell, no command. ssh.Client.Dial would do
// the same with two more goroutines and 8 KiB for each stream.
// Source: OpenSSH, PROTOCOL, 2.4 direct-streamlocal@openssh.com.
func (s *session) dialEngine(ctx context.Context) (net.Conn, error) {
	ask := ssh.Marshal(struct {
		Path, Reserved0 string
		Reserved1       uint32
	}{Path: engineSocket})
	type result struct {
		conn net.Conn
		err  error
	}
	opened := make(chan result)
	// OpenChannel has no deadline and ends with the session, but for one case: a channel that is opened in the moment in
	// which the connection ends is forgotten, and never answered. So nobody waits for this goroutine.
	// Source: x/crypto/ssh, mux.loop drops its channels before it closes the connection.
	go func() {
		ch, requests, err := s.ssh.OpenChannel("direct-streamlocal@openssh.com", ask)
		r := result{err: err}
		if err == nil {
			r.conn = &stream{ch, requests}
		}
		select {
		case opened <- r:
		case <-ctx.Done():
			if err == nil {
				ch.Close()
			}
		case <-s.ctx.Done():
		}
	}()
	select {
	case r := <-opened:
		var refused *ssh.OpenChannelError
		if r.err != nil && !errors.As(r.err, &refused) && s.isEnding() {
			return nil, s.ended()
		}
		return r.conn, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.ctx.Done():
		return nil, s.ended()
	}
}

// spawn starts a goroutine that close waits for; it must end with s.ctx. It does nothing, and returns false, once the
// session is closed. A panic in it ends the session.
func (s *session) spawn(work func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.wg.Go(func() {
			if err := s.safely("the connection to "+s.node.Name(), func() error { work(); return nil }); err != nil {
				s.fail(err)
			}
		})
	}
	return !s.closed
}

// safely runs something that a panic in it shall not end the daemon for.
func (s *session) safely(what string, do func() error) (err error) {
	defer s.faults.catch(what, &err)
	return do()
}

// last serves the session until it is over, or ctx ends, and returns when nothing of it is left.
func (s *session) last(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { s.fail(errClosed) })
	defer stop()
	if err := s.safely("the connection to "+s.node.Name(), func() error { s.serve(); return nil }); err != nil {
		s.fail(err)
		s.end()
	}
	s.close()
}

// serve refuses what the node asks of us, and ends s.ctx when the connection ends, for whatever reason.
func (s *session) serve() {
	for a := s.asked; a.requests != nil || a.channels != nil; {
		select {
		case r, ok := <-a.requests:
			if !ok {
				a.requests = nil
			} else if r.WantReply {
				r.Reply(false, nil)
			}
		case ch, ok := <-a.channels:
			if !ok {
				a.channels = nil
			} else {
				ch.Reject(ssh.Prohibited, "forwarding is not supported")
			}
		}
	}
	err := s.ssh.Wait()
	s.mu.Lock()
	if s.err == nil {
		s.err = lost(err)
	}
	s.mu.Unlock()
	s.end()
	s.engine.close()
}

// lost is why a connection has ended that nothing here has closed.
func lost(err error) error {
	if err == nil || hungUp(err) {
		return errors.New("the node closed the SSH connection")
	}
	return fmt.Errorf("the SSH connection broke: %w", err)
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

// isEnding reports whether the session has ended, or does so at once: its streams tell first.
func (s *session) isEnding() bool {
	select {
	case <-s.ctx.Done():
		return true
	case <-time.After(streamsFirst):
		return false
	}
}

// streamsFirst is how long after its streams a connection may be known to have ended.
const streamsFirst = 50 * time.Millisecond

// ended says why the session ended, or is about to; nil while it lasts.
func (s *session) ended() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Ends of a session.
var (
	errSilent = errors.New("the node stopped answering")
	errClosed = errors.New("the connection is no longer wanted")
)

// checkLater asks a node that is silent then for a sign of life, again and again, and ends the session if none comes.
// Without it the connection to a frozen node would last, and its event stream would merely be silent.
func (s *session) checkLater(wait time.Duration) {
	time.AfterFunc(wait, func() {
		s.spawn(func() {
			silent := s.wire.silentFor()
			if silent >= keepAliveEvery {
				s.alive(allowed(keepAliveLimit))
				silent = 0
			}
			if s.ctx.Err() == nil {
				s.checkLater(max(keepAliveEvery-silent, keepAliveEvery/4))
			}
		})
	})
}

// alive asks the node for a sign of life. It returns false, and ended says why, when nothing at all was heard from
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
			if err != nil {
				<-s.ctx.Done() // nothing else ends a request without an answer
			}
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
