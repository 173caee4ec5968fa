package etcdnode

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"cke"
)

// endpoint is one member, reached by one gRPC connection that is kept: etcd's own client would dial a new TLS
// connection for each Status.
type endpoint struct {
	url       string
	clientTLS func(context.Context) (*tls.Config, error)
	every     time.Duration
	wake      func()
	watch     atomic.Pointer[watch[endpointFacts]] // nil until the member is observed

	mu       sync.Mutex
	closed   bool
	conn     *grpc.ClientConn // nil: dialled at the next question
	made     time.Time        // when conn was made
	used     time.Time        // when it was last asked for
	notAfter time.Time        // expiry of the certificate that the member showed
	wg       sync.WaitGroup
}

// endpoint returns the access to a member. f.mu is held.
func (f *Fleet) endpoint(url string) *endpoint {
	e, ok := f.members[url]
	if !ok {
		e = &endpoint{url: url, clientTLS: f.config.ClientTLS, every: f.config.Probe, wake: f.wake, used: time.Now()}
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

// redial makes the connection to a member anew at the next question.
func (f *Fleet) redial(url string) {
	f.mu.Lock()
	e := f.members[url]
	f.mu.Unlock()
	if e != nil {
		e.drop(nil)
	}
}

// observe begins to look at the member, if that has not begun. Fleet.mu is held.
func (e *endpoint) observe() {
	if e.watch.Load() != nil {
		return
	}
	e.watch.Store(newWatch(e.every, e.look, func(old, new endpointFacts) {
		if !old.sameNews(new) {
			e.wake()
		}
	}))
}

// idle reports whether nobody has asked for a while, apart from the watch.
func (e *endpoint) idle() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Since(e.used) > endpointIdle
}

// close ends the connection and returns when nothing of it is left.
func (e *endpoint) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.drop(nil)
	if w := e.watch.Load(); w != nil {
		w.close()
	}
	e.wg.Wait()
}

// drop ends a connection; nil: whichever there is.
func (e *endpoint) drop(conn *grpc.ClientConn) {
	e.mu.Lock()
	if conn == nil || conn == e.conn {
		conn, e.conn = e.conn, nil
	}
	e.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
}

// dial returns the kept connection, or makes one. It does not wait: the first question does.
func (e *endpoint) dial() (*grpc.ClientConn, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errClosed
	}
	if e.conn != nil && time.Since(e.made) > endpointAge {
		old := e.conn
		e.conn = nil
		defer old.Close()
	}
	if e.conn != nil {
		// A question to a member that refused the last attempt is a reason for another at once.
		if e.conn.GetState() == connectivity.TransientFailure {
			e.conn.ResetConnectBackoff()
		}
		return e.conn, nil
	}
	u, err := url.Parse(e.url)
	if err != nil || u.Scheme != "https" {
		return nil, fmt.Errorf("%q is no https URL", e.url)
	}
	conn, err := grpc.NewClient("passthrough:///"+u.Host,
		grpc.WithTransportCredentials(&memberTLS{config: e.clientTLS, shown: e.shown}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: redialMin, Multiplier: 2, Jitter: 0.2, MaxDelay: redialMax},
			MinConnectTimeout: EndpointLimit,
		}),
		grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithDisableHealthCheck(), grpc.WithDisableRetry(),
		grpc.WithIdleTimeout(0), grpc.WithReadBufferSize(4<<10), grpc.WithWriteBufferSize(4<<10), grpc.WithSharedWriteBuffer(true))
	if err != nil {
		return nil, err
	}
	e.conn, e.made = conn, time.Now()
	e.wg.Go(func() { e.follow(conn) })
	return conn, nil
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
	e.notAfter = s.PeerCertificates[0].NotAfter.UTC()
}

func (e *endpoint) certNotAfter() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.notAfter
}

// touch keeps the connection from counting as idle.
func (e *endpoint) touch() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.used = time.Now()
}

// Endpoint implements cke.Etcd.
func (f *Fleet) Endpoint(ctx context.Context, url string) cke.EndpointStatus {
	e, err := f.member(url)
	if err != nil {
		return cke.EndpointStatus{URL: url, Problem: err.Error()}
	}
	e.touch()
	return e.ask(ctx, false).status
}

// Members implements cke.Etcd.
func (f *Fleet) Members(ctx context.Context, url string) (clusterID string, members []cke.Member, err error) {
	err = f.call(ctx, url, "member list", func(ctx context.Context, conn *grpc.ClientConn) error {
		resp, err := pb.NewClusterClient(conn).MemberList(ctx, &pb.MemberListRequest{Linearizable: true})
		if err != nil {
			return err
		}
		clusterID, members = hexID(resp.GetHeader().GetClusterId()), membersOf(resp.Members)
		return nil
	})
	return clusterID, members, err
}

// ProveWrite implements cke.Etcd: a lease that is granted and revoked goes through raft twice and touches no key.
func (f *Fleet) ProveWrite(ctx context.Context, url string) error {
	if err := f.guard(); err != nil {
		return err
	}
	return f.call(ctx, url, "lease", func(ctx context.Context, conn *grpc.ClientConn) error {
		leases := pb.NewLeaseClient(conn)
		granted, err := leases.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: int64(2 * ProposalLimit / time.Second)})
		if err != nil {
			return err
		}
		_, err = leases.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: granted.ID})
		return err
	})
}

// call asks one member for something that goes through raft.
func (f *Fleet) call(ctx context.Context, url, what string, ask func(context.Context, *grpc.ClientConn) error) error {
	return f.callWithin(ctx, ProposalLimit, url, what, ask)
}

func (f *Fleet) callWithin(ctx context.Context, limit time.Duration, url, what string, ask func(context.Context, *grpc.ClientConn) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	e, err := f.member(url)
	if err != nil {
		return err
	}
	e.touch()
	conn, err := e.dial()
	if err == nil {
		err = ask(ctx, conn)
	}
	if status.Code(err) == codes.Canceled && ctx.Err() == nil {
		// A look gave the connection up meanwhile. Whatever is asked here may be asked twice.
		if conn, err = e.dial(); err == nil {
			err = ask(ctx, conn)
		}
	}
	if err == nil {
		return nil
	}
	if status.Code(err) == codes.DeadlineExceeded {
		e.drop(conn)
	}
	return &cke.Error{Code: cke.CodeMemberSilent, What: fmt.Sprintf("%s through %s failed", what, url), Err: errors.New(said(err, ProposalLimit))}
}

// memberTLS asks for our certificate at each handshake, so that one that was renewed is shown, and takes note of the
// member's.
type memberTLS struct {
	config func(context.Context) (*tls.Config, error)
	shown  func(tls.ConnectionState)
}

var _ credentials.TransportCredentials = (*memberTLS)(nil)

// ClientHandshake implements credentials.TransportCredentials.
func (m *memberTLS) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if m.config == nil {
		return nil, nil, errNoTLS
	}
	c, err := m.config(ctx)
	switch {
	case err != nil:
		return nil, nil, err
	case c == nil:
		return nil, nil, errNoTLS
	case c.InsecureSkipVerify:
		return nil, nil, fmt.Errorf("a member's certificate is never left unchecked")
	}
	conn, info, err := credentials.NewTLS(c).ClientHandshake(ctx, authority, raw)
	if t, ok := info.(credentials.TLSInfo); ok && err == nil {
		m.shown(t.State)
	}
	return conn, info, err
}

// ServerHandshake implements credentials.TransportCredentials; it is never called.
func (m *memberTLS) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, fmt.Errorf("not a server")
}

// Info implements credentials.TransportCredentials.
func (m *memberTLS) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone implements credentials.TransportCredentials.
func (m *memberTLS) Clone() credentials.TransportCredentials { c := *m; return &c }

// OverrideServerName implements credentials.TransportCredentials; the name is always the URL's.
func (m *memberTLS) OverrideServerName(string) error { return nil }

// hexID writes an id as etcdctl does; "" for none.
func hexID(id uint64) string {
	if id == 0 {
		return ""
	}
	return strconv.FormatUint(id, 16)
}
