package pki_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"cke"
	"cke/pki"
)

// startEtcd starts one member with the files that its volume would hold, on loopback.
func startEtcd(t *testing.T, a *pki.Authority) (clientURL string) {
	t.Helper()
	dir := t.TempDir()
	at := func(path string) string { return filepath.Join(dir, filepath.FromSlash(path)) }
	for path, f := range filesByPath(t, a, "127.0.0.1", "cp1") {
		if err := os.MkdirAll(filepath.Dir(at(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at(path), f.Data, os.FileMode(f.Mode)); err != nil {
			t.Fatal(err)
		}
	}
	config := embed.NewConfig()
	config.Name, config.Dir, config.LogLevel = "cp1", at("data"), "warn"
	config.LogOutputs = []string{at("log")}
	clients, peers := []url.URL{{Scheme: "https", Host: freeAddress(t)}}, []url.URL{{Scheme: "https", Host: "127.0.0.1:0"}}
	config.ListenClientUrls, config.AdvertiseClientUrls = clients, clients
	config.ListenPeerUrls, config.AdvertisePeerUrls = peers, peers
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.ClientTLSInfo.CertFile, config.ClientTLSInfo.KeyFile = at(cke.ServerCertFile), at(cke.ServerKeyFile)
	config.ClientTLSInfo.TrustedCAFile, config.ClientTLSInfo.ClientCertAuth = at(cke.ClientCAFile), true
	config.PeerTLSInfo.CertFile, config.PeerTLSInfo.KeyFile = at(cke.PeerCertFile), at(cke.PeerKeyFile)
	config.PeerTLSInfo.TrustedCAFile, config.PeerTLSInfo.ClientCertAuth = at(cke.PeerCAFile), true
	e, err := embed.StartEtcd(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.Close()
		if t.Failed() {
			log, _ := os.ReadFile(at("log"))
			t.Logf("etcd's log: %s", log)
		}
	})
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(time.Minute):
		t.Fatal("etcd did not become ready in a minute")
	}
	return clients[0].String()
}

// freeAddress is a loopback address that nobody listens on; etcd's gateway dials the configured port, so 0 is no port.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Requirement N15: cke reaches etcd with certificates of the same authorities.
func TestEtcd_ServesCkeWithItsCertificates(t *testing.T) {
	a, _, _ := newAuthority()
	endpoint := startEtcd(t, a)
	config, err := a.ClientTLS(t.Context(), cke.Authorities{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, TLS: config, DialTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := client.Put(ctx, "a", "1"); err != nil {
		t.Fatal(err)
	}
	web := http.Client{Transport: &http.Transport{TLSClientConfig: config}, Timeout: time.Minute}
	defer web.CloseIdleConnections()
	resp, err := web.Post(endpoint+"/v3/kv/range", "application/json", bytes.NewReader([]byte(`{"key":"YQ=="}`)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if resp.StatusCode != http.StatusOK || !bytes.Contains(body, []byte("MQ==")) {
		t.Errorf("the gateway says %s: %s", resp.Status, body)
	}
}
