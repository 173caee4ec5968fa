package mtest_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/internal/golden"
	"cke/mtest/lab"
	"cke/storage"
)

var (
	packagesDir    = flag.String("packages", "", "install the package in this directory on a host with systemd, and play its life")
	earlierPackage = flag.String("earlier", "", "commit whose package is installed before that of -packages (default: that of packaging/earlier.sh)")
)

// watchdogLimit bounds how long systemd may take to kill a daemon that is stopped, and to start it again.
const watchdogLimit = 2 * time.Minute

// installed is a story whose management host is a machine of its own, with systemd, and with cke as packages install it.
type installed struct {
	*story
	host *lab.Host
}

// The life of packages on hosts with systemd: installed, upgraded, downgraded, removed, while a cluster that they bootstrapped keeps
// running.
func TestLabPackages_LiveWhileTheClusterKeepsRunning(t *testing.T) {
	needPackages(t)
	earlier := buildEarlier(t, *earlierPackage)
	later := buildLater(t)
	t.Run("deb", func(t *testing.T) { newInstalled(t).lifeOfDeb(earlier, later) })
	t.Run("rpm", func(t *testing.T) { newInstalled(t).lifeOfRPM(earlier) })
}

// bring puts the packages whose names end so on the host, as /root/present.KIND and /root/earlier.KIND, and the key of the nodes.
func (i installed) bring(kind, end, earlier string) {
	i.Helper()
	present := packageIn(i.T, *packagesDir, end)
	for name, file := range map[string]string{"/root/present." + kind: present, "/root/earlier." + kind: packageIn(i.T, earlier, end), "/root/key": i.nodes[0].RestrictedKeyFile} {
		i.put(name, file)
	}
}

// put copies a file to the host.
func (i installed) put(name, file string) {
	i.Helper()
	data, err := os.ReadFile(file)
	i.must(err)
	i.must(i.host.Put(i.ctx, name, data, 0o600))
}

func (i installed) lifeOfDeb(earlier, later string) {
	i.bring("deb", "_"+runtime.GOARCH+".deb", earlier)
	i.put("/root/later.deb", packageIn(i.T, later, "_"+runtime.GOARCH+".deb"))
	i.run("lintian --allow-root --fail-on error /root/present.deb")
	i.run(`dpkg --compare-versions "$(dpkg-deb -f /root/earlier.deb Version)" lt "$(dpkg-deb -f /root/present.deb Version)"`)
	i.run("dpkg -i /root/earlier.deb")
	i.firstStart()
	i.bootstrap()
	before := i.members()
	i.worksInItsSandbox()

	i.run("dpkg -i /root/present.deb")
	i.leads(before)
	i.is("dpkg-query -W -f '${Version}' cke", i.run("dpkg-deb -f /root/present.deb Version"))
	i.run("systemctl restart cke && ckecli cluster list") // it is ready once the store answers
	i.run("dpkg -i /root/earlier.deb 2>&1 | grep -i downgrading")
	i.leads(before)
	i.run("dpkg -i /root/present.deb")
	i.leads(before)
	i.restartsAfterAHang()
	i.leads(before)

	i.run("systemctl stop cke && dpkg -i /root/present.deb")
	i.is("systemctl is-active cke || true", "inactive") // an administrator stopped it
	i.run("systemctl start cke")
	i.run("dpkg -r cke")
	i.isGone(before)
	i.run("dpkg -i /root/present.deb")
	i.leads(before)
	out := i.run("dpkg -P cke 2>&1")
	if !strings.Contains(out, "rm -r /etc/cke /var/lib/cke") {
		i.Errorf("purging does not say how to remove the data:\n%s", out)
	}
	i.isGone(before)
	i.is("ls -d /etc/systemd/system/multi-user.target.wants/cke.service 2>/dev/null || true", "")
	i.run("dpkg -i /root/present.deb")
	i.leads(before)
	i.isShutOut(before)
}

// isShutOut returns to the present package after a later one raised the schema of the store: its daemon refuses to lead, says so, and
// touches no member, until the later one is installed again.
func (i installed) isShutOut(before string) {
	i.Helper()
	i.run("dpkg -i /root/later.deb")
	i.leads(before)
	i.run("ckecli store schema --raise")
	i.run("dpkg -i /root/present.deb 2>&1 | grep -i downgrading")
	says := fmt.Sprintf("the store has schema %d, but this cke knows at most %d", laterSchema, storage.SchemaVersion)
	i.eventually("the daemon to refuse to lead", func() bool {
		return strings.HasPrefix(i.run("systemctl show -P StatusText cke"), "waiting: "+says)
	})
	i.is("systemctl is-active cke", "active")
	i.run("journalctl -u cke --no-pager | grep '" + says + ".*" + string(cke.CodeSchema) + "'")
	i.is("curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:10180/health", "503")
	i.is("ckecli ssh-key set /root/key 2>/dev/null || echo $?", "6")
	i.run(`! ckecli store schema -o json | grep '"host"'`)
	i.same(before)
	i.run("dpkg -i /root/later.deb")
	i.leads(before)
}

func needPackages(t *testing.T) {
	t.Helper()
	if *packagesDir == "" {
		t.Skip("no packages: make packages-test builds them")
	}
}

// newInstalled borrows three nodes and starts a management host with systemd, on which nothing is installed yet.
func newInstalled(t *testing.T) installed {
	t.Helper()
	needPackages(t)
	s := newStory(t, 3)
	h, err := s.Lab.StartHost(s.ctx)
	if h != nil {
		t.Cleanup(func() {
			if err := h.Remove(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		})
	}
	s.must(err)
	return installed{s, h}
}

// packageIn returns the one package in a directory whose name ends so.
func packageIn(t *testing.T, dir, end string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*"+end))
	if err != nil || len(found) != 1 {
		t.Fatalf("%d packages end with %s in %s, %v", len(found), end, dir, err)
	}
	return found[0]
}

// buildEarlier builds the packages of a commit in a clone, and returns their directory.
func buildEarlier(t *testing.T, commit string) string {
	t.Helper()
	find := exec.CommandContext(t.Context(), "git", "rev-parse", commit)
	if commit == "" {
		find = exec.CommandContext(t.Context(), "../packaging/earlier.sh")
	}
	hash, err := find.Output()
	if err != nil {
		t.Fatal(err)
	}
	return build(t, strings.TrimSpace(string(hash)), "")
}

// laterSchema is the schema of the store that a later version of cke knows.
const laterSchema = storage.SchemaVersion + 1

// buildLater builds the package of a later version, which knows a newer schema of the store.
func buildLater(t *testing.T) string {
	t.Helper()
	return build(t, "HEAD", fmt.Sprintf("sed -i 's/^const SchemaVersion = .*/const SchemaVersion = %d/' storage/version.go; export VERSION=9999", laterSchema))
}

// build builds the packages of a commit in a clone in which a script has changed something, and returns their directory.
func build(t *testing.T, commit, change string) string {
	t.Helper()
	clone := filepath.Join(t.TempDir(), "clone")
	cmd := exec.CommandContext(t.Context(), "bash", "-ec", `git clone -q --shared .. "$1"; cd "$1"; git checkout -q "$2"; eval "$4"; ARCHS=$3 packaging/packages.sh`,
		"bash", clone, commit, runtime.GOARCH, change)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the packages of %s: %v\n%s", commit, err, out)
	}
	return filepath.Join(clone, "dist")
}

// run runs a command of the shell on the host, which has to succeed.
func (i installed) run(script string) string {
	i.Helper()
	out, err := i.host.Exec(i.ctx, "bash", "-o", "pipefail", "-ec", script)
	if err != nil {
		log, _ := i.host.Exec(i.ctx, "journalctl", "-u", "cke", "-n", "40", "--no-pager") // it is for the message
		i.Fatalf("%s: %v\n%s\n%s", script, err, out, log)
	}
	return strings.TrimSpace(out)
}

// is checks what a command writes.
func (i installed) is(script, want string) {
	i.Helper()
	if got := i.run(script); got != want {
		i.Errorf("%s: %q, want %q", script, got, want)
	}
}

// firstStart checks what installing leaves: a daemon that runs as its own user, with its own key, and answers.
func (i installed) firstStart() {
	i.Helper()
	i.is("systemctl is-active cke; systemctl is-enabled cke", "active\nenabled")
	i.is("systemctl show -P StatusText cke", "serving; leads no cluster")
	i.is("stat -c '%U:%G %a' /etc/cke /etc/cke/secret.key /var/lib/cke /var/lib/cke/store", "root:cke 1775\ncke:cke 600\ncke:cke 700\ncke:cke 700")
	i.is(`stat -c %U "/proc/$(systemctl show -P MainPID cke)"`, "cke")
	i.is("systemctl is-system-running", "running")
	i.run("ckecli cluster list")
}

// bootstrap declares a cluster on the nodes of the lab, with backups and drills, and waits until it is ready.
func (i installed) bootstrap() {
	i.Helper()
	c := i.spec()
	c.Backup = cke.Backup{Target: "file:///var/lib/cke/backups", Full: cke.BackupSchedule{Schedule: "0 * * * *"},
		Delta: cke.BackupDelta{Period: cke.Duration(time.Second)}, Verify: cke.BackupSchedule{Schedule: "* * * * *"}}
	path, err := i.WriteSpec(c)
	i.must(err)
	data, err := os.ReadFile(path)
	i.must(err)
	i.must(i.host.Put(i.ctx, "/root/cluster.yml", data, 0o600))
	i.run("ckecli ssh-key set /root/key && ckecli cluster set /root/cluster.yml")
	i.is("systemctl show -P StatusText cke", "serving; leads prod")
}

// members are the containers and volumes on the nodes, with the time at which each container was started.
func (i installed) members() string {
	i.Helper()
	var all []string
	for _, n := range i.nodes {
		all = append(all, i.carried(n), i.on(n, `docker inspect -f '{{.Name}} {{.State.StartedAt}}' $(docker ps -q)`))
	}
	return strings.Join(all, "")
}

// leads waits until the daemon leads the cluster and finds it healthy, with the same members.
func (i installed) leads(before string) {
	i.Helper()
	i.healthy()
	i.same(before)
}

// healthy waits until the daemon leads the cluster and finds it healthy.
func (i installed) healthy() {
	i.Helper()
	for late := time.Now().Add(seenLimit); ; time.Sleep(200 * time.Millisecond) {
		out, err := i.host.Exec(i.ctx, "bash", "-c", "systemctl show -P StatusText cke; ckecli status --check")
		if err == nil && strings.HasPrefix(out, "serving; leads prod\n") {
			break
		}
		if time.Now().After(late) {
			i.Fatalf("the daemon on the host does not lead a healthy cluster: %v\n%s", err, out)
		}
	}
}

// same checks that members run as before.
func (i installed) same(before string) {
	i.Helper()
	if now := i.members(); now != before {
		i.Errorf("the members are\n%s\nand were\n%s", now, before)
	}
}

// worksInItsSandbox checks that the daemon takes backups and restores one to scratch, and that nodes can be checked.
func (i installed) worksInItsSandbox() {
	i.Helper()
	i.run("ckecli backup now")
	i.run("ckecli backup verify --target file:///var/lib/cke/backups")
	for ctx := i.within(seenLimit); ; {
		var st cke.Status
		i.must(json.Unmarshal([]byte(i.run("ckecli status -o json")), &st))
		if st.Backup != nil && st.Backup.Verified != nil {
			break
		}
		if ctx.Err() != nil {
			i.Fatalf("no drill succeeded: %+v", st.Backup)
		}
		time.Sleep(time.Second)
	}
	i.preflightInSandbox()
	exposed := i.run(`systemd-analyze security --no-pager cke | sed -n 's/.*exposure level for cke.service: \([0-9.]*\).*/\1/p'`)
	if level, err := strconv.ParseFloat(exposed, 64); err != nil || level > mostExposed {
		i.Errorf("systemd-analyze security: %q, want %v at most", exposed, mostExposed)
	}
}

// mostExposed is the exposure level that systemd may give to the unit, of 10.
const mostExposed = 1.5

// preflightInSandbox checks nodes as the user of the unit and with its properties: it passes with exit code 0, or names
// nothing but a slow disk and has 1. Anything else, such as a refusal (6), is the fault of the sandbox.
func (i installed) preflightInSandbox() {
	i.Helper()
	i.run("install -o cke -m 600 /root/cluster.yml /var/lib/cke/preflight.yml")
	unit := i.run("cat /usr/lib/systemd/system/cke.service")
	// Not systemd-run, which needs a message bus that the host lacks; not below /run, which is another file system for Docker.
	i.must(i.host.Put(i.ctx, "/etc/systemd/system/preflight.service", []byte("[Service]\nType=oneshot\n"+serviceOf(unit)+
		"\nExecStart=/usr/bin/ckecli preflight /var/lib/cke/preflight.yml -o name\nStandardOutput=file:/run/preflight.out\nStandardError=journal\n"), 0o644))
	i.run("systemctl daemon-reload; systemctl start preflight || true")
	code, out := i.run("systemctl show -P ExecMainStatus preflight"), i.run("cat /run/preflight.out")
	failed := strings.Fields(out)
	onlyDisks := len(failed) > 0 && !slices.ContainsFunc(failed, func(name string) bool { return !strings.HasSuffix(name, "/disk") })
	if code != "0" && !(code == "1" && onlyDisks) {
		i.Errorf("preflight in the sandbox of the unit has %s\n%s\n%s", code, out, i.run("journalctl -u preflight --no-pager"))
	}
	i.run("rm /etc/systemd/system/preflight.service /run/preflight.out && systemctl reset-failed && systemctl daemon-reload")
	i.run("rm /var/lib/cke/preflight.yml")
}

// serviceOf returns the properties of a unit that limit what its processes may do, one a line.
func serviceOf(unit string) string {
	_, service, _ := strings.Cut(unit, "\n[Service]\n")
	service, _, _ = strings.Cut(service, "\n[")
	var all []string
	for line := range strings.Lines(service) {
		name, _, is := strings.Cut(strings.TrimSpace(line), "=")
		if is && !strings.HasPrefix(name, "#") && !slices.Contains([]string{"Type", "ExecStart", "Restart", "RestartSec", "TimeoutStopSec", "WatchdogSec"}, name) {
			all = append(all, strings.TrimSpace(line))
		}
	}
	return strings.Join(all, "\n")
}

// The sandbox of the story is that of the unit, without what starts the daemon.
func TestPackages_TheSandboxIsThatOfTheUnit(t *testing.T) {
	got := serviceOf(golden.Read(t, "../packaging/cke.service"))
	for _, want := range []string{"User=cke", "ProtectHome=yes", "SystemCallFilter=~@privileged @resources", "CapabilityBoundingSet=", "StateDirectory=cke"} {
		if !slices.Contains(strings.Split(got, "\n"), want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	for _, no := range []string{"#", "ExecStart", "Restart", "Type=", "WantedBy"} {
		if strings.Contains(got, no) {
			t.Errorf("%s in\n%s", no, got)
		}
	}
}

// restartsAfterAHang stops the process, as a hang of all its loops would.
func (i installed) restartsAfterAHang() {
	i.Helper()
	restarts := i.run("systemctl show -P NRestarts cke")
	began := time.Now()
	i.run("systemctl kill -s STOP cke")
	for ctx := i.within(watchdogLimit); i.run("systemctl show -P NRestarts cke") == restarts; time.Sleep(time.Second) {
		if ctx.Err() != nil {
			i.Fatal("the watchdog does not end a daemon that is stopped")
		}
	}
	i.Logf("started again %s after it was stopped", since(began))
}

// isGone checks that no program and no daemon is left, that key and store are, and that members run as before.
func (i installed) isGone(before string) {
	i.Helper()
	i.is("ls /usr/bin/cke /usr/bin/ckecli /usr/lib/systemd/system/cke.service 2>/dev/null || true; readlink /proc/[0-9]*/exe | grep /usr/bin/cke || true", "")
	i.is("stat -c '%U %a' /etc/cke/secret.key /var/lib/cke/store", "cke 600\ncke 700")
	i.same(before)
}
