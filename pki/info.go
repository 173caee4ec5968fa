package pki

import (
	"context"
	"crypto/x509"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"cke"
)

// CAInfo describes one CA.
type CAInfo struct {
	// Name is peer, server or client.
	Name       cke.AuthorityName `json:"name"`
	Generation int               `json:"generation"`
	// Signs: it issues certificates. Trusted: members must trust it.
	Signs    bool      `json:"signs"`
	Trusted  bool      `json:"trusted"`
	NotAfter time.Time `json:"notAfter"`
	// Fingerprint is the SHA-256 of the certificate, in hex.
	Fingerprint string `json:"fingerprint"`
	// PEM is the certificate.
	PEM string `json:"-"`
}

// CAs describes the CAs of a record: peer, server, client, each followed by its replacement. It creates none; a
// cluster that was never bootstrapped has none.
func (a *Authority) CAs(ctx context.Context, rec cke.Authorities) ([]CAInfo, error) {
	var infos []CAInfo
	for _, name := range cke.AuthorityNames() {
		r := rec.Of(name)
		for _, is := range r.Kept() {
			trusted := slices.ContainsFunc(r.Trusted(), func(c cke.CA) bool { return c.Generation == is.Generation })
			infos = append(infos, CAInfo{Name: name, Generation: is.Generation, Signs: r.Signs().Generation == is.Generation, Trusted: trusted})
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	for i := range infos {
		g.Go(func() error {
			c, err := a.readCA(ctx, infos[i].Name, infos[i].Generation)
			if errors.Is(err, cke.ErrNotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			infos[i].NotAfter, infos[i].Fingerprint, infos[i].PEM = c.cert.NotAfter, c.fingerprint(), string(c.pem)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(infos, func(i CAInfo) bool { return i.Fingerprint == "" }), nil
}

// ServerCA returns the certificates, in PEM, by which clients trust the members. It creates none: ErrNotFound if the
// cluster was never bootstrapped.
func (a *Authority) ServerCA(ctx context.Context, rec cke.Authorities) ([]byte, error) {
	var i issuer
	for _, is := range rec.Server.Trusted() {
		c, err := a.readCA(ctx, cke.ServerAuthority, is.Generation)
		if err != nil {
			return nil, err
		}
		i.trusted = append(i.trusted, c)
	}
	return i.bundle(), nil
}

// SignsClient reports whether a client's certificate was signed by the CA that signs them now.
func (a *Authority) SignsClient(ctx context.Context, rec cke.Authorities, leaf *x509.Certificate) (bool, error) {
	c, err := a.readCA(ctx, cke.ClientAuthority, rec.Client.Signs().Generation)
	if err != nil {
		return false, err
	}
	return leaf.CheckSignatureFrom(c.cert) == nil, nil
}
