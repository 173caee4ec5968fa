package mtest_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"cke/mtest/lab"
)

// The sections of docs/install.md whose commands are performed, in this order.
const (
	walkFirst  = "The first ten minutes"
	walkConfig = "What the package installs"
	walkRemove = "Removing it"
)

// An operator types what docs/install.md says, at a terminal, with the addresses of real nodes.
func TestLabPackages_TheFirstTenMinutesAreAsThePageSays(t *testing.T) {
	i := newInstalled(t)
	i.packageAndLogin()
	confirmed := ""
	for _, command := range walk(t, walkFirst) {
		if out := i.typed(command); strings.Contains(command, " node authorize ") {
			confirmed = out
		}
	}
	for _, n := range i.nodes {
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(n.HostKey))
		i.must(err)
		if !strings.Contains(confirmed, ssh.FingerprintSHA256(key)) {
			i.Errorf("the host key of %s is not shown to compare:\n%s", n.Name, confirmed)
		}
	}
	i.run("ckecli status --check")
	before := i.members()
	for _, command := range walk(t, walkConfig) {
		i.typed(command)
	}
	i.leads(before)
	for _, command := range walk(t, walkRemove) {
		i.typed(command)
	}
	i.is("ls -d /etc/cke /var/lib/cke /usr/bin/cke 2>/dev/null || true; id cke 2>/dev/null || true", "")
	i.same(before)
}

// Each section that is performed has commands, so that a page that was arranged anew is not performed in vain.
func TestWalk_FindsTheCommandsOfThePage(t *testing.T) {
	for section, has := range map[string]string{
		walkFirst: "curl -s http://127.0.0.1:10180/         # shows The cluster is healthy", walkConfig: "systemctl restart cke", walkRemove: "rm -r /etc/cke /var/lib/cke; userdel cke",
	} {
		if commands := walk(t, section); !slices.Contains(commands, has) {
			t.Errorf("%q has no %q: %q", section, has, commands)
		}
	}
}

// walk returns the commands of a section of docs/install.md.
func walk(t *testing.T, section string) []string {
	t.Helper()
	return walkOf(t, "../docs/install.md", section)
}

// walkOf returns the commands of a section of a page: its indented lines, without those for other systems and files.
func walkOf(t *testing.T, file, section string) (commands []string) {
	t.Helper()
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "\n## "+section+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if command, is := strings.CutPrefix(line, "    "); is && !fenced && !strings.HasPrefix(command, "dnf ") {
			commands = append(commands, strings.TrimSpace(command))
		}
	}
	return commands
}

// packageAndLogin gives the operator what the page asks for: the package, and a login as root on the nodes with a key of
// an ssh-agent.
func (i installed) packageAndLogin() {
	i.Helper()
	file := packageIn(i.T, *packagesDir, "_"+runtime.GOARCH+".deb")
	for name, from := range map[string]string{"/root/" + filepath.Base(file): file, "/root/login": i.nodes[0].KeyFile} {
		data, err := os.ReadFile(from)
		i.must(err)
		i.must(i.host.Put(i.ctx, name, data, 0o600))
	}
	i.run("ssh-agent -a /root/agent && SSH_AUTH_SOCK=/root/agent ssh-add /root/login && rm /root/login")
	const sshd = "sed -i 's/^PermitRootLogin .*/PermitRootLogin "
	for _, n := range i.nodes {
		i.on(n, sshd+"prohibit-password/' /etc/ssh/sshd_config && kill -HUP $(cat /run/sshd.pid) && mkdir -m 700 /root/.ssh && grep -v ^restrict /home/cke/.ssh/authorized_keys > /root/.ssh/authorized_keys")
		i.Cleanup(func() {
			i.shutOut(n, sshd+"no/' /etc/ssh/sshd_config && kill -HUP $(cat /run/sshd.pid) && rm -r /root/.ssh")
		})
	}
}

// shutOut restores a node for those who borrow it next.
func (i installed) shutOut(n lab.Node, script string) {
	if _, err := i.Lab.Exec(context.WithoutCancel(i.Context()), n.Name, "sh", "-c", script); err != nil {
		i.Error(err)
	}
}

// typed performs a command of the page at a terminal, as its reader would: with the addresses of the nodes, and y to each question.
// Behind "# shows" is what it has to write.
func (i installed) typed(command string) string {
	i.Helper()
	for k, example := range []string{"10.0.0.11", "10.0.0.12", "10.0.0.13"} {
		command = strings.ReplaceAll(command, example, i.nodes[k].Address)
	}
	command = strings.ReplaceAll(command, "_amd64.deb", "_"+runtime.GOARCH+".deb")
	out, err := i.host.Exec(i.ctx, "bash", "-c", `cd /root && export SSH_AUTH_SOCK=/root/agent PAGER=cat NO_COLOR=1 && yes | head -20 | script -q -E never -ec "$1" /dev/null`, "bash", command)
	out = strings.ReplaceAll(out, "\r", "")
	i.Logf("# %s\n%s", command, out)
	if err != nil && !i.onlyTheDisk(command) {
		log, _ := i.host.Exec(i.ctx, "journalctl", "-u", "cke", "-n", "40", "--no-pager") // it is for the message
		i.Fatalf("%s: %v\n%s", command, err, log)
	}
	if _, shows, said := strings.Cut(command, "# shows "); said && !strings.Contains(out, shows) {
		i.Errorf("%s: it does not", command)
	}
	return out
}

// onlyTheDisk reports whether a command is a preflight that found nothing but a disk of this machine too slow for etcd at present,
// which it reports rightly.
func (i installed) onlyTheDisk(command string) bool {
	if !strings.HasPrefix(command, "ckecli preflight ") {
		return false
	}
	out, err := i.host.Exec(i.ctx, "bash", "-c", "cd /root && ckecli preflight cluster.yml -o name")
	failed := strings.Fields(out)
	return err == nil || len(failed) > 0 && !slices.ContainsFunc(failed, func(name string) bool { return !strings.HasSuffix(name, "/disk") })
}
