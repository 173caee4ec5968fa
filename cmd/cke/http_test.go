package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/clusterfile"
	"cke/server"
)

// authority signs certificates for a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	return authority{}.sign(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
}

// sign makes a key and a certificate; the zero authority signs its own.
func (a authority) sign(t *testing.T, template *x509.Certificate) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, template.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: "test"}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key}
}

func (a authority) server(t *testing.T) authority {
	return a.sign(t, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
}

func (a authority) client(t *testing.T) authority {
	return a.sign(t, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// files writes certificate and key in PEM.
func (a authority) files(t *testing.T, name string) (cert, key string) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: a.cert.Raw}, key: {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// serve listens as the daemon does and returns the port.
func serve(t *testing.T, c cke.HTTPConfig) (port string) {
	t.Helper()
	if err := clusterfile.CheckConfig(cke.Config{HTTP: c}); err != nil {
		t.Fatalf("the configuration is not even allowed: %v", err)
	}
	l, h, err := listenHTTP(c, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }), http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		s.Close()
		<-done
	})
	_, port, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func TestListenHTTP_AsksForAClientCertificateOfItsCA(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	cert, key := ours.server(t).files(t, "server")
	ca, _ := ours.files(t, "ca")
	c := cke.HTTPConfig{Listen: freePort(t), TLS: cke.HTTPTLS{CertFile: cert, KeyFile: key, ClientCAFile: ca}}
	port := serve(t, c)

	roots := x509.NewCertPool()
	roots.AddCert(ours.cert)
	get := func(id *authority, version uint16) error {
		config := &tls.Config{RootCAs: roots, MaxVersion: version}
		if id != nil {
			config.Certificates = []tls.Certificate{{Certificate: [][]byte{id.cert.Raw}, PrivateKey: id.key}}
		}
		client := http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}, Timeout: startLimit}
		resp, err := client.Get("https://127.0.0.1:" + port)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	good, bad := ours.client(t), theirs.client(t)
	if err := get(&good, tls.VersionTLS13); err != nil {
		t.Errorf("a good certificate: %v", err)
	}
	if err := get(&bad, tls.VersionTLS13); err == nil {
		t.Error("a certificate of another CA was accepted")
	}
	if err := get(nil, tls.VersionTLS13); err == nil {
		t.Error("no certificate was accepted")
	}
	if err := get(&good, tls.VersionTLS11); err == nil {
		t.Error("TLS 1.1 was accepted")
	}
	resp, err := http.Get("http://127.0.0.1:" + port)
	if err == nil {
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Error("plain HTTP was answered")
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// freePort is an address that other machines could reach.
func freePort(t *testing.T) string {
	_, port, err := net.SplitHostPort(freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	return "0.0.0.0:" + port
}

func TestListenHTTP_AsksForNameAndPassword(t *testing.T) {
	ours := newAuthority(t)
	cert, key := ours.server(t).files(t, "server")
	password := filepath.Join(t.TempDir(), "password")
	c := cke.HTTPConfig{Listen: freePort(t), TLS: cke.HTTPTLS{CertFile: cert, KeyFile: key}, BasicAuth: cke.BasicAuth{Username: "ops", PasswordFile: password}}
	for text, says := range map[string]string{"": "has no password in it", "\n": "has no password in it", "\r\nsecond\n": "has no password in it"} {
		if err := os.WriteFile(password, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if l, _, err := listenHTTP(c, http.NotFoundHandler(), nil); err == nil || !strings.Contains(err.Error(), says) {
			if err == nil {
				l.Close()
			}
			t.Errorf("password file %q: %v", text, err)
		}
	}
	if err := os.WriteFile(password, []byte("s3cret pass\r\nnot this\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	port := serve(t, c)
	roots := x509.NewCertPool()
	roots.AddCert(ours.cert)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}, Timeout: startLimit}
	for _, tt := range []struct {
		user, password string
		code           int
	}{
		{"ops", "s3cret pass", 200},
		{"ops", "s3cret pas", 401},
		{"ops", "", 401},
		{"op", "s3cret pass", 401},
		{"root", "not this", 401},
		{"", "", 401},
	} {
		req, err := http.NewRequest(http.MethodGet, "https://127.0.0.1:"+port, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tt.user != "" {
			req.SetBasicAuth(tt.user, tt.password)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != tt.code || tt.code == 401 && resp.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s:%s is answered %d", tt.user, tt.password, resp.StatusCode)
		}
	}
}

func TestListenHTTP_SaysWhichFileIsNoGood(t *testing.T) {
	cert, key := newAuthority(t).server(t).files(t, "server")
	none, rubbish := filepath.Join(t.TempDir(), "none"), filepath.Join(t.TempDir(), "rubbish")
	if err := os.WriteFile(rubbish, []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		config cke.HTTPConfig
		says   string
	}{
		{cke.HTTPConfig{BasicAuth: cke.BasicAuth{Username: "ops", PasswordFile: none}}, "read the password"},
		{cke.HTTPConfig{TLS: cke.HTTPTLS{CertFile: none, KeyFile: key}}, "load the certificate"},
		{cke.HTTPConfig{TLS: cke.HTTPTLS{CertFile: cert, KeyFile: key, ClientCAFile: none}}, "read the client CA"},
		{cke.HTTPConfig{TLS: cke.HTTPTLS{CertFile: cert, KeyFile: key, ClientCAFile: rubbish}}, "has no certificate in it"},
	} {
		if _, _, err := listenHTTP(tt.config, http.NotFoundHandler(), nil); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%v, want %q", err, tt.says)
		}
	}
}

func TestProcess_IsNotHealthyBeforeTheStoreIsOpen(t *testing.T) {
	p := &process{waits: newWaiting(slog.New(slog.DiscardHandler))}
	if h := p.health(t.Context()); h != (server.Health{Status: "waiting", Waiting: "starting"}) {
		t.Errorf("%+v", h)
	}
	if _, err := p.statuses(t.Context()); err == nil || !strings.Contains(err.Error(), "the store is not open: starting") {
		t.Error(err)
	}
}

// The password of agents opens FleetLock and nothing else, that of readers everything else.
func TestListenHTTP_FleetLockHasAPasswordOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	secret := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	c := cke.HTTPConfig{Listen: "127.0.0.1:0", BasicAuth: cke.BasicAuth{Username: "ops", PasswordFile: secret("ops", "one")},
		FleetLock: cke.FleetLockConfig{Username: "agents", PasswordFile: secret("agents", "two")}}
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "page") })
	lock := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "lock")
	})
	l, h, err := listenHTTP(c, page, lock)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	ask := func(path, user, password string, body io.Reader) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.Addr().String()+path, body)
		if err != nil {
			t.Fatal(err)
		}
		if user != "" {
			r.SetBasicAuth(user, password)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
	for _, row := range []struct {
		path, user, password string
		code                 int
	}{
		{server.FleetLockAsk, "agents", "two", 200}, {server.FleetLockRelease, "agents", "two", 200}, {"/", "ops", "one", 200},
		{server.FleetLockAsk, "ops", "one", 401}, {server.FleetLockRelease, "", "", 401}, {"/", "agents", "two", 401}, {"/v1/other", "agents", "two", 401},
	} {
		if code, text := ask(row.path, row.user, row.password, nil); code != row.code {
			t.Errorf("%+v: %d %s", row, code, text)
		}
	}
	c.FleetLock = cke.FleetLockConfig{}
	c.Listen = "127.0.0.1:0"
	l2, h, err := listenHTTP(c, page, lock)
	if err != nil {
		t.Fatal(err)
	}
	l2.Close()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, server.FleetLockAsk, nil)
	r.SetBasicAuth("ops", "one")
	if h.ServeHTTP(w, r); w.Body.String() != "page" { // it is off unless configured
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
