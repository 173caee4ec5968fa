package cke

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"
)

// Files by which a member proves who it is and knows others, relative to its volume. etcd reads certificates and keys at
// each handshake, and the CAs when it starts. Source: etcd, client/pkg/transport.
const (
	CertificateDir = "pki"

	PeerCAFile   = CertificateDir + "/peer-ca.crt"
	PeerCertFile = CertificateDir + "/peer.crt"
	PeerKeyFile  = CertificateDir + "/peer.key"

	// ClientCAFile holds every CA that the client port trusts.
	ClientCAFile = CertificateDir + "/client-ca.crt"

	ServerCAFile   = CertificateDir + "/server-ca.crt"
	ServerCertFile = CertificateDir + "/server.crt"
	ServerKeyFile  = CertificateDir + "/server.key"
)

// CertificateFiles is what a member's certificate files are worth.
type CertificateFiles struct {
	// NotBefore and NotAfter bound the time in which both certificates hold; zero where they are damaged.
	NotBefore time.Time `json:"notBefore,omitzero"`
	NotAfter  time.Time `json:"notAfter,omitzero"`
	// Damage is what is wrong with them at any time, as "pki/peer.key is not there"; empty: nothing.
	Damage string `json:"damage,omitempty"`
}

// Hold reports whether a member can prove who it is at a time.
func (c CertificateFiles) Hold(now time.Time) bool {
	return c.Damage == "" && !now.Before(c.NotBefore) && now.Before(c.NotAfter)
}

// Trouble is why they do not hold at a time; empty: they do.
func (c CertificateFiles) Trouble(now time.Time) string {
	switch {
	case c.Damage != "":
		return c.Damage
	case now.Before(c.NotBefore):
		return "its certificates hold from " + c.NotBefore.Format(time.RFC3339) + " on only"
	case !now.Before(c.NotAfter):
		return "its certificates ended at " + c.NotAfter.Format(time.RFC3339)
	}
	return ""
}

// EndSoon reports whether less than a third of their life is left.
func (c CertificateFiles) EndSoon(now time.Time) bool {
	return c.Damage == "" && c.NotAfter.Sub(now)*3 < c.NotAfter.Sub(c.NotBefore)
}

// ReadCertificates judges the files of a member's certificate directory. Whether they hold now is asked of the result.
func ReadCertificates(files []File) CertificateFiles {
	byPath := map[string][]byte{}
	for _, f := range files {
		byPath[f.Path] = f.Data
	}
	damaged := func(path, what string) CertificateFiles { return CertificateFiles{Damage: path + " " + what} }
	var all CertificateFiles
	for _, p := range [][3]string{{PeerCAFile, PeerCertFile, PeerKeyFile}, {ServerCAFile, ServerCertFile, ServerKeyFile}} {
		for _, path := range p {
			if byPath[path] == nil {
				return damaged(path, "is not there")
			}
		}
		ca := x509.NewCertPool()
		if !ca.AppendCertsFromPEM(byPath[p[0]]) {
			return damaged(p[0], "holds no certificate")
		}
		pair, err := tls.X509KeyPair(byPath[p[1]], byPath[p[2]])
		if err != nil {
			return whichIsDamaged(p[1], p[2], byPath)
		}
		leaf := pair.Leaf
		usages := []x509.ExtKeyUsage{x509.ExtKeyUsageAny}
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: ca, CurrentTime: leaf.NotBefore, KeyUsages: usages}); err != nil {
			return damaged(p[1], "was not signed by the authority in "+p[0])
		}
		if all.NotBefore.Before(leaf.NotBefore) {
			all.NotBefore = leaf.NotBefore.UTC()
		}
		if all.NotAfter.IsZero() || leaf.NotAfter.Before(all.NotAfter) {
			all.NotAfter = leaf.NotAfter.UTC()
		}
	}
	if !x509.NewCertPool().AppendCertsFromPEM(byPath[ClientCAFile]) {
		return damaged(ClientCAFile, "holds no certificate")
	}
	return all
}

// whichIsDamaged tells why a certificate and a key are no pair. Errors of the standard library are not quoted: they may
// hold a part of a key.
func whichIsDamaged(cert, key string, byPath map[string][]byte) CertificateFiles {
	what := fmt.Sprintf("%s is not the key of %s", key, cert)
	if block, _ := pem.Decode(byPath[cert]); block == nil {
		what = cert + " holds no certificate"
	} else if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		what = cert + " holds no certificate"
	} else if block, _ := pem.Decode(byPath[key]); block == nil {
		what = key + " holds no key"
	}
	return CertificateFiles{Damage: what}
}
