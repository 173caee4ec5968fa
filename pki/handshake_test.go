package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"testing"
	"time"

	"cke"
	"cke/pki"
)

// member is what etcd does with the files of a member: it serves clients with the server certificate and peers with
// the peer certificate, and asks both for a certificate.
type member struct {
	t     *testing.T
	files map[string]cke.File
}

func newMember(t *testing.T, a *pki.Authority) member {
	return member{t, filesByPath(t, a, "127.0.0.1", "cp1")}
}

func (m member) config(cert, key, ca string) *tls.Config {
	m.t.Helper()
	pair, err := tls.X509KeyPair(m.files[cert].Data, m.files[key].Data)
	if err != nil {
		m.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(m.files[ca].Data) {
		m.t.Fatalf("%s holds no certificate", ca)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, RootCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
}

func (m member) clientPort() *tls.Config {
	return m.config(cke.ServerCertFile, cke.ServerKeyFile, cke.ClientCAFile)
}

func (m member) peerPort() *tls.Config {
	return m.config(cke.PeerCertFile, cke.PeerKeyFile, cke.PeerCAFile)
}

// handshake connects client to server over loopback and sends a byte each way.
func handshake(t *testing.T, server, client *tls.Config) error {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(time.Minute))
		io.CopyN(c, c, 1)
	}()
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: time.Minute}, "tcp", l.Addr().String(), client)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := c.Write([]byte{1}); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 1)) // with TLS 1.3 a refusal of the client comes only now
	return err
}

func person(t *testing.T, a *pki.Authority) *tls.Config {
	t.Helper()
	cert, key, ca, _, err := a.IssueClient(t.Context(), cke.Authorities{}, "alice", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool}
}

// Requirements N15, D13: peers, clients and cke itself show certificates.
func TestHandshake_WhoIsLetIn(t *testing.T) {
	a, _, _ := newAuthority()
	other := pki.New(newMemory(), "prod", newClock().Now) // another cluster of the same name
	m, stranger := newMember(t, a), newMember(t, other)
	own, err := a.ClientTLS(t.Context(), cke.Authorities{})
	if err != nil {
		t.Fatal(err)
	}
	ownOfOther, err := other.ClientTLS(t.Context(), cke.Authorities{})
	if err != nil {
		t.Fatal(err)
	}
	trusting := func(c, trust *tls.Config) *tls.Config {
		c = c.Clone()
		c.RootCAs = trust.RootCAs
		return c
	}
	nobody := trusting(&tls.Config{}, own)
	for _, c := range []struct {
		name           string
		server, client *tls.Config
		let            bool
	}{
		{"cke as client", m.clientPort(), own, true},
		{"a person as client", m.clientPort(), person(t, a), true},
		{"a peer as peer", m.peerPort(), m.peerPort(), true},
		{"a member's own gateway", m.clientPort(), trusting(m.clientPort(), own), true},
		{"nobody as client", m.clientPort(), nobody, false},
		{"cke at the peer port", m.peerPort(), trusting(own, m.peerPort()), false},
		{"a person at the peer port", m.peerPort(), trusting(person(t, a), m.peerPort()), false},
		{"a peer as client", m.clientPort(), trusting(m.peerPort(), own), false},
		{"a client of another cluster", m.clientPort(), trusting(ownOfOther, own), false},
		{"a member of another cluster as client", m.clientPort(), trusting(stranger.clientPort(), own), false},
		{"a peer of another cluster", m.peerPort(), trusting(stranger.peerPort(), m.peerPort()), false},
		{"cke to a member of another cluster", stranger.clientPort(), trusting(own, own), false},
		{"cke to a member that shows its peer certificate", m.peerPort(), own, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := handshake(t, c.server, c.client)
			if let := err == nil; let != c.let {
				t.Errorf("let in: %v (%v), want %v", let, err, c.let)
			}
		})
	}
}
