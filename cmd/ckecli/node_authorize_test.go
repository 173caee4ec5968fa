package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"cke"
)

// readOnly is a directory in which not even root can make anything.
const readOnly = "/proc"

// letIn is a house whose cke has a key, with the line that nodes get, and an operator with the key in the file me.
func letIn(t *testing.T) (h *house, line string, me string, operator ssh.PublicKey) {
	t.Helper()
	h = newHouse(t)
	key, _ := sshKey(t, "")
	stdout, _ := h.run(exitDone, "ssh-key", "set", h.write("cke.key", key))
	own, operator := sshKey(t, "")
	return h, stdout, h.write("me", own), operator
}

func (d *door) args(more ...string) []string {
	host, _, _ := net.SplitHostPort(d.address)
	return append([]string{"node", "authorize", d.address, "--host-key", host + "=" + ssh.FingerprintSHA256(d.hostKey)}, more...)
}

func TestAuthorize_InstallsTheLineOnceAndProvesIt(t *testing.T) {
	h, line, me, operator := letIn(t)
	d := newDoor(t, "127.0.0.1", operator)
	d.greeting = "Welcome to cke-authorized-key\n"
	stdout, _ := h.run(exitDone, d.args("-i", me)...)
	contains(t, stdout, "NODE       USER  RESULT     ENGINE    DETAIL\n127.0.0.1  root  installed  20.10.24  -\n")
	if d.keys() != line {
		t.Errorf("authorized_keys is %q", d.keys())
	}
	for name, want := range map[string]os.FileMode{".ssh": 0o700, ".ssh/authorized_keys": 0o600} {
		if info, err := os.Stat(filepath.Join(d.home, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v %v, want %o", name, info.Mode(), err, want)
		}
	}
	stdout, _ = h.run(exitDone, d.args("-i", me, "-o", "json")...)
	var rows []authorizedNode
	if err := json.Unmarshal([]byte(stdout), &rows); err != nil || len(rows) != 1 || rows[0].Result != "present" || rows[0].EngineVersion != "20.10.24" || fingerprint(rows[0].HostKey) != fingerprint(string(ssh.MarshalAuthorizedKey(d.hostKey))) {
		t.Errorf("%v %s", err, stdout)
	}
	if left, err := filepath.Glob(filepath.Join(d.home, ".ssh/*")); err != nil || len(left) != 1 || d.keys() != line {
		t.Errorf("%v %v: %q", left, err, d.keys())
	}
	if stdout, _ = h.run(exitDone, "node", "authorize", "--print"); stdout != line {
		t.Errorf("printed %q, want %q", stdout, line)
	}
}

func TestAuthorize_AsksForTheHostKeyAndThePassword(t *testing.T) {
	h, line, _, _ := letIn(t)
	d := newDoor(t, "127.0.0.1", nil)
	d.password = "open sesame"
	_, stderr := h.run(exitRefused, "node", "authorize", d.address)
	contains(t, stderr, ssh.FingerprintSHA256(d.hostKey))
	ask := h.onTerminal("node", "authorize", d.address)
	ask.stdout.await(t, "Is this the key of the machine? [y/N] ")
	ask.types("n\n")
	ask.must(exitRefused)
	if n := d.logins.Load(); n != 0 {
		t.Errorf("%d logins before the host key was confirmed", n)
	}
	ask = h.onTerminal("node", "authorize", "admin@"+d.address)
	ask.stdout.await(t, ssh.FingerprintSHA256(d.hostKey))
	ask.stdout.await(t, "[y/N] ")
	ask.types("y\n")
	ask.stdout.await(t, "Password of admin on 127.0.0.1: ")
	ask.types("wrong\n")
	ask.stdout.awaitTimes(t, "Password of admin", 2)
	ask.types(d.password + "\n")
	ask.must(exitDone)
	if d.keys() != line {
		t.Errorf("authorized_keys is %q; the terminal shows %s", d.keys(), ask.stdout.String())
	}
}

func TestAuthorize_FailsAfterThreeWrongPasswords(t *testing.T) {
	h, _, _, _ := letIn(t)
	d := newDoor(t, "127.0.0.1", nil)
	d.password = "open sesame"
	ask := h.onTerminal(d.args()...)
	for try := range 3 {
		ask.stdout.awaitTimes(t, "Password of root", try+1)
		ask.types("wrong\n")
	}
	ask.must(exitFailed)
	contains(t, ask.stdout.String(), "failed", "refused the SSH login of user root [CKE202]", "ckecli node authorize --print")
	if d.keys() != "" {
		t.Errorf("authorized_keys is %q", d.keys())
	}
}

func TestAuthorize_NeverLogsInToAnotherHostKey(t *testing.T) {
	h, _, me, operator := letIn(t)
	d := newDoor(t, "127.0.0.1", operator)
	_, other := sshKey(t, "")
	_, stderr := h.run(exitUsage, "node", "authorize", d.address, "--host-key", "127.0.0.9="+ssh.FingerprintSHA256(other))
	contains(t, stderr, "with the address of one of the nodes")
	stdout, _ := h.run(exitFailed, "node", "authorize", d.address, "-i", me, "--host-key", ssh.FingerprintSHA256(other))
	contains(t, stdout, "another fingerprint than the one given", ssh.FingerprintSHA256(d.hostKey), "[CKE203]")

	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", strings.Replace(clusterFile, "10.0.0.11", "127.0.0.1", 1)))
	if err := h.lead("prod").term.PinHostKey(h.ctx(), "127.0.0.1", strings.TrimSpace(string(ssh.MarshalAuthorizedKey(other)))); err != nil {
		t.Fatal(err)
	}
	stdout, _ = h.run(exitFailed, "node", "authorize", d.address, "-i", me)
	contains(t, stdout, "cp1", "cke", "failed", "the host key of cp1 has changed", "[CKE203]", "cp1: ckecli node accept-key cp1")
	if n := d.logins.Load(); n != 0 || d.keys() != "" {
		t.Errorf("%d logins; authorized_keys is %q", n, d.keys())
	}
}

func TestAuthorize_ReportsEachNode(t *testing.T) {
	h, line, me, operator := letIn(t)
	_, another := sshKey(t, "")
	good, closed := newDoor(t, "127.0.0.1", operator), newDoor(t, "127.0.0.2", another)
	fixed, locked := newDoor(t, "127.0.0.3", operator), newDoor(t, "127.0.0.4", operator)
	fixed.home, locked.locked = readOnly, true
	args := []string{"node", "authorize"}
	for _, d := range []*door{closed, fixed, locked, good} {
		args = append(args, d.args()[2:]...)
	}
	h.env["SSH_AUTH_SOCK"] = agentWith(t, me)
	stdout, _ := h.run(exitFailed, args...)
	contains(t, stdout, "127.0.0.2  root  failed", "refused the SSH login of user root [CKE202]",
		"127.0.0.3  root  failed", "cannot write ~/.ssh/authorized_keys of root on 127.0.0.3: mkdir: ",
		"127.0.0.4  root  failed", "the line is there, but cke cannot work", "[CKE205]",
		"127.0.0.1  root  installed  20.10.24  -", "127.0.0.2: log in with a key", "127.0.0.3: correct this on the node", "127.0.0.4: on 127.0.0.4: check that Docker runs")
	if good.keys() != line || closed.keys() != "" || locked.keys() != line {
		t.Errorf("%q %q %q", good.keys(), closed.keys(), locked.keys())
	}
}

func TestAuthorize_ReplacesALineWithOtherOptionsOnRequest(t *testing.T) {
	h, line, me, operator := letIn(t)
	d := newDoor(t, "127.0.0.1", operator)
	other := strings.TrimPrefix(line, cke.KeyOptions+" ")
	file := filepath.Join(d.home, "keys")
	if err := os.WriteFile(file, []byte("# mine\n"+other), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(d.home, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../keys", filepath.Join(d.home, ".ssh/authorized_keys")); err != nil {
		t.Fatal(err)
	}
	stdout, stderr := h.run(exitRefused, d.args("-i", me)...)
	contains(t, stderr, "has cke's key with other options:\n  ssh-ed25519 ")
	contains(t, stdout, "failed", "was not confirmed ["+string(cke.CodeConfirm)+"]", "--replace")
	if d.keys() != "# mine\n"+other {
		t.Errorf("authorized_keys is %q", d.keys())
	}
	stdout, _ = h.run(exitDone, d.args("-i", me, "--replace")...)
	contains(t, stdout, "replaced")
	if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() || d.keys() != "# mine\n"+line {
		t.Errorf("%v %v: %q", info.Mode(), err, d.keys())
	}
}

// A command line that means nothing is refused before anything is asked.
func TestAuthorize_RefusesWhatIsNoAddress(t *testing.T) {
	for arg, want := range map[string]string{"@10.0.0.1": "empty user", "10.0.0.1:0": "invalid port", "10.0.0.1:ssh": "invalid port", "root@": "has no address", "a:b:c": "is no address"} {
		if _, err := authorizeTargets([]string{arg}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", arg, err, want)
		}
	}
	all, err := authorizeTargets([]string{"me@[fd00::1]:2222", "fd00::2", "cp3"}, []string{"fd00::2=SHA256:x"})
	if err != nil || all[0].node.User != "me" || all[0].node.SSHAddress() != "[fd00::1]:2222" || all[1].node.Address != "fd00::2" || all[1].fingerprint != "SHA256:x" || all[2].node.Address != "cp3" {
		t.Errorf("%+v %v", all, err)
	}
}

// agentWith starts an ssh-agent with the key in a file, and returns its socket.
func agentWith(t *testing.T, file string) string {
	t.Helper()
	pem, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.ParseRawPrivateKey(pem)
	if err != nil {
		t.Fatal(err)
	}
	keys := agent.NewKeyring()
	if err := keys.Add(agent.AddedKey{PrivateKey: key}); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "agent")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go agent.ServeAgent(keys, c)
		}
	}()
	return socket
}
