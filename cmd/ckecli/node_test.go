package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"cke"
)

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

func TestSSHKey_IsSealedListedAndKeptWhileInUse(t *testing.T) {
	h := newHouse(t)
	key, public := sshKey(t, "")
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public)))
	file := h.write("id_ed25519", key)
	stdout, stderr := h.run(exitDone, "ssh-key", "set", file)
	if nodes, err := os.ReadFile("../../docs/nodes.md"); err != nil || stdout != cke.KeyOptions+" "+line+"\n" || !strings.Contains(string(nodes), cke.KeyOptions) {
		t.Errorf("stdout is %q, want the line of docs/nodes.md with the public key; %v", stdout, err)
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
	contains(t, stderr, "error[CKE206]: ", "it is protected by a passphrase", "Nothing was changed.")
	_, stderr = h.run(exitFailed, "ssh-key", "set", "--node", "cp9", file)
	contains(t, stderr, "cluster prod declares no node cp9\n", "declared: cp1, cp2, cp3\n")
}

func TestNode_AcceptKeyShowsBothKeysAndAsks(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	_, stderr := h.run(exitRefused, "node", "accept-key", "cp3")
	contains(t, stderr, "error[CKE203]: cp3 has shown no host key yet\n  the first one that it shows is trusted\nNothing was changed.\n")
	_, known := sshKey(t, "")
	_, other := sshKey(t, "")
	line := func(k ssh.PublicKey) string { return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k))) }
	if err := l.term.PinHostKey(h.ctx(), "10.0.0.13", line(known)); err != nil {
		t.Fatal(err)
	}
	_, stderr = h.run(exitRefused, "node", "accept-key", "cp3")
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

// The cluster file says which key a node has: that is the known one, whatever was pinned before.
func TestNode_AcceptKeyKnowsTheKeyInTheFile(t *testing.T) {
	h := newHouse(t)
	_, known := sshKey(t, "")
	_, other := sshKey(t, "")
	line := func(k ssh.PublicKey) string { return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k))) }
	file := strings.Replace(clusterFile, "address: 10.0.0.11,", "address: 10.0.0.11, ssh: {host_key: \""+line(known)+"\"},", 1)
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", file))
	l := h.lead("prod")
	_, stderr := h.run(exitRefused, "node", "accept-key", "cp1")
	contains(t, stderr, "cp1 has shown no other host key than the known one\n", "known    "+ssh.FingerprintSHA256(known))
	if err := l.term.OfferHostKey(h.ctx(), "10.0.0.11", line(other)); err != nil {
		t.Fatal(err)
	}
	_, stderr = h.run(exitRefused, "node", "accept-key", "cp1")
	contains(t, stderr, "known    "+ssh.FingerprintSHA256(known), "offered  "+ssh.FingerprintSHA256(other), "the cluster file says which host key cp1 has")
}

// The first key of a node may have been offered by another machine before any was pinned.
func TestNode_AcceptKeyOfANodeThatIsNotKnownYet(t *testing.T) {
	h := declared(t)
	_, other := sshKey(t, "")
	if err := h.lead("prod").term.OfferHostKey(h.ctx(), "10.0.0.12", strings.TrimSpace(string(ssh.MarshalAuthorizedKey(other)))); err != nil {
		t.Fatal(err)
	}
	_, stderr := h.run(exitRefused, "node", "accept-key", "cp2")
	contains(t, stderr, "cp2 (10.0.0.12) shows a host key, and none is known of it:\n  offered  "+ssh.FingerprintSHA256(other))
	if strings.Contains(stderr, "known    ") {
		t.Errorf("a key is told that nobody knows: %s", stderr)
	}
}

func TestNode_ListHasARowForEveryNode(t *testing.T) {
	h := declared(t)
	h.stopClock()
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
