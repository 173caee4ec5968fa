package main

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/pki"
)

// rotate lets an authority be replaced and have come to a phase.
func (h *house) rotate(l *leader, name cke.AuthorityName, phase cke.AuthorityPhase) cke.Authorities {
	h.t.Helper()
	authority := pki.New(h.store.Secrets("prod"), "prod", time.Now)
	id, err := h.store.Identity(h.ctx(), "prod")
	if err != nil {
		h.t.Fatal(err)
	}
	all := id.Authorities
	for _, n := range cke.AuthorityNames() {
		r := all.Of(n)
		if r.Current, err = authority.CA(h.ctx(), n, 0); err != nil {
			h.t.Fatal(err)
		}
		all = all.With(n, r)
	}
	next, err := authority.CreateCA(h.ctx(), name, 1)
	if err != nil {
		h.t.Fatal(err)
	}
	r := all.Of(name)
	r.Next, r.Phase, r.Since, r.By = &next, phase, time.Now().Add(-2*time.Hour).UTC(), "eve@host"
	all = all.With(name, r)
	if err := l.term.PutAuthorities(h.ctx(), id.Authorities, all); err != nil {
		h.t.Fatal(err)
	}
	return all
}

func TestCA_ListTellsOfAuthoritiesAndOfWhatAReplacementWaitsFor(t *testing.T) {
	h := declared(t)
	stdout, stderr := h.run(exitDone, "ca", "list")
	if stdout != "" {
		t.Errorf("%q", stdout)
	}
	contains(t, stderr, "prod was never bootstrapped")
	h.run(exitFailed, "ca", "get", "server")
	l := h.lead("prod")
	h.form(l)
	l.status(ready(1))
	stdout, _ = h.run(exitDone, "ca", "list")
	contains(t, stdout, "AUTHORITY  STATE   ENDS   FINGERPRINT\n", "peer       in use  ", "server     in use  ", "client     in use  ")
	h.rotate(l, cke.ServerAuthority, cke.AuthorityIntroduced)
	s := ready(1)
	s.Authorities = []cke.AuthorityStatus{{Name: cke.ServerAuthority, Phase: cke.AuthorityIntroduced, Waits: []string{"cp3 does not answer"}}}
	l.status(s)
	stdout, _ = h.run(exitDone, "ca", "list")
	contains(t, stdout, "server     in use   ", "server     trusted  ", "server: being replaced, phase 1 of 3 for 2h: members start to trust both\n  waits: cp3 does not answer\n")
	stdout, _ = h.run(exitDone, "status")
	contains(t, stdout, "server: being replaced, phase 1 of 3: members start to trust both", "waits: cp3 does not answer")
	var all []listedCA
	stdout, _ = h.run(exitDone, "ca", "list", "-o", "json")
	if err := json.Unmarshal([]byte(stdout), &all); err != nil || len(all) != 4 || all[2].Generation != 1 || all[2].Signs || !all[2].Trusted || all[2].By != "eve@host" || len(all[2].Waits) != 1 {
		t.Errorf("%v %s", err, stdout)
	}
	stdout, _ = h.run(exitDone, "ca", "list", "-o", "name")
	if stdout != "peer\nserver\nclient\n" {
		t.Errorf("%q", stdout)
	}
	stdout, _ = h.run(exitDone, "ca", "get", "server")
	if strings.Count(stdout, "BEGIN CERTIFICATE") != 2 || strings.Contains(stdout, "PRIVATE") {
		t.Errorf("%s", stdout)
	}
	h.run(exitUsage, "ca", "get", "root")
	if err := os.Remove(filepath.Join(h.dir, "secret.key")); err != nil {
		t.Fatal(err)
	}
	_, stderr = h.run(exitFailed, "ca", "list")
	contains(t, stderr, "error[CKE105]: ")
}

func TestCA_CertsTellsWhoSignedThem(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	id := h.form(l)
	all := h.rotate(l, cke.PeerAuthority, cke.AuthorityIssues)
	s := ready(1)
	s.Members = []cke.MemberStatus{{Name: "cp1", Join: id.Joins[0].ID, Ready: true}, {Name: "cp2", Join: id.Joins[1].ID, CertNotAfter: time.Now().Add(48 * time.Hour)}}
	s.Nodes = []cke.NodeStatus{{Node: id.Joins[0].Node, Containers: []cke.Container{{Join: id.Joins[0].ID, Certificates: &cke.CertificateFiles{
		NotAfter: time.Now().Add(200 * 24 * time.Hour), PeerSigner: all.Peer.Next.Fingerprint, ServerSigner: all.Server.Current.Fingerprint}}}}}
	l.status(s)
	stdout, _ := h.run(exitDone, "ca", "certs")
	contains(t, stdout, "MEMBER  ENDS", all.Peer.Next.Fingerprint[:12], all.Server.Current.Fingerprint[:12], "cp2     47h")
	var certs []listedCertificate
	stdout, _ = h.run(exitDone, "ca", "certs", "-o", "json")
	if err := json.Unmarshal([]byte(stdout), &certs); err != nil || len(certs) != 2 || certs[0].PeerAuthority != 1 || certs[0].ServerAuthority != 0 || certs[1].PeerAuthority != -1 {
		t.Errorf("%v %s", err, stdout)
	}
}

func TestCA_RotateAndFinishAskTheLeader(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	h.form(l)
	l.status(ready(1))
	asked := func(kind cke.TaskKind, subject string) {
		t.Helper()
		r, err := h.store.RequestsOf(h.ctx(), "prod")
		if err != nil || len(r.Tasks) != 1 || r.Tasks[0].Kind != kind || r.Tasks[0].Subject != subject {
			t.Fatalf("%v %+v", err, r.Tasks)
		}
		if err := l.term.FinishTask(h.ctx(), r.Tasks[0].ID); err != nil {
			t.Fatal(err)
		}
	}
	h.run(exitDone, "ca", "rotate", "peer", "--no-wait")
	asked(cke.TaskRotate, "peer")
	h.run(exitUsage, "ca", "rotate", "root")
	h.run(exitUsage, "ca", "rotate")
	_, stderr := h.run(exitRefused, "ca", "finish", "server", "--yes")
	contains(t, stderr, "the server authority of prod is not being replaced", "Nothing was changed.")
	h.rotate(l, cke.ServerAuthority, cke.AuthorityIntroduced)
	_, stderr = h.run(exitRefused, "ca", "finish", "server")
	contains(t, stderr, "not confirmed", "--yes")
	h.run(exitDone, "ca", "finish", "server", "--yes", "--no-wait")
	asked(cke.TaskFinish, "server introduce")
	_, stderr = h.run(exitRefused, "ca", "finish", "peer", "--yes")
	contains(t, stderr, "not being replaced")
}

// What `etcd env` keeps is issued again when another authority signs, or others are to be trusted.
func TestEtcd_EnvFollowsTheAuthorities(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	h.form(l)
	dir := filepath.Join(h.dir, "env")
	env := func() (cert string, cas int) {
		t.Helper()
		h.run(exitDone, "etcd", "env", "--dir", dir)
		cert, ca := string(readFile(t, dir+"/client.crt")), readFile(t, dir+"/ca.crt")
		for block, rest := pem.Decode(ca); block != nil; block, rest = pem.Decode(rest) {
			if _, err := x509.ParseCertificate(block.Bytes); err == nil {
				cas++
			}
		}
		return cert, cas
	}
	first, cas := env()
	if again, _ := env(); again != first || cas != 1 {
		t.Errorf("issued again, %d authorities", cas)
	}
	h.rotate(l, cke.ServerAuthority, cke.AuthorityIntroduced)
	second, cas := env()
	if second == first || cas != 2 {
		t.Errorf("not issued again, %d authorities", cas)
	}
	h.rotate(l, cke.ClientAuthority, cke.AuthorityIssues)
	if third, _ := env(); third == second {
		t.Error("not issued again by the next authority")
	}
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
