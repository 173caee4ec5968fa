package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/cybozu-go/well"

	"cke"
	"cke/clusterfile"
	"cke/server"
)

// readLimit bounds how long a request's header may take.
const readLimit = 10 * time.Second

// serveHTTP serves the API. An address that is taken, or a certificate that cannot be read, is waited for.
func (p *process) serveHTTP(ctx context.Context, config cke.Config, page http.Handler) error {
	api := server.API{Version: version, Metrics: p.metrics, Statuses: p.statuses, Health: p.health, Page: page}
	var listener net.Listener
	var handler http.Handler
	for why := ""; ; {
		var err error
		if listener, handler, err = listenHTTP(config.HTTP, api.Handler(), p.fleetLock(config.HTTP.FleetLock)); err == nil {
			break
		}
		if why != err.Error() {
			why = err.Error()
			p.log.Error("HTTP is not served", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retryEvery):
		}
	}
	p.log.Info("HTTP is served", "address", listener.Addr().String())
	s := &well.HTTPServer{Server: &http.Server{Handler: handler, ReadHeaderTimeout: readLimit}, ShutdownTimeout: time.Second}
	return s.Serve(listener) // which continues by itself
}

// serveHealth serves /health until the returned function is called, at the address of --http or the default one: while
// the configuration cannot be read, the address and the clients that it names are not known. Only this machine may ask.
func (p *process) serveHealth(o options) (end func()) {
	address := cke.DefaultListen
	if (cke.HTTPConfig{Listen: o.http}).Loopback() {
		address = o.http
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		p.log.Error("HTTP is not served", "error", err)
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	api := server.API{Version: version, Statuses: p.statuses, Health: p.health, Page: p.page(ctx)}
	s := &http.Server{Handler: api.Handler(), ReadHeaderTimeout: readLimit}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // ends with Close
	}()
	return func() {
		cancel()
		s.Close()
		<-done
	}
}

// readPassword returns the password in a password_file, which must have one.
func readPassword(file string) (string, error) {
	password, err := clusterfile.ReadPassword(file)
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	if password = strings.TrimRight(password, "\r"); password == "" {
		return "", fmt.Errorf("%s has no password in it", file)
	}
	return password, nil
}

// listenHTTP opens the address, with TLS and passwords where they are configured. That of FleetLock opens nothing else, and no other one
// opens FleetLock.
func listenHTTP(c cke.HTTPConfig, h, fleetLock http.Handler) (net.Listener, http.Handler, error) {
	if c.BasicAuth.Username != "" {
		password, err := readPassword(c.BasicAuth.PasswordFile)
		if err != nil {
			return nil, nil, err
		}
		h = withPassword(h, c.BasicAuth.Username, password)
	}
	if c.FleetLock.Set() {
		password, err := readPassword(c.FleetLock.PasswordFile)
		if err != nil {
			return nil, nil, err
		}
		mux := http.NewServeMux()
		mux.Handle("/", h)
		for _, path := range []string{server.FleetLockAsk, server.FleetLockRelease} {
			mux.Handle(path, withPassword(fleetLock, c.FleetLock.Username, password))
		}
		h = mux
	}
	var tlsConfig *tls.Config
	if c.TLS.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(c.TLS.CertFile, c.TLS.KeyFile)
		if err != nil {
			return nil, nil, fmt.Errorf("load the certificate: %w", err)
		}
		tlsConfig = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
		if c.TLS.ClientCAFile != "" {
			pem, err := os.ReadFile(c.TLS.ClientCAFile)
			if err != nil {
				return nil, nil, fmt.Errorf("read the client CA: %w", err)
			}
			tlsConfig.ClientCAs, tlsConfig.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
			if !tlsConfig.ClientCAs.AppendCertsFromPEM(pem) {
				return nil, nil, fmt.Errorf("%s has no certificate in it", c.TLS.ClientCAFile)
			}
		}
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return nil, nil, err
	}
	l = impatient{l}
	if tlsConfig != nil {
		l = tls.NewListener(l, tlsConfig)
	}
	return l, h, nil
}

// withPassword asks for one user name and password; both are compared in constant time.
func withPassword(h http.Handler, user, password string) http.Handler {
	wantUser, wantPassword := sha256.Sum256([]byte(user)), sha256.Sum256([]byte(password))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, p, _ := r.BasicAuth()
		gotUser, gotPassword := sha256.Sum256([]byte(u)), sha256.Sum256([]byte(p))
		if subtle.ConstantTimeCompare(gotUser[:], wantUser[:])&subtle.ConstantTimeCompare(gotPassword[:], wantPassword[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="cke"`)
			http.Error(w, "user name and password are required", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// fleetLock answers agents that ask for reboots.
func (p *process) fleetLock(c cke.FleetLockConfig) http.Handler {
	f := server.FleetLock{Store: lockStore{p}, Now: time.Now, Log: p.log}
	for _, s := range c.Proxies {
		f.Proxies = append(f.Proxies, netip.MustParsePrefix(s)) // clusterfile has checked it
	}
	return f.Handler()
}

// health says what this daemon waits for. One whose store does not answer can do nothing, though it had begun to.
func (p *process) health(ctx context.Context) server.Health {
	h := p.waits.health()
	store := p.store.Load()
	if h.Status != "ok" || store == nil {
		return h
	}
	if _, err := store.Clusters(ctx); err != nil {
		return server.Health{Status: "waiting", Waiting: err.Error(), Code: cke.CodeOf(err)}
	}
	return h
}

// statuses reads the stored status of every cluster; a cluster of which nothing was told yet is left out.
func (p *process) statuses(ctx context.Context) ([]cke.Status, error) {
	store, err := p.opened()
	if err != nil {
		return nil, err
	}
	names, err := store.Clusters(ctx)
	if err != nil {
		return nil, err
	}
	all := []cke.Status{}
	for _, name := range names {
		s, err := store.Status(ctx, name)
		if errors.Is(err, cke.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}
