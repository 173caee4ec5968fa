package sim

import (
	"context"
	"crypto/tls"

	"cke"
)

// authority issues certificates; see certificate.
type authority struct{ d *Daemon }

var _ cke.Authority = authority{}

// Ensure implements cke.Authority.
func (a authority) Ensure(ctx context.Context) error {
	return a.d.call(ctx, Call{Port: "ca", Name: "Ensure", Writes: true}, nil, cke.Node{}, func(bool) error { return nil })
}

// ClientTLS implements cke.Authority.
func (a authority) ClientTLS(context.Context) (*tls.Config, error) {
	return &tls.Config{MinVersion: tls.VersionTLS12}, nil
}
