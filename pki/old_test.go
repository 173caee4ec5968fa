package pki_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/pki"
)

// oldCA is the authority of an old cluster, as tools write it.
func oldCA(t *testing.T, key crypto.Signer) (certificate []byte) {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "etcd-ca"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// A peer authority that is handed over signs for the members of cke, whatever kind of key it has, and is replaced by one of cke.
func TestOldAuthority_SignsAsGenerationZero(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ec, err := x509.MarshalECPrivateKey(ecKey)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(rsaKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kind string
		key  crypto.Signer
		der  []byte
	}{
		{"RSA PRIVATE KEY", rsaKey, x509.MarshalPKCS1PrivateKey(rsaKey)}, {"PRIVATE KEY", rsaKey, pkcs8}, {"EC PRIVATE KEY", ecKey, ec},
	} {
		certificate := oldCA(t, c.key)
		key := pem.EncodeToMemory(&pem.Block{Type: c.kind, Bytes: c.der})
		value, err := pki.OldAuthority(certificate, key)
		if err != nil {
			t.Fatal(c.kind, err)
		}
		secrets := newMemory()
		if err := secrets.CreateSecret(context.Background(), cke.AuthoritySecret(cke.PeerAuthority, 0), value); err != nil {
			t.Fatal(err)
		}
		a := pki.New(secrets, "prod", time.Now)
		files, err := a.MemberFiles(context.Background(), cke.Join{Node: cke.Node{Address: "10.0.0.1"}, Member: "n1"}, cke.Authorities{})
		if err != nil {
			t.Fatal(c.kind, err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(certificate)
		for _, f := range files {
			if f.Path == cke.PeerCAFile && string(f.Data) != string(certificate) {
				t.Errorf("%s: members trust another authority", c.kind)
			}
			if f.Path != cke.PeerCertFile {
				continue
			}
			block, _ := pem.Decode(f.Data)
			leaf, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
				t.Errorf("%s: %v", c.kind, err)
			}
		}
		if next, err := a.CreateCA(context.Background(), cke.PeerAuthority, 1); err != nil || next.Generation != 1 {
			t.Error(c.kind, next, err)
		}
		if _, err := pki.OldAuthority(oldCA(t, must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))), key); err == nil || strings.Contains(err.Error(), string(key)) {
			t.Errorf("%s: a key of another authority: %v", c.kind, err)
		}
	}
	for _, wrong := range [][2]string{{"", ""}, {"x", "y"}, {string(oldCA(t, ecKey)), "no key"}} {
		if _, err := pki.OldAuthority([]byte(wrong[0]), []byte(wrong[1])); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestOldClient_NeedsAnAuthorityAndAPairThatFits(t *testing.T) {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	other := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	encode := func(k *ecdsa.PrivateKey) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: must(x509.MarshalECPrivateKey(k))})
	}
	certificate := oldCA(t, key)
	for _, c := range []struct {
		name                        string
		certificate, key, authority []byte
		pairs                       int // -1: refused
	}{
		{"all", certificate, encode(key), certificate, 1},
		{"no certificate of cke", nil, nil, certificate, 0},
		{"no authority", certificate, encode(key), nil, -1},
		{"another key", certificate, encode(other), certificate, -1},
		{"no key", certificate, nil, certificate, -1},
	} {
		value, err := pki.OldClient(c.certificate, c.key, c.authority)
		if (err != nil) != (c.pairs < 0) {
			t.Errorf("%s: %v", c.name, err)
		}
		if err != nil {
			continue
		}
		config, err := pki.OldClientTLS(value)
		if err != nil || len(config.Certificates) != c.pairs {
			t.Errorf("%s: %+v, %v", c.name, config, err)
		}
	}
}
