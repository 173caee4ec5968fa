package main

import (
	"archive/tar"
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"cke"
	"cke/pki"
)

// contains fails unless text has every one of parts, in this order.
func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	rest := text
	for _, p := range parts {
		_, after, found := strings.Cut(rest, p)
		if !found {
			t.Errorf("%q is missing, or not where it belongs, in\n%s", p, text)
			return
		}
		rest = after
	}
}

// declared is a house with a stored cluster.
func declared(t *testing.T) *house {
	h := newHouse(t)
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", clusterFile))
	return h
}

// form gives the cluster its identity, with CAs, as a bootstrap does.
func (h *house) form(l *leader) cke.Identity {
	h.t.Helper()
	spec, err := h.store.Spec(h.ctx(), "prod")
	if err != nil {
		h.t.Fatal(err)
	}
	if err := pki.New(h.store.Secrets("prod"), "prod", time.Now).Ensure(h.ctx()); err != nil {
		h.t.Fatal(err)
	}
	inc := cke.NewIncarnation(spec.Cluster.WithDefaults(), nil, time.Now())
	if err := l.term.CreateIncarnation(h.ctx(), inc); err != nil {
		h.t.Fatal(err)
	}
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

func sshKey(t *testing.T, passphrase string) (private string, public ssh.PublicKey) {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if passphrase != "" {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	if public, err = ssh.NewPublicKey(pub); err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(block)), public
}

func TestSet_KeepsRevisionsAndRefusesAStaleOne(t *testing.T) {
	h := declared(t)
	file := h.write("cluster.yml", clusterFile+"options: {etcd: {version: 3.6.15}}\n")
	stdout, _ := h.run(exitDone, "cluster", "set", "--dry-run", file)
	contains(t, stdout, "-    version: 3.6.16\n", "+    version: 3.6.15\n", "prod: would be stored as revision 2; nothing was stored\n")
	_, stderr := h.run(exitRefused, "cluster", "set", "--no-wait", "--if-revision", "7", file)
	contains(t, stderr, "error[CKE103]: cluster prod has revision 1, not 7\n", "Nothing was changed.\nTry: ckecli cluster get\n")
	stdout, stderr = h.run(exitDone, "cluster", "set", "--no-wait", "--if-revision", "1", file)
	contains(t, stderr, "prod: stored as revision 2\n")
	if stdout != "2\n" {
		t.Errorf("stdout is %q", stdout)
	}
	if stdout, _ = h.run(exitDone, "cluster", "get"); stdout != clusterFile+"options: {etcd: {version: 3.6.15}}\n" {
		t.Errorf("the file came back as %q", stdout)
	}
	if stdout, _ = h.run(exitDone, "cluster", "get", "--revision", "1", "-o", "yaml"); stdout != clusterFile {
		t.Errorf("the file came back as %q", stdout)
	}
	stdout, _ = h.run(exitDone, "cluster", "get", "-o", "json")
	var spec cke.Spec
	if err := json.Unmarshal([]byte(stdout), &spec); err != nil || spec.Generation != 2 || !strings.Contains(spec.SetBy, "@") {
		t.Errorf("%v %s", err, stdout)
	}
	stdout, _ = h.run(exitDone, "cluster", "log", "-o", "name")
	if stdout != "2\n1\n" {
		t.Errorf("the log is %q", stdout)
	}
	_, stderr = h.run(exitFailed, "cluster", "get", "--revision", "9")
	contains(t, stderr, "cluster prod has no revision 9")
	stdout, _ = h.run(exitDone, "cluster", "list")
	contains(t, stdout, "CLUSTER  HEALTH   MEMBERS  CAN LOSE  REVISION          SEEN\n", "prod     UNKNOWN  0/3      -         2 (not done yet)  never\n")
}

func TestSet_SaysThatNobodyLeadsAndGoesOnWaiting(t *testing.T) {
	h := newHouse(t)
	set := h.start("cluster", "set", h.write("cluster.yml", clusterFile))
	set.stderr.await(t, "waiting: no daemon leads prod [CKE108]\n")
	h.lead("prod").status(ready(1))
	set.must(exitDone)
}

func TestSet_TakesNoOldStatusForThePresent(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	old := ready(1)
	old.ObservedAt = time.Now().Add(-time.Hour)
	l.status(old)
	set := h.start("cluster", "set", filepath.Join(h.dir, "cluster.yml"))
	set.stderr.await(t, "revision 1 says the same already")
	select {
	case <-set.ended:
		t.Fatalf("it took a status of an hour ago for the present: %s", set.stdout)
	case <-time.After(300 * time.Millisecond):
	}
	l.status(old) // the leader tells it again: its clock is wrong, and it is alive
	set.must(exitDone)
}

func TestSet_DetachesAtCtrlCAndAtTheTimeout(t *testing.T) {
	h := newHouse(t)
	file := h.write("cluster.yml", clusterFile)
	set := h.start("cluster", "set", file)
	set.stderr.await(t, "stored as revision 1")
	set.cancel()
	set.must(exitInterrupted)
	contains(t, set.stderr.String(), "Detached: revision 1 of prod is stored, and cke goes on working on it\nTry: ckecli history -f\n")
	_, stderr := h.run(exitTimedOut, "cluster", "set", "--timeout", "50ms", file)
	contains(t, stderr, "error: waiting timed out: revision 1 of prod is stored")
}

func TestHistory_FollowsUntilTheRecordEnds(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	_, stderr := h.run(exitDone, "history")
	contains(t, stderr, "Nothing was done on prod yet.")
	l.end(l.begin(cke.Record{Operation: "bootstrap", Targets: []string{"cp1"}, Reason: "no member has data", Steps: []cke.StepRecord{{Name: "image", Node: "cp1"}}}))
	r := l.begin(cke.Record{Operation: "start-members", Targets: []string{"cp2"}, Reason: "cp2 stopped", Steps: []cke.StepRecord{{Name: "start", Node: "cp2"}}})

	follow := h.start("history", "2", "-f")
	follow.stdout.await(t, "#2 start-members cp2: cp2 stopped\n")
	all := h.start("history", "-f")
	all.stdout.await(t, "#2 start-members cp2: cp2 stopped\n")
	lines := h.start("history", "-f", "-n", "5", "-o", "json")
	lines.stdout.await(t, `{"id":1,`)
	l.end(r)
	follow.must(exitDone)
	contains(t, follow.stdout.String(), "  start                     cp2  0.3s\n#2 completed after 0.9s\n")
	all.stdout.await(t, "#2 completed")
	if strings.Contains(all.stdout.String(), "#1") {
		t.Errorf("what was long over is told: %s", all.stdout)
	}
	lines.stdout.await(t, `"state":"completed","startedAt"`)
	all.cancel()
	all.must(exitInterrupted)

	stdout, _ := h.run(exitDone, "history", "-o", "name", "-n", "1")
	if stdout != "2\n" {
		t.Errorf("got %q", stdout)
	}
	_, stderr = h.run(exitFailed, "history", "99")
	contains(t, stderr, "error: prod has no record 99\n")
	stdout, _ = h.run(exitDone, "__complete", "history", "")
	contains(t, stdout, "2\tstart-members, completed, 0s ago\n1\tbootstrap, completed")
}

func TestSSHKey_IsSealedListedAndKeptWhileInUse(t *testing.T) {
	h := newHouse(t)
	key, public := sshKey(t, "")
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public)))
	file := h.write("id_ed25519", key)
	stdout, stderr := h.run(exitDone, "ssh-key", "set", file)
	if stdout != line+"\n" {
		t.Errorf("stdout is %q, want the public key", stdout)
	}
	contains(t, stderr, "Sealed for all clusters.")
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", clusterFile))
	_, stderr = h.run(exitRefused, "ssh-key", "delete")
	contains(t, stderr, "it is in use by node cp1 of prod", "Nothing was changed.")
	h.run(exitDone, "ssh-key", "set", "--node", "10.0.0.12", file)
	h.startWith(key, "ssh-key", "set", "--cluster", "prod", "-").must(exitDone)
	stdout, _ = h.run(exitDone, "ssh-key", "list")
	fp := ssh.FingerprintSHA256(public)
	contains(t, stdout, "CLUSTER  NODE  FINGERPRINT", "all      all   "+fp, "prod     all   "+fp, "prod     cp2   "+fp)
	if strings.Contains(stdout, "PRIVATE") {
		t.Errorf("a secret is shown: %s", stdout)
	}
	h.run(exitDone, "ssh-key", "delete")
	_, stderr = h.run(exitFailed, "ssh-key", "delete")
	contains(t, stderr, "there is no SSH key for all clusters")

	locked, _ := sshKey(t, "open sesame")
	_, stderr = h.run(exitRefused, "ssh-key", "set", h.write("locked", locked))
	contains(t, stderr, "error[CKE206]: ", "a passphrase protects it", "Nothing was changed.")
	_, stderr = h.run(exitFailed, "ssh-key", "set", "--node", "cp9", file)
	contains(t, stderr, "cluster prod declares no node cp9\n", "declared: cp1, cp2, cp3\n")
}

func TestNode_AcceptKeyShowsBothKeysAndAsks(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	_, known := sshKey(t, "")
	_, other := sshKey(t, "")
	line := func(k ssh.PublicKey) string { return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k))) }
	if err := l.term.PinHostKey(h.ctx(), "10.0.0.13", line(known)); err != nil {
		t.Fatal(err)
	}
	_, stderr := h.run(exitRefused, "node", "accept-key", "cp3")
	contains(t, stderr, "error[CKE203]: cp3 has shown no other host key than the known one\n")
	if err := l.term.OfferHostKey(h.ctx(), "10.0.0.13", line(other)); err != nil {
		t.Fatal(err)
	}
	shown := []string{"cp3 (10.0.0.13) shows another host key", "known    " + ssh.FingerprintSHA256(known), "offered  " + ssh.FingerprintSHA256(other)}
	_, stderr = h.run(exitRefused, "node", "accept-key", "cp3")
	contains(t, stderr, append(shown, "error[CKE107]: accepting the host key of cp3 was not confirmed\nNothing was changed.\n")...)
	_, stderr = h.run(exitRefused, "node", "accept-key", "cp3", "--fingerprint", ssh.FingerprintSHA256(known))
	contains(t, stderr, "it has another fingerprint than the one given")
	ask := h.onTerminal("node", "accept-key", "cp3")
	ask.stdout.await(t, "Is this the key of the machine? [y/N] ")
	ask.types("\n")
	ask.must(exitRefused)
	ask = h.onTerminal("node", "accept-key", "cp3")
	ask.stdout.await(t, "[y/N] ")
	ask.types("y\n")
	ask.must(exitDone)
	pinned, err := h.store.HostKeys(h.ctx(), "prod")
	if err != nil || pinned["10.0.0.13"] != line(other) {
		t.Errorf("%v %v", pinned, err)
	}
}

func TestNode_ListHasARowForEveryNode(t *testing.T) {
	h := declared(t)
	_, stderr := h.run(exitDone, "node", "list")
	contains(t, stderr, "prod has no status yet")
	l := h.lead("prod")
	id := h.form(l)
	s := ready(1)
	for i, j := range id.Joins[:2] {
		n := cke.NodeStatus{Node: j.Node, SeenAt: time.Now(), EngineVersion: "20.10.24"}
		if i == 0 {
			n.Containers = []cke.Container{{Name: j.Volume, Cluster: "prod", State: cke.ContainerRunning}}
		} else {
			n.SeenAt = time.Time{}
			n.Problem = &cke.Problem{Code: cke.CodeSSHAuth, Node: "cp2", Message: "ssh 10.0.0.12:22: permission denied"}
		}
		s.Nodes = append(s.Nodes, n)
	}
	s.Nodes = append(s.Nodes, cke.NodeStatus{Node: cke.Node{Address: "10.0.0.99", Hostname: "gone"}, SeenAt: time.Now()})
	l.status(s)
	stdout, _ := h.run(exitDone, "node", "list")
	want := `NODE  ADDRESS    USER  CARRIES       ENGINE    CONTAINER  SEEN    PROBLEM
cp1   10.0.0.11  cke   member        20.10.24  running    0s ago  -
cp2   10.0.0.12  cke   member        20.10.24  -          never   ssh 10.0.0.12:22: permission denied [CKE202]
cp3   10.0.0.13  cke   member        -         -          never   -
gone  10.0.0.99  -     not declared  -         -          0s ago  -
`
	if stdout != want {
		t.Errorf("got\n%s", stdout)
	}
	stdout, _ = h.run(exitDone, "node", "list", "-o", "name")
	if stdout != "cp1\ncp2\ncp3\ngone\n" {
		t.Errorf("got %q", stdout)
	}
}

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
	contains(t, stderr, "alice.crt is there already")
	h.run(exitDone, "etcd", "issue", "alice", "--out", out, "--overwrite")
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

func TestImages_TellsWhichArchiveHoldsWhat(t *testing.T) {
	h := declared(t)
	stdout, _ := h.run(exitDone, "images")
	contains(t, stdout, "gcr.io/etcd-development/etcd:v3.6.16  prod       none in "+h.dir+"/images: nodes must have it, or pull it\n")
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	manifest := `[{"RepoTags":["gcr.io/etcd-development/etcd:v3.6.16"]}]`
	err := errors.Join(w.WriteHeader(&tar.Header{Name: "manifest.json", Size: int64(len(manifest)), Mode: 0o644}), func() error { _, err := w.Write([]byte(manifest)); return err }(), w.Close())
	if err != nil {
		t.Fatal(err)
	}
	file := h.write("images/etcd.tar", b.String())
	h.write("images/broken.tar", "no archive at all")
	stdout, _ = h.run(exitDone, "images")
	contains(t, stdout, "gcr.io/etcd-development/etcd:v3.6.16  prod       "+file+"\n")
}

func TestLeader_ResignWaitsForTheNextTerm(t *testing.T) {
	h := declared(t)
	_, stderr := h.run(exitNoStatus, "leader")
	contains(t, stderr, "error[CKE108]: no daemon leads prod\n")
	l := h.lead("prod")
	l.status(ready(1))
	stdout, _ := h.run(exitDone, "leader")
	contains(t, stdout, "HOST    TERM  SINCE\nboot-1  1     0s\n")
	resign := h.start("leader", "--resign")
	for state := range h.store.WatchCluster(h.ctx(), "prod") {
		if state.ResignRequested(l.term.Number()) {
			break
		}
	}
	if err := l.term.Resign(h.ctx()); err != nil {
		t.Fatal(err)
	}
	h.lead("prod").status(ready(1))
	resign.must(exitDone)
	contains(t, resign.stdout.String(), "boot-1  2 ")
	contains(t, resign.stderr.String(), "boot-1, which leads prod in term 1, was asked to resign")
}

func TestInit_WritesAFileThatIsInOrder(t *testing.T) {
	h := newHouse(t)
	stdout, stderr := h.run(exitDone, "cluster", "init", "--name", "lab", "cke@10.0.0.11", "fd00::12", "10.0.0.13")
	if stderr != "" {
		t.Error(stderr)
	}
	golden(t, "init.yml", stdout)
	stdout, _ = h.run(exitDone, "cluster", "validate", h.write("lab.yml", stdout))
	contains(t, stdout, "lab.yml is in order: cluster lab, 3 members of etcd "+cke.DefaultEtcdVersion+"\n")
	_, stderr = h.run(exitUsage, "cluster", "init", "cp1.example.org")
	contains(t, stderr, `"cp1.example.org" is not an IP address`)
	h.run(exitRefused, "cluster", "init", "--name", "No Name", "10.0.0.11")
}

func TestErrors_AreJSONWhenTheOutputIs(t *testing.T) {
	h := newHouse(t)
	for _, args := range [][]string{{"cluster", "set", "-o", "json", h.write("bad.yml", "name: 1 2\nnodez: []\n")}, {"status", "-o", "json"}, {"-ojson", "bogus"}, {"--output=json", "status", "--bogus"}} {
		c := h.start(args...)
		if c.wait() == exitDone {
			t.Errorf("%q succeeded", args)
		}
		var e struct {
			Code, Message, Try *string
			Facts              []string
			Unchanged          *bool
			Faults             []cke.Fault
		}
		if err := json.Unmarshal([]byte(c.stderr.String()), &e); err != nil || e.Code == nil || e.Message == nil || e.Facts == nil || e.Unchanged == nil {
			t.Errorf("%q: %v in %s", args, err, c.stderr)
		}
		if args[0] == "cluster" && len(e.Faults) < 2 {
			t.Errorf("not every fault is told: %s", c.stderr)
		}
	}
}
