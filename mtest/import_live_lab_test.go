package mtest_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/mtest/lab"
	"cke/mtest/rig"
)

// oldMembers is how many members the old cluster of a live import has, and oldVersion their etcd.
const (
	oldMembers = 3
	oldVersion = "3.5.35"
)

// oldPKI is what an operator made for an etcd with TLS: one RSA authority for all, as kubeadm does.
type oldPKI struct {
	cert *x509.Certificate
	key  *rsa.PrivateKey
	dir  string // ca.crt, ca.key, member.crt, member.key, client.crt, client.key
}

func (s *story) newOldPKI(address string) oldPKI {
	s.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	s.must(err)
	p := oldPKI{key: key, dir: s.TempDir()}
	now := time.Now()
	self := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "etcd-ca"}, NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment}
	der, err := x509.CreateCertificate(rand.Reader, self, self, key.Public(), key)
	s.must(err)
	p.cert, err = x509.ParseCertificate(der)
	s.must(err)
	p.write(s, "ca", der, key)
	for i, name := range []string{"member", "client"} {
		own, err := rsa.GenerateKey(rand.Reader, 2048)
		s.must(err)
		leaf := &x509.Certificate{SerialNumber: big.NewInt(int64(i) + 2), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
			KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
			IPAddresses: []net.IP{net.ParseIP(address), net.ParseIP("127.0.0.1")}}
		der, err := x509.CreateCertificate(rand.Reader, leaf, p.cert, own.Public(), key)
		s.must(err)
		p.write(s, name, der, own)
	}
	return p
}

func (p oldPKI) file(name string) string { return filepath.Join(p.dir, name) }

func (p oldPKI) write(s *story, name string, der []byte, key *rsa.PrivateKey) {
	s.must(os.WriteFile(p.file(name+".crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	s.must(os.WriteFile(p.file(name+".key"), pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), 0o600))
}

// clientTLS is what clients of the old cluster show.
func (p oldPKI) clientTLS(s *story) *tls.Config {
	pair, err := tls.LoadX509KeyPair(p.file("client.crt"), p.file("client.key"))
	s.must(err)
	pool := x509.NewCertPool()
	pool.AddCert(p.cert)
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// runOld runs an etcd of three members on one machine, as an operator does with docker, and returns its client URLs.
func (s *story) runOld(n lab.Node, p *oldPKI) (urls []string) {
	s.Helper()
	img, err := lab.EtcdImage(s.ctx, oldVersion, os.Stderr)
	s.must(err)
	s.must(s.Lab.LoadImage(s.ctx, img.Archive, n.Name))
	scheme, flags := "http", ""
	if p != nil {
		scheme = "https"
		s.on(n, "mkdir -p /srv/pki")
		for _, name := range []string{"ca.crt", "member.crt", "member.key"} {
			data, err := os.ReadFile(p.file(name))
			s.must(err)
			s.on(n, fmt.Sprintf("echo %s | base64 -d > /srv/pki/%s", base64.StdEncoding.EncodeToString(data), name))
		}
		for _, of := range []string{"", "peer-"} {
			flags += fmt.Sprintf(" --%[1]scert-file=/pki/member.crt --%[1]skey-file=/pki/member.key --%[1]strusted-ca-file=/pki/ca.crt --%[1]sclient-cert-auth", of)
		}
	}
	var peers []string
	for i := range oldMembers {
		urls = append(urls, fmt.Sprintf("%s://%s:%d", scheme, n.Address, 12379+1000*i))
		peers = append(peers, fmt.Sprintf("old%d=%s://%s:%d", i, scheme, n.Address, 12380+1000*i))
	}
	image := strings.Replace(s.spec().WithDefaults().Options.Etcd.Image, s.spec().Options.Etcd.Version, oldVersion, 1)
	for i := range oldMembers {
		_, peer, _ := strings.Cut(peers[i], "=")
		s.on(n, strings.Join([]string{
			fmt.Sprintf("docker run -d --name old%d --restart always --network host -v /srv/pki:/pki:ro -v /srv/old%d:/data --entrypoint etcd", i, i), image,
			fmt.Sprintf("--name=old%d --data-dir=/data --initial-cluster=%s --initial-cluster-token=old", i, strings.Join(peers, ",")),
			fmt.Sprintf("--listen-client-urls=%[1]s --advertise-client-urls=%[1]s --listen-peer-urls=%[2]s --initial-advertise-peer-urls=%[2]s", urls[i], peer), flags,
		}, " "))
	}
	return urls
}

// oldOf is how many members of the old cluster a status has.
func oldOf(st cke.Status) (n int) {
	for _, m := range st.Members {
		if m.State == "old" {
			n++
		}
	}
	return n
}

// underLoad brings an old cluster under cke while clients write to both, and checks what they wrote.
func (s *story) underLoad(p *oldPKI) {
	declared, machine := s.nodes[:3], s.nodes[3]
	s.nodes = declared
	s.archive(oldVersion)
	s.daemon("boot-1")
	s.setKey()
	var old *tls.Config
	if p != nil {
		*p = s.newOldPKI(machine.Address)
		old = p.clientTLS(s)
	}
	urls := s.runOld(machine, p)
	w, err := rig.StartWriter(urls, old, "before/")
	s.must(err)
	s.Cleanup(w.Stop)
	s.must(w.Await(s.within(readyLimit), 50))

	b := backedUp{s, s.TempDir()} // it is there: an import reads it first
	c := b.spec()
	c.Options.Etcd.Version = oldVersion
	file, err := s.WriteSpec(c)
	s.must(err)
	command := []string{"cluster", "import", file, "--endpoint", urls[0]}
	if p != nil {
		s.refused(6, []string{"CKE328", "--peer-cacert"}, append(slices.Clone(command), "--cacert", p.file("ca.crt"), "--cert", p.file("client.crt"), "--key", p.file("client.key"), "--plan")...)
		command = append(command, "--cacert", p.file("ca.crt"), "--cert", p.file("client.crt"), "--key", p.file("client.key"), "--peer-cacert", p.file("ca.crt"), "--peer-key", p.file("ca.key"))
	}
	plan := s.do(append(slices.Clone(command), "--plan")...)
	s.Logf("\n%s", plan)
	w.TakeGap()
	s.must(w.Await(s.within(readyLimit), 1000))
	before := w.TakeGap()
	began := time.Now()
	confirmed := append(slices.Clone(command), "--confirm", "prod", "--no-wait")
	if p == nil {
		confirmed = append(confirmed, "--keep-old")
	}
	s.do(confirmed...)
	st := s.await("the import to start", seenLimit, func(st cke.Status) bool { return st.ClusterID != "" })
	both := s.clientTLS()
	if p != nil { // one client for all URLs: it trusts both, and shows each member what that accepts
		both = p.bothTLS(both, old)
	}
	load, err := rig.StartLoad(append(s.urls(), urls...), both)
	s.must(err)
	s.Cleanup(load.Stop)
	if p == nil { // there and back, and the old members stay until that is asked for
		allVote := func(st cke.Status) bool { return st.Ready == 3 && oldOf(st) == oldMembers && st.Tolerance == 2 }
		s.await("all members to vote", readyLimit, allVote)
		s.do("cluster", "import", "prod", "--revert")
		st := s.await("the members of cke to have left", readyLimit, func(st cke.Status) bool { return st.Declared == 0 && oldOf(st) == len(st.Members) })
		s.Logf("reverted: %d old members, can lose %d", len(st.Members), st.Tolerance)
		s.must(load.Await(s.within(seenLimit), 50))
		s.do("cluster", "import", "prod", "--continue")
		s.await("all members to vote again", readyLimit, allVote)
		s.do("cluster", "import", "prod", "--continue")
	}
	s.await("the import to end", 2*readyLimit, func(st cke.Status) bool { return rig.Ready(st) && st.Ready == 3 && len(st.Members) == 3 })
	s.Logf("the import took %s", since(began))
	s.must(load.Await(s.within(seenLimit), 50))
	s.Logf("longest time without an acknowledged write: %s, and %s before the import", load.TakeGap().Round(time.Millisecond), before.Round(time.Millisecond))
	records, err := s.Records(s.ctx, 30)
	s.must(err)
	for _, r := range records {
		if gap := load.Silence(r.StartedAt, r.EndedAt); gap > 0 {
			s.Logf("%s %s: %s without one", r.Operation, strings.Join(r.Targets, " "), gap.Round(time.Millisecond))
		}
	}
	verdict, err := load.Finish(s.within(seenLimit), s.urls(), st.ClusterID)
	s.must(err)
	s.Logf("%s", verdict)
	w.Stop()
	s.must(w.Check(s.within(seenLimit), s.urls(), s.clientTLS()))
	if out := s.do("etcd", "members"); strings.Contains(out, "http://") {
		s.Errorf("a member speaks to its peers without TLS:\n%s", out)
	}
	s.await("the authority of the old cluster to be replaced", 2*readyLimit, func(st cke.Status) bool { return rig.Ready(st) && len(st.Authorities) == 0 })
	if out := s.do("ca", "list"); p != nil && strings.Contains(out, cke.Fingerprint(p.cert)[:16]) {
		s.Errorf("the authority of the old cluster is trusted:\n%s", out)
	}
	b.awaitBackups("True UpToDate")
	if now := s.ready(); now.ClusterID != st.ClusterID {
		s.Errorf("cluster id %s, before %s", now.ClusterID, st.ClusterID)
	}
}

// bothTLS shows each member the certificate that it accepts, and trusts the authorities of both.
func (p *oldPKI) bothTLS(a, b *tls.Config) *tls.Config {
	pool := a.RootCAs.Clone()
	pool.AddCert(p.cert)
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, GetClientCertificate: func(r *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		for _, c := range []*tls.Config{a, b} {
			if r.SupportsCertificate(&c.Certificates[0]) == nil {
				return &c.Certificates[0], nil
			}
		}
		return &a.Certificates[0], nil
	}}
}

// The walk of docs/import.md, for an etcd without TLS.
func TestLabImport_AnEtcdWithoutTLSComesInLiveUnderLoad(t *testing.T) {
	extra(t)
	s := newStory(t, 4)
	s.underLoad(nil)
}

// The walk of docs/import.md, for an etcd with an authority as kubeadm makes it.
func TestLabImport_AnEtcdWithTLSComesInLiveUnderLoad(t *testing.T) {
	extra(t)
	s := newStory(t, 4)
	s.underLoad(&oldPKI{})
}
