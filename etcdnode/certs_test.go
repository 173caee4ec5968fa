package etcdnode

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"

	"cke"
)

// TestCA issues certificates for tests: one authority for all purposes.
type TestCA struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// NewTestCA makes a fresh authority.
func NewTestCA(t testing.TB) *TestCA {
	ca := &TestCA{t: t}
	ca.cert, ca.key, ca.pem = ca.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotAfter: time.Now().Add(time.Hour),
	})
	return ca
}

func (ca *TestCA) sign(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey, []byte) {
	ca.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		ca.t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore = time.Now().Add(-time.Minute)
	parent, signer := ca.cert, ca.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		ca.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		ca.t.Fatal(err)
	}
	return cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// Issue makes a certificate that is good for clients and for servers at the addresses.
func (ca *TestCA) Issue(name string, notAfter time.Time, addresses ...string) (cert, key []byte) {
	ca.t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotAfter: notAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	for _, a := range addresses {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(a))
	}
	_, k, cert := ca.sign(template)
	der, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		ca.t.Fatal(err)
	}
	return cert, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

// TLS is a configuration that shows a fresh certificate and trusts the authority alone.
func (ca *TestCA) TLS(name string, addresses ...string) *tls.Config {
	ca.t.Helper()
	cert, key := ca.Issue(name, time.Now().Add(time.Hour), addresses...)
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		ca.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, ClientCAs: pool, MinVersion: tls.VersionTLS12}
}

// MemberFiles is what the volume of a member at address needs.
func (ca *TestCA) MemberFiles(address string, notAfter time.Time) []cke.File {
	ca.t.Helper()
	var files []cke.File
	put := func(path string, mode int64, data []byte) {
		files = append(files, cke.File{Path: path, Mode: mode, Data: data})
	}
	peerCert, peerKey := ca.Issue("peer", notAfter, address, "127.0.0.1")
	serverCert, serverKey := ca.Issue("server", notAfter, address, "127.0.0.1")
	for _, path := range []string{cke.PeerCAFile, cke.ClientCAFile, cke.ServerCAFile} {
		put(path, 0o644, ca.pem)
	}
	put(cke.PeerCertFile, 0o644, peerCert)
	put(cke.PeerKeyFile, 0o600, peerKey)
	put(cke.ServerCertFile, 0o644, serverCert)
	put(cke.ServerKeyFile, 0o600, serverKey)
	return files
}
