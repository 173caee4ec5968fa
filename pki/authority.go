package pki

import (
	"context"
	"crypto/tls"
	"time"

	"cke"
)

// Authority issues the certificates of one cluster.
type Authority struct {
	secrets cke.Secrets
	cluster string
	now     func() time.Time
}

var _ cke.Authority = (*Authority)(nil)

// CAInfo tells of one CA.
type CAInfo struct {
	Name        string    `json:"name"`
	NotAfter    time.Time `json:"notAfter"`
	Fingerprint string    `json:"fingerprint"`
}

// New returns the authority of one cluster.
func New(secrets cke.Secrets, cluster string, now func() time.Time) *Authority {
	return &Authority{secrets: secrets, cluster: cluster, now: now}
}

func (a *Authority) Ensure(ctx context.Context) error { panic("todo") }
func (a *Authority) MemberFiles(ctx context.Context, j cke.Join) ([]cke.File, error) { panic("todo") }
func (a *Authority) ClientTLS(ctx context.Context) (*tls.Config, error) { panic("todo") }
func (a *Authority) IssueClient(ctx context.Context, name string, ttl time.Duration) (certPEM, keyPEM, caPEM []byte, notAfter time.Time, err error) {
	panic("todo")
}
func (a *Authority) CAs(ctx context.Context) ([]CAInfo, error) { panic("todo") }
func (a *Authority) ServerCA(ctx context.Context) ([]byte, error) { panic("todo") }
