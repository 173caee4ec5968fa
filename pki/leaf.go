package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"time"
)

// leaf is a certificate with its key; that is nil where it was made before.
type leaf struct {
	cert    *x509.Certificate
	key     *ecdsa.PrivateKey
	certPEM []byte
	keyPEM  []byte
}

// request says what a leaf is for.
type request struct {
	commonName string
	life       time.Duration
	usage      []x509.ExtKeyUsage
	dnsNames   []string
	addresses  []net.IP
	// key is signed instead of a fresh one; nil: a fresh one.
	key crypto.PublicKey
}

// issue signs a fresh key, or the one given. The certificate ends no later than the CA does.
func (a *Authority) issue(c *ca, r request) (*leaf, error) {
	now := a.now()
	switch {
	case now.Before(c.cert.NotBefore):
		return nil, a.unusable(c.name, fmt.Sprintf("is not valid before %s: check the clock of this host, which shows %s", stamp(c.cert.NotBefore), stamp(now)), nil)
	case !now.Before(c.cert.NotAfter):
		return nil, a.unusable(c.name, fmt.Sprintf("expired at %s; the clock of this host shows %s", stamp(c.cert.NotAfter), stamp(now)), nil)
	}
	l := &leaf{}
	if r.key == nil {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, fmt.Errorf("generate key: %w", err)
		}
		if l.keyPEM, err = encodeKey(key); err != nil {
			return nil, err
		}
		l.key, r.key = key, key.Public()
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: commonName(r.commonName), Organization: []string{a.cluster}},
		NotBefore:    later(now.Add(-skew), c.cert.NotBefore),
		NotAfter:     earlier(now.Add(r.life), c.cert.NotAfter),
		KeyUsage:     x509.KeyUsageDigitalSignature, ExtKeyUsage: r.usage, BasicConstraintsValid: true,
		DNSNames: r.dnsNames, IPAddresses: r.addresses,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, c.cert, r.key, c.key)
	if err != nil {
		return nil, fmt.Errorf("sign with the %s CA of %s: %w", c.name, a.cluster, err)
	}
	if l.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("parse the certificate that the %s CA of %s signed: %w", c.name, a.cluster, err)
	}
	l.certPEM = encodePEM(certBlock, der)
	return l, nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
