package pki_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cke"
)

func TestMemberFiles_AreTheSevenWithTheirModes(t *testing.T) {
	a, _, _ := newAuthority()
	files, err := a.MemberFiles(t.Context(), join("10.0.0.11", "cp1"), cke.Authorities{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		got = append(got, fmt.Sprintf("%s %o", f.Path, f.Mode))
	}
	want := []string{
		"pki/peer-ca.crt 644", "pki/peer.crt 644", "pki/peer.key 600", "pki/client-ca.crt 644",
		"pki/server.crt 644", "pki/server.key 600", "pki/server-ca.crt 644",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestMemberFiles_ChainsVerifyForWhatTheyAreFor(t *testing.T) {
	a, _, c := newAuthority()
	files := filesByPath(t, a, "10.0.0.11", "cp1.example.com")
	for _, chain := range []struct{ ca, cert, key string }{
		{cke.PeerCAFile, cke.PeerCertFile, cke.PeerKeyFile}, {cke.ServerCAFile, cke.ServerCertFile, cke.ServerKeyFile},
	} {
		ca, cert := parseCert(t, files[chain.ca].Data), parseCert(t, files[chain.cert].Data)
		if _, err := tls.X509KeyPair(files[chain.cert].Data, files[chain.key].Data); err != nil {
			t.Errorf("%s: %v", chain.cert, err)
		}
		if !ca.IsCA || ca.MaxPathLen != 0 || !ca.MaxPathLenZero {
			t.Errorf("%s: path length %d", chain.ca, ca.MaxPathLen)
		}
		if key, ok := cert.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() {
			t.Errorf("%s: key %T", chain.cert, cert.PublicKey)
		}
		if n := cert.SerialNumber.BitLen(); n < 90 || n > 129 || cert.SerialNumber.Sign() <= 0 {
			t.Errorf("%s: serial number of %d bits", chain.cert, n)
		}
		if !strings.Contains(ca.Subject.CommonName, "prod") || !strings.Contains(cert.Subject.CommonName, "prod") {
			t.Errorf("subjects %q, %q do not name the cluster", ca.Subject, cert.Subject)
		}
		if before := c.Now().Sub(cert.NotBefore); before < 5*time.Minute || before > 61*time.Minute {
			t.Errorf("%s holds from %v before now", chain.cert, before)
		}
		if life := cert.NotAfter.Sub(c.Now()); life < 364*24*time.Hour || life > 366*24*time.Hour {
			t.Errorf("%s holds for %v", chain.cert, life)
		}
		pool := x509.NewCertPool()
		pool.AddCert(ca)
		for _, name := range []string{"10.0.0.11", "127.0.0.1", "::1", "localhost", "cp1.example.com"} {
			for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
				_, err := cert.Verify(x509.VerifyOptions{Roots: pool, DNSName: name, KeyUsages: []x509.ExtKeyUsage{usage}, CurrentTime: c.Now()})
				if err != nil {
					t.Errorf("%s for %s: %v", chain.cert, name, err)
				}
			}
		}
		if err := cert.VerifyHostname("10.0.0.12"); err == nil {
			t.Errorf("%s is good for another address", chain.cert)
		}
		if _, err := cert.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}}); err == nil {
			t.Errorf("%s is good for anything", chain.cert)
		}
	}
}

func TestMemberFiles_NamesFollowTheNode(t *testing.T) {
	a, _, _ := newAuthority()
	for _, c := range []struct {
		address, hostname string
		names, addresses  []string
	}{
		{"10.0.0.11", "cp1", []string{"localhost", "cp1"}, []string{"10.0.0.11", "127.0.0.1", "::1"}},
		{"10.0.0.11", "", []string{"localhost"}, []string{"10.0.0.11", "127.0.0.1", "::1"}},
		{"10.0.0.11", "10.0.0.11", []string{"localhost"}, []string{"10.0.0.11", "127.0.0.1", "::1"}},
		{"10.0.0.11", "no_dns_name", []string{"localhost"}, []string{"10.0.0.11", "127.0.0.1", "::1"}},
		{"2001:db8::1", "cp1", []string{"localhost", "cp1"}, []string{"2001:db8::1", "127.0.0.1", "::1"}},
		{"127.0.0.1", "localhost", []string{"localhost"}, []string{"127.0.0.1", "::1"}},
	} {
		cert := parseCert(t, filesByPath(t, a, c.address, c.hostname)[cke.PeerCertFile].Data)
		var addresses []string
		for _, ip := range cert.IPAddresses {
			addresses = append(addresses, ip.String())
		}
		if diff := cmp.Diff(c.names, cert.DNSNames); diff != "" {
			t.Errorf("%s %s: %s", c.address, c.hostname, diff)
		}
		if diff := cmp.Diff(c.addresses, addresses); diff != "" {
			t.Errorf("%s %s: %s", c.address, c.hostname, diff)
		}
	}
	if _, err := a.MemberFiles(t.Context(), join("cp1.example.com", "cp1"), cke.Authorities{}); err == nil {
		t.Error("a node without IP address was given certificates")
	}
}

func TestMemberFiles_AreFreshEveryTime(t *testing.T) {
	a, _, _ := newAuthority()
	one, two := filesByPath(t, a, "10.0.0.11", "cp1"), filesByPath(t, a, "10.0.0.11", "cp1")
	for path := range one {
		same := string(one[path].Data) == string(two[path].Data)
		if isCA := strings.Contains(path, "-ca"); same != isCA {
			t.Errorf("%s: same twice: %v", path, same)
		}
	}
}

func TestIssueClient_IsForClientsOnly(t *testing.T) {
	a, _, c := newAuthority()
	certPEM, keyPEM, caPEM, notAfter, err := a.IssueClient(t.Context(), cke.Authorities{}, "alice", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(certPEM, keyPEM); err != nil {
		t.Error(err)
	}
	cert := parseCert(t, certPEM)
	if cert.Subject.CommonName != "alice" {
		t.Errorf("common name %q", cert.Subject.CommonName)
	}
	if !notAfter.Equal(cert.NotAfter) || notAfter.Sub(c.Now()).Round(time.Second) > time.Hour {
		t.Errorf("holds until %v, certificate says %v", notAfter, cert.NotAfter)
	}
	files := filesByPath(t, a, "10.0.0.11", "cp1")
	if string(caPEM) != string(files[cke.ServerCAFile].Data) {
		t.Error("the CA to trust members by is not the server CA")
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(files[cke.ClientCAFile].Data)
	if _, err := cert.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err == nil {
		t.Error("a client certificate is good for a server")
	}
}

func TestIssueClient_RefusesNamesThatMislead(t *testing.T) {
	a, _, _ := newAuthority()
	for _, name := range []string{"", "cke", " alice", "ali\nce", strings.Repeat("a", 65)} {
		if _, _, _, _, err := a.IssueClient(t.Context(), cke.Authorities{}, name, time.Hour); err == nil {
			t.Errorf("%q was given a certificate", name)
		}
	}
	if _, _, _, _, err := a.IssueClient(t.Context(), cke.Authorities{}, "alice", 0); err == nil {
		t.Error("a certificate without life was issued")
	}
}

func TestIssue_LeavesNeverOutliveTheirCA(t *testing.T) {
	a, _, c := newAuthority()
	if err := a.Ensure(t.Context(), cke.Authorities{}); err != nil {
		t.Fatal(err)
	}
	c.Move((10*365 - 30) * 24 * time.Hour)
	files := filesByPath(t, a, "10.0.0.11", "cp1")
	if ca, cert := parseCert(t, files[cke.PeerCAFile].Data), parseCert(t, files[cke.PeerCertFile].Data); cert.NotAfter.After(ca.NotAfter) {
		t.Errorf("holds until %v, its CA until %v", cert.NotAfter, ca.NotAfter)
	}
}

func TestIssue_RefusesOutsideTheCAsLife(t *testing.T) {
	for name, move := range map[string]time.Duration{"expired": 11 * 365 * 24 * time.Hour, "check the clock": -48 * time.Hour} {
		a, _, c := newAuthority()
		if err := a.Ensure(t.Context(), cke.Authorities{}); err != nil {
			t.Fatal(err)
		}
		c.Move(move)
		if _, err := a.MemberFiles(t.Context(), join("10.0.0.11", "cp1"), cke.Authorities{}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("clock moved by %v: %v", move, err)
		}
	}
}

func TestClientTLS_RenewsItsCertificateBeforeItEnds(t *testing.T) {
	a, _, c := newAuthority()
	config, err := a.ClientTLS(t.Context(), cke.Authorities{})
	if err != nil {
		t.Fatal(err)
	}
	if config.MinVersion < tls.VersionTLS12 || config.InsecureSkipVerify {
		t.Error("TLS is too weak")
	}
	shown := func() *x509.Certificate {
		cert, err := config.GetClientCertificate(&tls.CertificateRequestInfo{})
		if err != nil {
			t.Fatal(err)
		}
		return cert.Leaf
	}
	first := shown()
	if first.Subject.CommonName != "cke" {
		t.Errorf("common name %q", first.Subject.CommonName)
	}
	c.Move(time.Hour)
	if !shown().Equal(first) {
		t.Error("renewed without need")
	}
	for range 20 {
		c.Move(6 * time.Hour)
		if now := shown(); c.Now().After(now.NotAfter) || c.Now().Before(now.NotBefore) {
			t.Fatalf("shows a certificate of %v–%v at %v", now.NotBefore, now.NotAfter, c.Now())
		}
	}
	c.Move(-5 * 24 * time.Hour) // a clock that was set back
	if now := shown(); c.Now().Before(now.NotBefore) {
		t.Errorf("shows a certificate that holds from %v on at %v", now.NotBefore, c.Now())
	}
}

// parseCert returns the first certificate in PEM.
func parseCert(t *testing.T, data []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(data)
	if block == nil {
		t.Fatalf("no PEM: %q", data)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}
