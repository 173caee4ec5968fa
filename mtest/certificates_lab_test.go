package mtest_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cke"
	"cke/mtest/lab"
	"cke/mtest/rig"
	"cke/storage"
)

// certificateLife is how long the certificates last that a story lets end.
const certificateLife = 5 * time.Second

// certify gives every member certificates of the cluster's own authorities that end at a time, as if they were old. What is
// to happen once the daemon has told the authorities, and before anything is written, is done by then.
func (s *story) certify(end time.Time, then func()) {
	s.Helper()
	store, err := storage.Open(s.ctx, storage.Config{Embedded: storage.EmbeddedConfig{DataDir: filepath.Join(s.Dir, "store")}, SecretKeyFile: filepath.Join(s.Dir, "secret.key")})
	s.must(err)
	secrets := map[string][]byte{}
	for _, ca := range []string{"peer", "server"} {
		secrets[ca], err = store.Secrets(s.Cluster).Secret(s.ctx, "pki/"+ca+"-ca")
		s.must(err)
	}
	store.Close()
	then()
	for _, pair := range []struct{ ca, cert, key string }{
		{"peer", cke.PeerCertFile, cke.PeerKeyFile}, {"server", cke.ServerCertFile, cke.ServerKeyFile},
	} {
		ca, err := tls.X509KeyPair(secrets[pair.ca], secrets[pair.ca])
		s.must(err)
		for _, n := range s.nodes {
			cert, key := s.sign(ca, n.Address, end)
			dir := "/var/lib/docker/volumes/" + s.volumeOn(n) + "/_data/"
			s.must(s.Lab.Run(s.ctx, n.Name, strings.NewReader(cert), nil, nil, "dd", "status=none", "of="+dir+pair.cert))
			s.must(s.Lab.Run(s.ctx, n.Name, strings.NewReader(key), nil, nil, "dd", "status=none", "of="+dir+pair.key))
		}
	}
}

// sign issues a certificate for a member at an address.
func (s *story) sign(ca tls.Certificate, address string, end time.Time) (certPEM, keyPEM string) {
	s.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.must(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "old"}, NotBefore: ca.Leaf.NotBefore, NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.ParseIP(address), net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Leaf, key.Public(), ca.PrivateKey)
	s.must(err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	s.must(err)
	block := func(name string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: name, Bytes: der}))
	}
	return block("CERTIFICATE", der), block("PRIVATE KEY", secret)
}

// done counts the operations of a kind that were begun, by node. Whether one failed that waited in vain for a busy node to
// tell is another matter.
func (s *story) done(operation string) map[string]int {
	s.Helper()
	all := map[string]int{}
	for _, r := range s.records() {
		if r.Operation == operation {
			all[strings.Join(r.Targets, " ")]++
		}
	}
	return all
}

// Requirement N15: a cluster whose certificates ended while no daemon was there comes back by itself.
func TestLabCertificates_ThatEndWhileNobodyLooks(t *testing.T) {
	rare(t)
	s := newStory(t, 3)
	d := s.daemon("cke1")
	before := s.found()
	tls := s.clientTLS()
	w := s.writer(tls)
	s.must(w.Await(s.within(seenLimit), 50))
	w.Stop()

	end := time.Now().Add(certificateLife)
	s.certify(end, func() { // it would renew them
		_, err := d.Stop(stopLimit)
		s.must(err)
	})
	time.Sleep(time.Until(end))      // there is nothing else to wait for
	s.onAll(func(n lab.Node) error { // nobody has a connection any more
		_, err := s.Lab.Exec(s.ctx, n.Name, "sh", "-c", "docker restart -t 5 $(docker ps -q)")
		return err
	})
	// What a crash leaves of a key that was being written: etcd does not even start with it.
	broken := s.nodes[2]
	s.on(broken, fmt.Sprintf("truncate -s 100 /var/lib/docker/volumes/%s/_data/%s && docker restart -t 5 $(docker ps -aq)", s.volumeOn(broken), cke.PeerKeyFile))
	for _, n := range s.nodes {
		if err := s.write(rig.URL(n), tls, "w/late"); err == nil {
			t.Errorf("%s serves with certificates that have ended", n.Name)
		}
	}

	began := time.Now()
	s.daemon("cke2")
	s.await("the cluster to be back", readyLimit, func(st cke.Status) bool { return rig.Ready(st) && st.ObservedAt.After(began) })
	t.Logf("back after %s", since(began))
	s.must(w.Check(s.ctx, s.urls(), tls))
	s.stillMembers(before)
	s.oneCluster()
	if got := s.done("renew-certificates"); len(got) != 3 {
		t.Errorf("renewed: %v", got)
	}
	if got := s.done("restart-member"); len(got) != 0 {
		t.Errorf("restarted: %v", got)
	}
}

// write puts one key through a member, once.
func (s *story) write(url string, tls *tls.Config, key string) error {
	c, err := rig.Client(url, tls)
	s.must(err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(s.ctx, time.Second)
	defer cancel()
	_, err = c.Put(ctx, key, "x")
	return err
}

// Requirement N15: certificates are renewed while clients write over old connections and new ones, and no member stops.
func TestLabCertificates_AreRenewedUnderLoad(t *testing.T) {
	extra(t)
	chapter{name: "renewal", nodes: 3, members: 3, tell: func(m *loaded) {
		started := func() (all []string) {
			for _, n := range m.nodes {
				all = append(all, m.on(n, "docker inspect -f '{{.State.StartedAt}} {{.RestartCount}}' $(docker ps -q)"))
			}
			return all
		}
		before := started()
		tls := m.clientTLS()
		ctx, stop := context.WithCancel(m.ctx)
		defer stop()
		var wg sync.WaitGroup
		var handshakes, failed atomic.Int64
		for i, url := range m.urls() {
			wg.Go(func() {
				for ctx.Err() == nil {
					c, err := rig.Client(url, tls)
					if err != nil {
						m.Error(err)
						return
					}
					if _, err := c.Put(ctx, fmt.Sprint("load/handshake/", i), "x"); err != nil && ctx.Err() == nil {
						failed.Add(1)
						if err := rig.PutThrough(ctx, c, fmt.Sprint("load/handshake/", i), "x"); err != nil && ctx.Err() == nil {
							m.Error(err)
						}
					}
					handshakes.Add(1)
					c.Close()
				}
			})
		}
		m.measured("renewed", func() {
			m.certify(time.Now().Add(20*time.Minute), func() {}) // of an hour and twenty minutes
			m.daemon.Kill()                                      // the next one looks at all files at once
			m.daemon = m.story.daemon("cke2")
			began := time.Now()
			m.await("all certificates to be renewed", readyLimit, func(st cke.Status) bool {
				for _, member := range st.Members {
					if time.Until(member.CertNotAfter) < 24*time.Hour {
						return false
					}
				}
				return st.ObservedAt.After(began) && rig.Ready(st)
			})
		})
		stop()
		wg.Wait()
		m.Logf("%d new connections meanwhile, of which %d had to try again", handshakes.Load(), failed.Load())
		if got := started(); strings.Join(got, " ") != strings.Join(before, " ") {
			m.Errorf("members were started: %v, before %v", got, before)
		}
		if got := m.done("renew-certificates"); len(got) != 3 {
			m.Errorf("renewed: %v", got)
		}
	}}.run(t)
}
