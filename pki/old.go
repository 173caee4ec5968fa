package pki

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// OldClient returns the secret from which OldClientTLS reads what cke shows the members of an old cluster: PEM of a client
// certificate with its key, either empty if there is none, and of the authorities of their server certificates.
func OldClient(certificate, key, authorities []byte) ([]byte, error) {
	value := append(bytes.Join([][]byte{bytes.TrimSpace(certificate), bytes.TrimSpace(key)}, []byte("\n")), "\n-\n"...)
	value = append(value, authorities...)
	_, err := OldClientTLS(value)
	return value, err
}

// OldClientTLS returns what cke shows the members of an old cluster; see OldClient. Its errors never quote the value.
func OldClientTLS(value []byte) (*tls.Config, error) {
	own, trusted, _ := bytes.Cut(value, []byte("\n-\n"))
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	if !c.RootCAs.AppendCertsFromPEM(trusted) {
		return nil, errors.New("there is no certificate of an authority")
	}
	if len(bytes.TrimSpace(own)) > 0 {
		pair, err := tls.X509KeyPair(own, own)
		if err != nil {
			return nil, fmt.Errorf("the client certificate and its key do not fit: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// OldAuthority returns the secret of an authority, as cke stores its own, from PEM of its certificate and its key, which may be an ECDSA
// or RSA key. Its errors never quote the key.
func OldAuthority(certificate, key []byte) ([]byte, error) {
	block, _ := pem.Decode(certificate)
	if block == nil || block.Type != certBlock {
		return nil, errors.New("there is no certificate in PEM")
	}
	k, err := oldKey(key)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return nil, errors.New("the key is of an unknown kind")
	}
	value := append(encodePEM(certBlock, block.Bytes), encodePEM(keyBlock, der)...)
	_, err = parseCA("", value)
	return value, err
}

// oldKey reads a key in one of the forms that tools write.
func oldKey(text []byte) (crypto.PrivateKey, error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if !strings.HasSuffix(block.Type, keyBlock) {
			continue
		}
		if k, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			return k, nil
		}
		if k, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
			return k, nil
		}
		if k, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
			return k, nil
		}
	}
	return nil, errors.New("there is no private key in PEM that can be read")
}
