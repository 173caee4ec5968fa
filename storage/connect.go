package storage

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"slices"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"cke"
	"cke/clusterfile"
	"cke/storage/internal/local"
)

// embeddedClient searches for the daemon on this host before any client is made, since "not there" is an answer.
func embeddedClient(ctx context.Context, c Config, cfg *clientv3.Config) error {
	dir := c.Embedded.DataDir
	conn, err := local.Dial(ctx, dir)
	if err != nil {
		e := &cke.Error{Code: cke.CodeStore, Try: "systemctl start cke", Err: err,
			What: fmt.Sprintf("cke is not running on this host: nothing answers at %s/%s", dir, local.SocketName)}
		if errors.Is(err, fs.ErrPermission) {
			e.What = fmt.Sprintf("access to cke on this host is denied: %s/%s", dir, local.SocketName)
			e.Facts, e.Try = []string{"only root and the user that runs cke have access"}, ""
		}
		return e
	}
	conn.Close()
	cfg.Endpoints = []string{"unix:cke"}
	cfg.DialOptions = append(cfg.DialOptions, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return local.Dial(ctx, dir)
	}))
	return nil
}

// externalClient searches for an endpoint that can be spoken to before any client is made: clientv3 tries on and keeps
// the reason to itself.
func externalClient(ctx context.Context, c Config, cfg *clientv3.Config) error {
	cfg.Endpoints = c.Endpoints
	cfg.DialKeepAliveTime, cfg.DialKeepAliveTimeout = keepAlive, keepAliveLimit
	cfg.Username = c.Username
	if c.PasswordFile != "" {
		password, err := clusterfile.ReadPassword(c.PasswordFile)
		if err != nil {
			return &cke.Error{Code: cke.CodeConfig, What: "read password_file of the store", Err: err, Unchanged: true}
		}
		cfg.Password = password
	}
	var err error
	if cfg.TLS, err = c.TLS.config(); err != nil {
		return err
	}
	return reach(ctx, c.Endpoints, cfg.TLS)
}

// reach returns once one of the endpoints can be spoken to. If none can, it says why, of each.
func reach(ctx context.Context, endpoints []string, t *tls.Config) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan error, len(endpoints))
	for _, e := range endpoints {
		wg.Go(func() { answers <- greet(ctx, e, t) })
	}
	var why []string
	var last error
	for range endpoints {
		if last = <-answers; last == nil {
			return nil
		}
		why = append(why, last.Error())
	}
	if errors.Is(last, context.Canceled) {
		return fmt.Errorf("open the store: %w", last)
	}
	slices.Sort(why)
	return &cke.Error{Code: cke.CodeStore, What: "the store cannot be reached", Facts: why, Unchanged: true}
}

// greet connects to one endpoint and, where the URL says so, agrees on TLS.
func greet(ctx context.Context, endpoint string, t *tls.Config) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return err
	}
	var conn net.Conn
	if u.Scheme == "https" {
		t = t.Clone()
		if t == nil {
			t = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		t.NextProtos = []string{"h2"}
		conn, err = (&tls.Dialer{Config: t}).DialContext(ctx, "tcp", u.Host)
	} else {
		conn, err = new(net.Dialer).DialContext(ctx, "tcp", u.Host)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return fmt.Errorf("%s: %w", endpoint, err)
	}
	return conn.Close()
}

// config is nil for the zero value: the system's authorities then decide about https endpoints.
func (t TLS) config() (*tls.Config, error) {
	if t == (TLS{}) {
		return nil, nil
	}
	faulty := func(what string, err error) error {
		return &cke.Error{Code: cke.CodeConfig, What: "store tls: " + what, Err: err, Unchanged: true}
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		b, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, faulty("read ca_file", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(b) {
			return nil, faulty("no certificate in ca_file "+t.CAFile, nil)
		}
	}
	if t.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, faulty("load cert_file and key_file", err)
		}
		cfg.Certificates = []tls.Certificate{cert}
	}
	return cfg, nil
}
