package etcdnode

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// endpoint is one member, reached by one gRPC connection that is kept: etcd's own client would dial a new TLS
// connection for each Status.
type endpoint struct {
	url       string
	clientTLS func(context.Context) (*tls.Config, error)
	old       bool // it is asked as a member of an old cluster is
	plain     bool // it serves clients without TLS
	guard     func() error
	faults    *faults
	every     time.Duration
	wake      func()
	watch     atomic.Pointer[watch[endpointFacts]] // nil until the member is observed

	mu     sync.Mutex
	closed bool
	conn   *memberConn          // nil: dialled at the next question
	open   map[*memberConn]bool // conn, and those given up that are still in use
	used   time.Time            // when an operation last asked
	life   [2]time.Time         // beginning and end of the certificate that the member showed
	wg     sync.WaitGroup
}

// memberConn is a connection with those who use it. One that is given up is closed by the last of them: what is under
// way, as a change of the member list, must not be cut off by a look that lost its patience.
type memberConn struct {
	*grpc.ClientConn
	made  time.Time
	users int
}

// endpoint returns the access to a member. f.mu is held.
func (f *Fleet) endpoint(url string) *endpoint {
	e, ok := f.members[url]
	if !ok {
		e = &endpoint{url: url, clientTLS: f.config.ClientTLS, guard: f.guard, faults: &f.faults, every: f.config.Probe, wake: f.wake, used: time.Now(), open: map[*memberConn]bool{}}
		if e.old = f.scope.isOld(url); e.old {
			e.clientTLS, e.plain = f.config.OldTLS, strings.HasPrefix(url, "http://")
		}
		f.members[url] = e
	}
	return e
}

// member returns the access to a member, unless the fleet is closed.
func (f *Fleet) member(url string) (*endpoint, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, errClosed
	}
	return f.endpoint(url), nil
}

// redial makes the connection to a member again at the next question.
func (f *Fleet) redial(url string) {
	f.mu.Lock()
	e := f.members[url]
	f.mu.Unlock()
	if e != nil {
		e.drop(nil)
	}
}

// observe starts to look at the member, if that has not started. Fleet.mu is held.
func (e *endpoint) observe() {
	if e.watch.Load() != nil {
		return
	}
	e.watch.Store(newWatch(e.every, e.look, func(old, new endpointFacts, late bool) {
		if !old.sameNews(new) || late && new.status.Problem == "" {
			e.wake()
		}
	}))
}

// idle reports whether no operation has asked for a while.
func (e *endpoint) idle() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Since(e.used) > endpointIdle
}

// touch keeps the connection from counting as idle.
func (e *endpoint) touch() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.used = time.Now()
}

// close ends all connections, used or not, and returns when nothing of them is left.
func (e *endpoint) close() {
	e.mu.Lock()
	e.closed, e.conn = true, nil
	open := e.open
	e.open = nil
	e.mu.Unlock()
	for c := range open {
		c.end()
	}
	if w := e.watch.Load(); w != nil {
		w.close()
	}
	e.wg.Wait()
}

// end closes a connection; nil: none is to be closed. It is never called with endpoint.mu held: a handshake under way
// takes that.
func (c *memberConn) end() {
	if c != nil {
		c.Close()
	}
}

// retire gives a connection up, and returns it if it is to be closed now. e.mu is held.
func (e *endpoint) retire(c *memberConn) *memberConn {
	if e.conn == c {
		e.conn = nil
	}
	if c == nil || c.users > 0 || !e.open[c] {
		return nil
	}
	delete(e.open, c)
	return c
}

// drop gives a connection up; nil: whichever there is.
func (e *endpoint) drop(c *memberConn) {
	e.mu.Lock()
	if c == nil {
		c = e.conn
	}
	c = e.retire(c)
	e.mu.Unlock()
	c.end()
}

// release ends a use.
func (e *endpoint) release(c *memberConn) {
	e.mu.Lock()
	c.users--
	if c == e.conn {
		c = nil
	}
	c = e.retire(c)
	e.mu.Unlock()
	c.end()
}

// acquire returns the kept connection, or makes one; release it after use. It does not wait: the first question does.
func (e *endpoint) acquire() (*memberConn, error) {
	e.mu.Lock()
	var old *memberConn
	if c := e.conn; c != nil && time.Since(c.made) > endpointAge {
		old = e.retire(c)
	}
	c, err := e.take()
	e.mu.Unlock()
	old.end()
	return c, err
}

// take is acquire with e.mu held.
func (e *endpoint) take() (*memberConn, error) {
	if e.closed {
		return nil, errClosed
	}
	if e.conn == nil {
		conn, err := e.dial()
		if err != nil {
			return nil, err
		}
		e.conn = &memberConn{ClientConn: conn, made: time.Now()}
		e.open[e.conn] = true
		e.wg.Go(func() { e.follow(conn) })
	}
	// A question to a member that refused the last attempt is a reason for another at once.
	if e.conn.GetState() == connectivity.TransientFailure {
		e.conn.ResetConnectBackoff()
	}
	e.conn.users++
	return e.conn, nil
}

func (e *endpoint) dial() (*grpc.ClientConn, error) {
	u, err := url.Parse(e.url)
	if err != nil || u.Scheme != "https" && !e.plain {
		return nil, fmt.Errorf("%q is no https URL", e.url)
	}
	var by credentials.TransportCredentials = &memberTLS{config: e.clientTLS, shown: e.shown}
	if e.plain {
		by = insecure.NewCredentials()
	}
	return grpc.NewClient("passthrough:///"+u.Host, append(fenceOptions(e.guard),
		grpc.WithTransportCredentials(by),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: redialMin, Multiplier: 2, Jitter: 0.2, MaxDelay: redialMax},
			MinConnectTimeout: allowed(endpointLimit),
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(memberAnswerLimit)),
		grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithDisableHealthCheck(), grpc.WithDisableRetry(),
		grpc.WithIdleTimeout(0), grpc.WithReadBufferSize(4<<10), grpc.WithWriteBufferSize(4<<10))...)
}

// follow asks for a look when the connection breaks or is there again: a member that ends is noticed at once.
func (e *endpoint) follow(conn *grpc.ClientConn) {
	for state := conn.GetState(); state != connectivity.Shutdown; {
		conn.WaitForStateChange(context.Background(), state) // ends with Shutdown
		next := conn.GetState()
		if w := e.watch.Load(); w != nil && next != connectivity.Shutdown && (state == connectivity.Ready || next == connectivity.Ready) {
			w.want()
		}
		state = next
	}
}

// shown takes note of the certificate of a member.
func (e *endpoint) shown(s tls.ConnectionState) {
	if len(s.PeerCertificates) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c := s.PeerCertificates[0]
	e.life = [2]time.Time{c.NotBefore.UTC(), c.NotAfter.UTC()}
}

// certificate is the life of the one that the member showed last.
func (e *endpoint) certificate() (notBefore, notAfter time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.life[0], e.life[1]
}
