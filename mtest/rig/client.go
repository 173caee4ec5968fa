package rig

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"cke"
	"cke/mtest/lab"
)

// ClientTLS asks ckecli for a client certificate, as an operator would, and returns what a client needs.
func (r *Rig) ClientTLS(ctx context.Context) (*tls.Config, error) {
	dir := filepath.Join(r.Dir, "client")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if _, err := r.Do(ctx, "etcd", "issue", "tester", "--overwrite", "--out", dir); err != nil {
		return nil, err
	}
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "tester.crt"), filepath.Join(dir, "tester.key"))
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("ca.crt holds no certificate")
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

// Client returns an etcd client of one endpoint, so that a dead one is not hidden by others. It tries again quickly.
func Client(url string, tls *tls.Config) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: []string{url}, TLS: tls, Logger: zap.NewNop(),
		BackoffWaitBetween: 5 * time.Millisecond,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 5 * time.Millisecond, Multiplier: 1.2, MaxDelay: 25 * time.Millisecond},
			MinConnectTimeout: time.Second,
		})},
	})
}

// PutThrough writes one key through one member, trying until it succeeds or ctx ends. Each try has a second.
func PutThrough(ctx context.Context, c *clientv3.Client, key, value string) error {
	for {
		try, cancel := context.WithTimeout(ctx, time.Second)
		_, err := c.Put(try, key, value)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("put through %v: %w", c.Endpoints(), errors.Join(ctx.Err(), err))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// URL is where clients reach the member on a node.
func URL(n lab.Node) string {
	return cke.EtcdOptions{ClientPort: cke.DefaultClientPort}.ClientURL(cke.Node{Address: n.Address})
}
