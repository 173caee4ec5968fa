package main

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"cke"
	"cke/pki"
)

// incarnation puts a new incarnation of prod on record, with an id of its own unless one is given.
func (h *house) incarnation(l *leader, id string) cke.Incarnation {
	h.t.Helper()
	spec, err := h.store.Spec(h.ctx(), "prod")
	if err != nil {
		h.t.Fatal(err)
	}
	inc := cke.NewIncarnation(spec.Wanted(), nil, time.Now())
	inc.ID = cmp.Or(id, inc.ID)
	if err := l.term.CreateIncarnation(h.ctx(), inc); err != nil {
		h.t.Fatal(err)
	}
	return inc
}

func (h *house) form(l *leader) cke.Identity {
	h.t.Helper()
	if err := pki.New(h.store.Secrets("prod"), "prod", time.Now).Ensure(h.ctx(), cke.Authorities{}); err != nil {
		h.t.Fatal(err)
	}
	inc := h.incarnation(l, "")
	inc.State, inc.ClusterID, inc.FormedAt = cke.Formed, "cdf818194e3a8c32", time.Now()
	if err := l.term.UpdateIncarnation(h.ctx(), inc); err != nil {
		h.t.Fatal(err)
	}
	id, err := h.store.Identity(h.ctx(), "prod")
	if err != nil {
		h.t.Fatal(err)
	}
	return id
}

// Requirements A1, A22, I11, N2: the endpoints are there before the members.
func TestEtcd_EndpointsAreKnownBeforeTheClusterIs(t *testing.T) {
	h := declared(t)
	stdout, stderr := h.run(exitDone, "etcd", "endpoints", "--join")
	if stdout != "https://10.0.0.11:2379,https://10.0.0.12:2379,https://10.0.0.13:2379\n" {
		t.Errorf("got %q", stdout)
	}
	contains(t, stderr, "prod is not formed yet")
	l := h.lead("prod")
	id := h.form(l)
	s := ready(1)
	s.Members = []cke.MemberStatus{{Name: "cp1", Join: id.Joins[0].ID, ID: "8e9e05c52164694d", Role: "leader", State: "healthy", Ready: true},
		{Name: "cp3", Join: id.Joins[2].ID, Role: "learner", State: "healthy", Lag: -1}}
	l.status(s)
	stdout, stderr = h.run(exitDone, "etcd", "endpoints")
	if stdout != "https://10.0.0.11:2379\nhttps://10.0.0.12:2379\n" || stderr != "" {
		t.Errorf("got %q %q", stdout, stderr)
	}
	stdout, _ = h.run(exitDone, "etcd", "members")
	contains(t, stdout, "MEMBER  ID                ROLE     HEALTH   LAG  DB  VERSION  CLIENT URL              PEER URL\n",
		"cp1     8e9e05c52164694d  leader   healthy  0    -   -        https://10.0.0.11:2379  https://10.0.0.11:2380\n",
		"cp3     -                 learner  healthy  -    -   -        https://10.0.0.13:2379  https://10.0.0.13:2380\n")
}

func TestEtcd_IssueWritesACertificateOnceTheClusterIsFormed(t *testing.T) {
	h := declared(t)
	out := filepath.Join(h.dir, "certs")
	_, stderr := h.run(exitRefused, "etcd", "issue", "alice", "--out", out)
	contains(t, stderr, "prod is not formed yet", "Nothing was changed.")
	h.form(h.lead("prod"))
	stdout, _ := h.run(exitDone, "etcd", "issue", "alice", "--out", out, "--ttl", "24h")
	if want := out + "/alice.crt\n" + out + "/alice.key\n" + out + "/ca.crt\n"; stdout != want {
		t.Errorf("got %q, want %q", stdout, want)
	}
	pair, err := tls.LoadX509KeyPair(out+"/alice.crt", out+"/alice.key")
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(pair.Leaf.NotAfter); pair.Leaf.Subject.CommonName != "alice" || left > 25*time.Hour {
		t.Errorf("%s, %s", pair.Leaf.Subject, left)
	}
	if info, err := os.Stat(out + "/alice.key"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if ca, err := os.ReadFile(out + "/ca.crt"); err != nil || !x509.NewCertPool().AppendCertsFromPEM(ca) {
		t.Error(err)
	}
	_, stderr = h.run(exitRefused, "etcd", "issue", "alice", "--out", out)
	contains(t, stderr, "alice.crt already exists")
	h.run(exitDone, "etcd", "issue", "alice", "--out", out, "--overwrite")
	h.run(exitUsage, "etcd", "issue", "alice", "--ttl", "24h", "--renew-before", "24h")
	for _, step := range []struct {
		later time.Duration
		says  string
	}{{0, "Kept for alice"}, {364 * 24 * time.Hour, "Issued for alice"}, {364 * 24 * time.Hour, "Kept for alice"}} {
		h.now = func() time.Time { return time.Now().Add(step.later) }
		_, stderr = h.run(exitDone, "etcd", "issue", "alice", "--out", out, "--renew-before", "720h")
		contains(t, stderr, step.says)
	}
	if err := os.WriteFile(out+"/ca.crt", []byte("of another cluster"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, stderr = h.run(exitDone, "etcd", "issue", "alice", "--out", out, "--renew-before", "720h")
	contains(t, stderr, "Issued for alice")
	h.now = time.Now
	h.run(exitUsage, "etcd", "issue", "../alice", "--out", out)
	if err := os.Remove(filepath.Join(h.dir, "secret.key")); err != nil {
		t.Fatal(err)
	}
	_, stderr = h.run(exitFailed, "etcd", "issue", "bob", "--out", out)
	contains(t, stderr, "error[CKE105]: ")
}

func TestEtcd_EnvCanBeEvaluatedAndKeepsItsCertificate(t *testing.T) {
	h := declared(t)
	h.form(h.lead("prod"))
	dir := filepath.Join(h.dir, "it's mine $HOME")
	stdout, _ := h.run(exitDone, "etcd", "env", "--dir", dir)
	shell := exec.Command("sh", "-c", stdout+`printf '%s|' "$ETCDCTL_ENDPOINTS" "$ETCDCTL_CACERT" "$ETCDCTL_CERT" "$ETCDCTL_KEY"`)
	text, err := shell.Output()
	if err != nil {
		t.Fatal(err)
	}
	if want := "https://10.0.0.11:2379,https://10.0.0.12:2379,https://10.0.0.13:2379|" + dir + "/ca.crt|" + dir + "/client.crt|" + dir + "/client.key|"; string(text) != want {
		t.Errorf("the shell has\n%s, want\n%s", text, want)
	}
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	first := read("client.crt")
	h.run(exitDone, "etcd", "env", "--dir", dir)
	if !bytes.Equal(first, read("client.crt")) {
		t.Error("a certificate that will do was issued again")
	}
	h.now = func() time.Time { return time.Now().Add(envTTL - envRenew + time.Hour) }
	h.run(exitDone, "etcd", "env", "--dir", dir)
	if bytes.Equal(first, read("client.crt")) {
		t.Error("a certificate that ends soon was not issued again")
	}
	h.now = time.Now
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), []byte("of another cluster"), 0o644); err != nil {
		t.Fatal(err)
	}
	h.run(exitDone, "etcd", "env", "--dir", dir)
	if bytes.Contains(read("ca.crt"), []byte("another")) {
		t.Error("a certificate of another CA was kept")
	}
	stdout, _ = h.run(exitDone, "etcd", "env")
	contains(t, stdout, "export ETCDCTL_KEY="+h.dir+"/.config/ckecli/prod/client.key\n")
}
