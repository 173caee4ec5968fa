package pki

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"cke"
)

// CAInfo tells of one CA.
type CAInfo struct {
	// Name is peer, server or client.
	Name     string    `json:"name"`
	NotAfter time.Time `json:"notAfter"`
	// Fingerprint is the SHA-256 of the certificate, in hex.
	Fingerprint string `json:"fingerprint"`
}

// CAs tells of the CAs that the store holds now: peer, server, client. It makes none; a cluster that was never
// bootstrapped has none.
func (a *Authority) CAs(ctx context.Context) ([]CAInfo, error) {
	names := []string{peerCA, serverCA, clientCA}
	infos := make([]CAInfo, len(names))
	g, ctx := errgroup.WithContext(ctx)
	for i, name := range names {
		g.Go(func() error {
			c, err := a.readCA(ctx, name)
			if errors.Is(err, cke.ErrNotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			infos[i] = CAInfo{Name: name, NotAfter: c.cert.NotAfter, Fingerprint: c.fingerprint()}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(infos, func(i CAInfo) bool { return i.Name == "" }), nil
}

// ServerCA returns the certificate, in PEM, by which clients trust the members. It makes none: ErrNotFound when
// the cluster was never bootstrapped.
func (a *Authority) ServerCA(ctx context.Context) ([]byte, error) {
	c, err := a.readCA(ctx, serverCA)
	if err != nil {
		return nil, err
	}
	return bytes.Clone(c.pem), nil
}
