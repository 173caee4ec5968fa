package mtest_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/mtest/lab"
	"cke/mtest/rig"
)

func TestLabSecurity_MembersServeNobodyWithoutACertificateOfTheirCluster(t *testing.T) {
	s := newStory(t, 2)
	d := s.daemon("cke1")
	prod, other := s.alone("prod", 0), s.alone("other", 1) // two clusters of one daemon
	prod.set(prod.spec())
	prod.refused(6, []string{"not formed yet", "Nothing was changed"}, "etcd", "issue", "early", "--out", s.Dir)
	if _, err := os.Stat(s.Dir + "/early.key"); err == nil {
		t.Error("a certificate was issued before the cluster was formed")
	}
	prod.setKey()
	other.set(other.spec())
	first, second := prod.ready(), other.ready()
	if first.ClusterID == second.ClusterID {
		t.Fatalf("both are cluster %s", first.ClusterID)
	}
	n := prod.nodes[0]
	ours, theirs := prod.clientTLS(), other.clientTLS()
	s.must(prod.oneOf(n, first, rig.URL(n), ours))

	trusting := func(certs ...tls.Certificate) *tls.Config {
		return &tls.Config{RootCAs: ours.RootCAs, Certificates: certs, MinVersion: tls.VersionTLS12}
	}
	for _, tt := range []struct {
		name string
		port int
		tls  *tls.Config
		want string // in the error
	}{
		{"a certificate of another cluster", cke.DefaultClientPort, trusting(theirs.Certificates...), "tls:"},
		{"no certificate", cke.DefaultClientPort, trusting(), "tls:"},
		{"a client of another cluster does not trust the member", cke.DefaultClientPort, theirs, "certificate"},
		{"a client's certificate at the peers' port", cke.DefaultPeerPort, &tls.Config{InsecureSkipVerify: true, Certificates: ours.Certificates}, "tls:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := get(s.ctx, "https", n, tt.port, tt.tls); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want a refusal with %q", err, tt.want)
			}
		})
	}
	t.Run("no TLS", func(t *testing.T) {
		for _, port := range []int{cke.DefaultClientPort, cke.DefaultPeerPort} {
			if err := get(s.ctx, "http", n, port, nil); err == nil {
				t.Errorf("port %d answers without TLS", port)
			}
		}
	})
	if err := get(s.ctx, "https", n, cke.DefaultClientPort, ours); err != nil {
		t.Errorf("with the right certificate: %v", err)
	}

	for _, c := range []*story{prod, other} {
		keys := c.on(c.nodes[0], `find /var/lib/docker/volumes -name '*.key' -printf '%f %m\n' | sort`)
		if want := "peer.key 600\nserver.key 600\n"; keys != want {
			t.Errorf("keys on %s: %q, want %q", c.nodes[0].Name, keys, want)
		}
	}
	if info, err := os.Stat(prod.Dir + "/client/tester.key"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the client's key: %v, %v", info, err)
	}
	if log := d.LogText(); strings.Contains(log, "PRIVATE KEY") {
		t.Error("a private key is in the log")
	}
}

// alone is a cluster of this name on one of the story's nodes, with its own directory and the same store.
func (s *story) alone(cluster string, node int) *story {
	r := *s.Rig
	r.Cluster = cluster
	r.Dir = s.TempDir()
	return &story{T: s.T, Rig: &r, ctx: s.ctx, nodes: s.nodes[node : node+1]}
}

// get asks for the version at a port of a node.
func get(ctx context.Context, scheme string, n lab.Node, port int, config *tls.Config) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s://%s:%d/version", scheme, n.Address, port), nil)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", resp.Status)
	}
	return nil
}
