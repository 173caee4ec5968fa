package mtest_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"cke/mtest/lab"
)

// The sections of docs/install.md whose commands are performed, in this order.
const (
	walkFirst  = "The first ten minutes"
	walkConfig = "What the package installs"
	walkRemove = "Removing it"
)

// The commands of the page with which more is done, or checked, than it says beside them.
const (
	walkPage     = "curl -s http://127.0.0.1:10180/         # shows The cluster is healthy"
	walkPowerOff = "ssh root@10.0.0.13 poweroff"
	walkResolved = `promtool query instant http://127.0.0.1:9090 'ALERTS{alertstate="firing"}'     # within 4 minutes shows nothing`
)

// walkLimit bounds the walk: its alert holds for five minutes before it fires, as in production.
const walkLimit = 25 * time.Minute

// An operator types what docs/install.md says, at a terminal, with the addresses of real nodes.
func TestLabPackages_TheFirstTenMinutesAreAsThePageSays(t *testing.T) {
	i := newInstalled(t)
	var cancel context.CancelFunc
	i.ctx, cancel = context.WithTimeout(t.Context(), walkLimit)
	t.Cleanup(cancel)
	i.packageAndLogin()
	confirmed := ""
	for _, command := range walk(t, walkFirst) {
		switch {
		case command == walkPowerOff: // a lab node has no such program; it has a power switch
			i.must(i.Lab.Kill(i.ctx, i.nodes[2].Name))
			continue
		case command == walkResolved:
			i.must(i.Lab.Start(i.ctx, i.nodes[2].Name))
		}
		switch out := i.typed(command); {
		case strings.Contains(command, " node authorize "):
			confirmed = out
		case command == walkPage && !strings.Contains(out, "/clusters/prod"):
			i.Errorf("the page does not name the cluster:\n%s", out)
		}
	}
	for _, n := range i.nodes {
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(n.HostKey))
		i.must(err)
		if !strings.Contains(confirmed, ssh.FingerprintSHA256(key)) {
			i.Errorf("the host key of %s is not shown to compare:\n%s", n.Name, confirmed)
		}
	}
	i.healthy()
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
	for _, c := range []struct{ section, has string }{
		{walkFirst, walkPage}, {walkFirst, walkPowerOff}, {walkFirst, walkResolved},
		{walkConfig, "systemctl restart cke"}, {walkRemove, "rm -r /etc/cke /var/lib/cke; userdel cke"},
	} {
		if commands := walk(t, c.section); !slices.Contains(commands, c.has) {
			t.Errorf("%q has no %q: %q", c.section, c.has, commands)
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
// Behind "# shows" is what it has to write, and behind "# within 2 minutes shows" what it has to write by then.
func (i installed) typed(command string) string {
	i.Helper()
	for k, example := range []string{"10.0.0.11", "10.0.0.12", "10.0.0.13"} {
		command = strings.ReplaceAll(command, example, i.nodes[k].Address)
	}
	command = strings.ReplaceAll(command, "_amd64.deb", "_"+runtime.GOARCH+".deb")
	if m := within.FindStringSubmatch(command); m != nil {
		return i.typedUntil(command, m[1], m[2])
	}
	out, err := i.atTerminal(command)
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

// within is what a command says about what it shows later: the minutes, and the text, or "nothing".
var within = regexp.MustCompile(`# within (\d+) minutes? shows (.+)$`)

// typedUntil repeats a command until it shows what it has to.
func (i installed) typedUntil(command, minutes, shows string) string {
	i.Helper()
	n, err := strconv.Atoi(minutes)
	i.must(err)
	began := time.Now()
	for {
		out, err := i.atTerminal(command)
		if is := strings.TrimSpace(out); err == nil && (shows == "nothing" && is == "" || shows != "nothing" && strings.Contains(is, shows)) {
			i.Logf("# %s\nafter %s:\n%s", command, since(began), out)
			return out
		}
		if time.Since(began) > time.Duration(n)*time.Minute {
			i.Fatalf("%s: it does not: %v\n%s\n%s", command, err, out, i.run("journalctl -u prometheus -n 40 --no-pager"))
		}
		time.Sleep(time.Second)
	}
}

// atTerminal performs a command at a terminal.
func (i installed) atTerminal(command string) (string, error) {
	out, err := i.host.Exec(i.ctx, "bash", "-c", `cd /root && export SSH_AUTH_SOCK=/root/agent PAGER=cat NO_COLOR=1 && yes | head -20 | script -q -E never -ec "$1" /dev/null`, "bash", command)
	return strings.ReplaceAll(out, "\r", ""), err
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
