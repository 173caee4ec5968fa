package etcdnode

import (
	"context"
	"net"
	"net/http"
	"net/http/httptrace"
	"path"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// The fence is the one place in which the guard of the term is asked: right before any request that changes something is
// written, to an engine or to a member. So no call can forget it, whatever it consists of.

// fenceError is what the guard said instead of a request.
type fenceError struct{ error }

func (e fenceError) Unwrap() error { return e.error }

// fencedTransport asks the guard before each request to an engine that may change something. It asks when the request is made, so
// that nothing is dialled in vain, and again before each write to the connection: getting one takes time, and so does sending a body.
type fencedTransport struct {
	guard func() error
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (f fencedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if readsOnly(r) {
		return f.next.RoundTrip(withConn(r, func(c *fencedConn) { c.guard.Store(nil) }))
	}
	if err := f.guard(); err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, fenceError{err}
	}
	resp, err := f.next.RoundTrip(withConn(r, func(c *fencedConn) { c.guard.Store(&f.guard) }))
	if err != nil {
		if deposed := f.guard(); deposed != nil { // whatever net/http made of it
			err = fenceError{deposed}
		}
	}
	return resp, err
}

// readsOnly reports whether a request can change nothing on a node. A look into a container's files can: while another daemon removes
// that container, an engine may delete its data; see reach.
func readsOnly(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && path.Base(r.URL.Path) != "archive"
}

// withConn lets do see the connection that a request is about to be written to.
func withConn(r *http.Request, do func(*fencedConn)) *http.Request {
	return r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		if c, ok := i.Conn.(*fencedConn); ok {
			c.written.Store(0)
			do(c)
		}
	}}))
}

// fencedConn asks the guard before each write while the request that it carries may change something. HTTP/1.1 has one
// request on a connection at a time.
type fencedConn struct {
	net.Conn
	guard   atomic.Pointer[func() error] // nil: the present request only reads
	written atomic.Int64                 // bytes of the present request
	heard   func()                       // is called when the engine has sent something, or taken a part of a long request
}

// inTransit is how many bytes of a request may wait on the way to an engine that takes none. Source: OpenSSH, a channel's
// window is 2 MiB.
const inTransit = 4 << 20

// Read implements net.Conn.
func (c *fencedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.heard()
	}
	return n, err
}

// Write implements net.Conn.
func (c *fencedConn) Write(p []byte) (int, error) {
	if guard := c.guard.Load(); guard != nil {
		if err := (*guard)(); err != nil {
			return 0, fenceError{err}
		}
	}
	n, err := c.Conn.Write(p)
	if c.written.Add(int64(n)) > inTransit && n > 0 {
		c.heard()
	}
	return n, err
}

// readMethods are the methods of etcd that change nothing. Any other one is a change.
var readMethods = map[string]bool{
	pb.KV_Range_FullMethodName:              true,
	pb.Lease_LeaseTimeToLive_FullMethodName: true,
	pb.Lease_LeaseLeases_FullMethodName:     true,
	pb.Cluster_MemberList_FullMethodName:    true,
	pb.Maintenance_Status_FullMethodName:    true,
	pb.Maintenance_HashKV_FullMethodName:    true,
	pb.Auth_AuthStatus_FullMethodName:       true,
	pb.Auth_UserGet_FullMethodName:          true,
	pb.Auth_UserList_FullMethodName:         true,
	pb.Auth_RoleGet_FullMethodName:          true,
	pb.Auth_RoleList_FullMethodName:         true,
	pb.Auth_Authenticate_FullMethodName:     true,
}

// changes reports whether a request to a member may change something.
func changes(method string, req any) bool {
	if alarm, ok := req.(*pb.AlarmRequest); ok {
		return alarm.Action != pb.AlarmRequest_GET
	}
	return !readMethods[method]
}

// fencedCall is the guard of a request to a member that may change something, in its context.
type fencedCall struct{}

// fenceOptions make a connection to a member ask the guard before each request that may change something: before the call
// starts, and again once there is a connection, right before its headers are written.
func fenceOptions(guard func() error) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithPerRPCCredentials(fencedHeaders{}),
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if !changes(method, req) {
				return invoke(ctx, method, req, reply, cc, opts...)
			}
			if err := guard(); err != nil {
				return fenceError{err}
			}
			err := invoke(context.WithValue(ctx, fencedCall{}, guard), method, req, reply, cc, opts...)
			if err != nil {
				if deposed := guard(); deposed != nil { // whatever gRPC made of it
					err = fenceError{deposed}
				}
			}
			return err
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, begin grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			if err := guard(); err != nil { // none is used; one that is added counts as a change
				return nil, fenceError{err}
			}
			return begin(context.WithValue(ctx, fencedCall{}, guard), d, cc, method, opts...)
		}),
	}
}

// fencedHeaders is asked by gRPC for headers of a request right before they are written. It has none.
type fencedHeaders struct{}

var _ credentials.PerRPCCredentials = fencedHeaders{}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (fencedHeaders) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	if guard, ok := ctx.Value(fencedCall{}).(func() error); ok {
		return nil, guard()
	}
	return nil, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials: there are no headers to protect, and members of an old cluster may
// serve without TLS.
func (fencedHeaders) RequireTransportSecurity() bool { return false }
