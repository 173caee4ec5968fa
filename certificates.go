package cke

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"slices"
	"time"
)

// Files by which a member proves its identity and checks others, relative to its volume. etcd reads certificates and
// keys at each handshake, and the CAs at its start. Source: etcd, client/pkg/transport.
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

// CertificateFiles is what was found in a member's certificate files.
type CertificateFiles struct {
	// NotBefore and NotAfter bound the time in which both certificates are valid; zero if they are damaged.
	NotBefore time.Time `json:"notBefore,omitzero"`
	NotAfter  time.Time `json:"notAfter,omitzero"`
	// Damage is what is wrong with them at any time, as "pki/peer.key is missing"; empty: nothing.
	Damage string `json:"damage,omitempty"`
	// PeerCAs and ClientCAs are the fingerprints of the authorities that a member trusts on its two ports once it is
	// started with the files; PeerSigner and ServerSigner are those that signed its certificates. Empty if the files are
	// damaged, or if only the certificate was seen.
	PeerCAs      []string `json:"peerCAs,omitempty"`
	ClientCAs    []string `json:"clientCAs,omitempty"`
	PeerSigner   string   `json:"peerSigner,omitempty"`
	ServerSigner string   `json:"serverSigner,omitempty"`
	// AuthorityEnds is when the first authority of each kind in the files expires; empty under the same conditions.
	AuthorityEnds map[AuthorityName]time.Time `json:"authorityEnds,omitempty"`
}

// Bundle names what the files let a member trust, see BundleOf; empty: unknown.
func (c CertificateFiles) Bundle() string {
	if c.PeerCAs == nil || c.ClientCAs == nil {
		return ""
	}
	return BundleOf(c.PeerCAs, c.ClientCAs)
}

// SignedBy returns the fingerprint of the authority that signed the certificate that a member presents under this
// authority; empty: unknown, or it presents none.
func (c CertificateFiles) SignedBy(name AuthorityName) string {
	switch name {
	case PeerAuthority:
		return c.PeerSigner
	case ServerAuthority:
		return c.ServerSigner
	}
	return ""
}

// Hold reports whether a member can prove its identity at a time.
func (c CertificateFiles) Hold(now time.Time) bool {
	return c.Damage == "" && !now.Before(c.NotBefore) && now.Before(c.NotAfter)
}

// Trouble returns why they are not valid at a time; empty: they are.
func (c CertificateFiles) Trouble(now time.Time) string {
	switch {
	case c.Damage != "":
		return c.Damage
	case now.Before(c.NotBefore):
		return "its certificates are not valid before " + c.NotBefore.Format(time.RFC3339)
	case !now.Before(c.NotAfter):
		return "its certificates expired at " + c.NotAfter.Format(time.RFC3339)
	}
	return ""
}

// EndSoon reports whether less than a third of their validity remains.
func (c CertificateFiles) EndSoon(now time.Time) bool {
	return c.Damage == "" && c.NotAfter.Sub(now)*3 < c.NotAfter.Sub(c.NotBefore)
}

// ReadCertificates parses the files of a member's certificate directory. Hold and Trouble check their time.
func ReadCertificates(files []File) CertificateFiles {
	byPath := map[string][]byte{}
	for _, f := range files {
		byPath[f.Path] = f.Data
	}
	damaged := func(path, what string) CertificateFiles { return CertificateFiles{Damage: path + " " + what} }
	all := CertificateFiles{AuthorityEnds: map[AuthorityName]time.Time{}}
	var servers []*x509.Certificate
	for _, p := range [][3]string{{PeerCAFile, PeerCertFile, PeerKeyFile}, {ServerCAFile, ServerCertFile, ServerKeyFile}} {
		for _, path := range p {
			if byPath[path] == nil {
				return damaged(path, "is missing")
			}
		}
		cas := authoritiesIn(byPath[p[0]])
		if cas == nil {
			return damaged(p[0], "contains no certificate")
		}
		pair, err := tls.X509KeyPair(byPath[p[1]], byPath[p[2]])
		if err != nil {
			return whichIsDamaged(p[1], p[2], byPath)
		}
		leaf := pair.Leaf
		signer := signerOf(leaf, cas)
		if signer == nil {
			return damaged(p[1], "was not signed by the authority in "+p[0])
		}
		if p[0] == PeerCAFile {
			all.PeerCAs, all.PeerSigner = fingerprints(cas), Fingerprint(signer)
			all.AuthorityEnds[PeerAuthority] = firstEnd(cas)
		} else {
			servers, all.ServerSigner = cas, Fingerprint(signer)
			all.AuthorityEnds[ServerAuthority] = firstEnd(cas)
		}
		if all.NotBefore.Before(leaf.NotBefore) {
			all.NotBefore = leaf.NotBefore.UTC()
		}
		if all.NotAfter.IsZero() || leaf.NotAfter.Before(all.NotAfter) {
			all.NotAfter = leaf.NotAfter.UTC()
		}
	}
	clients := authoritiesIn(byPath[ClientCAFile])
	if clients == nil {
		return damaged(ClientCAFile, "contains no certificate")
	}
	all.ClientCAs = fingerprints(clients)
	// The client port trusts members, too.
	own := slices.DeleteFunc(clients, func(c *x509.Certificate) bool { return slices.ContainsFunc(servers, c.Equal) })
	if len(own) > 0 {
		all.AuthorityEnds[ClientAuthority] = firstEnd(own)
	}
	return all
}

// firstEnd is when the first of certificates ends.
func firstEnd(all []*x509.Certificate) time.Time {
	return slices.MinFunc(all, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) }).NotAfter.UTC()
}

// authoritiesIn returns the certificates in a file; like etcd it passes over what is none.
func authoritiesIn(data []byte) []*x509.Certificate {
	var all []*x509.Certificate
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return all
		}
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			all = append(all, cert)
		}
	}
}

// signerOf is the authority that signed a certificate; nil: it is none of these.
func signerOf(leaf *x509.Certificate, cas []*x509.Certificate) *x509.Certificate {
	for _, ca := range cas {
		roots := x509.NewCertPool()
		roots.AddCert(ca)
		usages := []x509.ExtKeyUsage{x509.ExtKeyUsageAny}
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: leaf.NotBefore, KeyUsages: usages}); err == nil {
			return ca
		}
	}
	return nil
}

func fingerprints(cas []*x509.Certificate) []string {
	var all []string
	for _, ca := range cas {
		all = append(all, Fingerprint(ca))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Fingerprint returns the SHA-256 of a certificate, in hex.
func Fingerprint(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	return hex.EncodeToString(sum[:])
}

// whichIsDamaged says why a certificate and a key are no pair. Errors of the standard library are not quoted: they may
// hold a part of a key.
func whichIsDamaged(cert, key string, byPath map[string][]byte) CertificateFiles {
	what := fmt.Sprintf("%s is not the key of %s", key, cert)
	if block, _ := pem.Decode(byPath[cert]); block == nil {
		what = cert + " contains no certificate"
	} else if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		what = cert + " contains no certificate"
	} else if block, _ := pem.Decode(byPath[key]); block == nil {
		what = key + " contains no key"
	}
	return CertificateFiles{Damage: what}
}
