package pki

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"time"
	"unicode"

	"cke"
)

const (
	// ownName is the common name that cke itself shows to members; no other client is given it.
	ownName = cke.EtcdUser
	// ownLife is short, since the certificate is in memory only. It is renewed once half of it is over.
	ownLife = 24 * time.Hour
)

// ownCert is the certificate that cke itself shows, with the CA that signed it.
type ownCert struct {
	cert tls.Certificate
	ca   *ca
}

// ClientTLS implements cke.Authority. Only the server CAs are trusted for members. The caller may change the
// configuration and keep it for as long as the CAs are valid: its certificate renews itself.
func (a *Authority) ClientTLS(ctx context.Context, rec cke.Authorities) (*tls.Config, error) {
	cas, err := a.get(ctx, rec)
	if err != nil {
		return nil, err
	}
	if _, err := a.ownCert(cas.client.signs); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		RootCAs:    cas.server.pool(),
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return a.ownCert(cas.client.signs)
		},
	}, nil
}

// ownCert returns the certificate of cke itself under a client CA, a fresh one when the last is half over.
func (a *Authority) ownCert(c *ca) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if o := a.own; o != nil && o.ca.same(c) {
		left := o.cert.Leaf.NotAfter.Sub(a.now())
		if begun := !a.now().Before(o.cert.Leaf.NotBefore); begun && left > ownLife/2 {
			return &o.cert, nil
		}
	}
	l, err := a.issue(c, request{commonName: ownName, life: ownLife, usage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return nil, err
	}
	a.own = &ownCert{cert: tls.Certificate{Certificate: [][]byte{l.cert.Raw}, PrivateKey: l.key, Leaf: l.cert}, ca: c}
	return &a.own.cert, nil
}

// IssueClient issues a client certificate for a user or program, valid for ttl or until the client CA expires;
// notAfter is the earlier of both. name becomes the common name, which is the user if authentication is on in etcd.
// caPEM are the CAs to trust members by. All three are PEM; the key is kept nowhere else.
func (a *Authority) IssueClient(ctx context.Context, rec cke.Authorities, name string, ttl time.Duration) (certPEM, keyPEM, caPEM []byte, notAfter time.Time, err error) {
	if err := checkClient(name, ttl); err != nil {
		return nil, nil, nil, time.Time{}, fmt.Errorf("issue a client certificate of %s: %w", a.cluster, err)
	}
	cas, err := a.get(ctx, rec)
	if err != nil {
		return nil, nil, nil, time.Time{}, err
	}
	l, err := a.issue(cas.client.signs, request{commonName: name, life: ttl, usage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return nil, nil, nil, time.Time{}, err
	}
	return l.certPEM, l.keyPEM, cas.server.bundle(), l.cert.NotAfter, nil
}

func checkClient(name string, ttl time.Duration) error {
	switch {
	case name == "" || len(name) > 64 || strings.TrimSpace(name) != name || strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("invalid name %q: want 1 to 64 characters", name)
	case name == ownName:
		return fmt.Errorf("the name %q is reserved for cke", name)
	case ttl < time.Second:
		return fmt.Errorf("a validity of %s is too short", ttl)
	}
	return nil
}
