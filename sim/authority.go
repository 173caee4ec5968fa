package sim

import (
	"context"
	"crypto/tls"

	"cke"
)

// authority issues certificates that are names of files only.
type authority struct{ d *Daemon }

var _ cke.Authority = authority{}

// certificates are the files without which etcd does not start.
var certificates = []string{"certs/peer.crt", "certs/peer.key", "certs/server.crt", "certs/server.key"}

// Ensure implements cke.Authority.
func (a authority) Ensure(ctx context.Context) error {
	return a.d.call(ctx, Call{Port: "ca", Name: "Ensure", Writes: true}, nil, cke.Node{}, func(bool) error { return nil })
}

// MemberFiles implements cke.Authority.
func (a authority) MemberFiles(ctx context.Context, j cke.Join) (files []cke.File, err error) {
	err = a.d.call(ctx, Call{Port: "ca", Name: "MemberFiles"}, nil, cke.Node{}, func(bool) error {
		for _, path := range certificates {
			files = append(files, cke.File{Path: path, Mode: 0o600})
		}
		return nil
	})
	return files, err
}

// ClientTLS implements cke.Authority.
func (a authority) ClientTLS(context.Context) (*tls.Config, error) {
	return &tls.Config{MinVersion: tls.VersionTLS12}, nil
}
