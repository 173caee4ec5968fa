package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"

	"cke"
)

const (
	certBlock = "CERTIFICATE"
	keyBlock  = "PRIVATE KEY" // PKCS #8
)

// ca is a certificate authority. It does not change.
type ca struct {
	name cke.AuthorityName
	cert *x509.Certificate
	pem  []byte        // the certificate
	key  crypto.Signer // an ECDSA key; that of an old cluster may be an RSA key
}

func newCA(name cke.AuthorityName, cluster string, generation int, now time.Time) (*ca, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	subject := cluster + " etcd " + string(name) + " CA"
	if generation > 0 {
		subject += fmt.Sprintf(" %d", generation+1)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: commonName(subject), Organization: []string{"cke"}},
		NotBefore:    now.Add(-skew), NotAfter: now.Add(caLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLen: 0, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of an authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parse the signed certificate: %w", err)
	}
	return &ca{name: name, cert: cert, pem: encodePEM(certBlock, der), key: key}, nil
}

// encode returns the certificate and the key, in PEM, as they are stored.
func (c *ca) encode() ([]byte, error) {
	key, err := encodeKey(c.key)
	if err != nil {
		return nil, err
	}
	return append(bytes.Clone(c.pem), key...), nil
}

// parseCA undoes encode and is content with nothing less. Its errors never quote the value.
func parseCA(name cke.AuthorityName, value []byte) (*ca, error) {
	c := &ca{name: name}
	for rest := value; ; {
		block, next := pem.Decode(rest)
		if block == nil {
			if len(bytes.TrimSpace(rest)) > 0 {
				return nil, errors.New("it contains more than PEM, or a truncated block")
			}
			break
		}
		rest = next
		switch {
		case block.Type == certBlock && c.cert == nil:
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, errors.New("the certificate cannot be read")
			}
			c.cert, c.pem = cert, encodePEM(certBlock, block.Bytes)
		case block.Type == keyBlock && c.key == nil:
			key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			if err != nil {
				return nil, errors.New("the key cannot be read")
			}
			switch k := key.(type) {
			case *ecdsa.PrivateKey:
				c.key = k
			case *rsa.PrivateKey:
				c.key = k
			default:
				return nil, fmt.Errorf("the key is a %T, not an ECDSA or RSA key", key)
			}
		default:
			return nil, fmt.Errorf("it contains a duplicate or unexpected block %q", block.Type)
		}
	}
	switch {
	case c.cert == nil:
		return nil, errors.New("the certificate is missing")
	case c.key == nil:
		return nil, errors.New("the key is missing")
	case !c.cert.IsCA:
		return nil, errors.New("the certificate is not that of a CA")
	case !belongs(c.key, c.cert):
		return nil, errors.New("the key does not belong to the certificate")
	}
	return c, nil
}

// belongs reports whether a key is that of a certificate.
func belongs(key crypto.Signer, cert *x509.Certificate) bool {
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(cert.PublicKey)
}

// same reports whether two CAs are one.
func (c *ca) same(other *ca) bool { return bytes.Equal(c.cert.Raw, other.cert.Raw) }

// fingerprint is the SHA-256 of the certificate, in hex.
func (c *ca) fingerprint() string { return cke.Fingerprint(c.cert) }

// record is what is put on record of it.
func (c *ca) record(generation int) cke.CA {
	return cke.CA{Generation: generation, Fingerprint: c.fingerprint(), NotAfter: c.cert.NotAfter}
}

// pool holds all that are trusted.
func (i issuer) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	for _, c := range i.trusted {
		pool.AddCert(c.cert)
	}
	return pool
}

// bundle is the certificates of all that are trusted.
func (i issuer) bundle() []byte {
	var all []byte
	for _, c := range i.trusted {
		all = append(all, c.pem...)
	}
	return all
}

// newSerial is random and positive, of 128 bits.
func newSerial() (*big.Int, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 128))
	if err != nil {
		return nil, fmt.Errorf("generate a serial number: %w", err)
	}
	return n.Add(n, big.NewInt(1)), nil
}

// commonName cuts a name to the 64 characters that X.509 allows.
func commonName(s string) string { return s[:min(len(s), 64)] }

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return encodePEM(keyBlock, der), nil
}

func encodePEM(block string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: block, Bytes: der})
}
