package etcdnode

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"google.golang.org/grpc/credentials"
)

var errNoTLS = errors.New("the cluster has no certificate authority yet")

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
		return nil, nil, errors.New("a member's certificate is never left unchecked")
	}
	conn, info, err := credentials.NewTLS(c).ClientHandshake(ctx, authority, raw)
	if t, ok := info.(credentials.TLSInfo); ok && err == nil {
		m.shown(t.State)
	}
	return conn, info, err
}

// ServerHandshake implements credentials.TransportCredentials; it is never called.
func (m *memberTLS) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("not a server")
}

// Info implements credentials.TransportCredentials.
func (m *memberTLS) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone implements credentials.TransportCredentials.
func (m *memberTLS) Clone() credentials.TransportCredentials { c := *m; return &c }

// OverrideServerName implements credentials.TransportCredentials; the name is always the URL's.
func (m *memberTLS) OverrideServerName(string) error { return nil }
