package main

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// etcdctl puts a program of one shell script before all others in PATH.
func (h *house) etcdctl(script string) {
	h.t.Helper()
	path := h.write("bin/etcdctl", "#!/bin/sh\n"+script)
	if err := os.Chmod(path, 0o700); err != nil {
		h.t.Fatal(err)
	}
	t := h.t.(*testing.T)
	t.Setenv("PATH", filepath.Dir(path)+":"+os.Getenv("PATH"))
	h.write("tmp/.keep", "")
	t.Setenv("TMPDIR", filepath.Join(h.dir, "tmp"))
	t.Setenv("HOUSE", h.dir)
}

// noCertificateLeft fails the test if `etcd ctl` left something behind.
func (h *house) noCertificateLeft() {
	h.t.Helper()
	if left, err := filepath.Glob(filepath.Join(h.dir, "tmp", "ckecli-*")); err != nil || len(left) > 0 {
		h.t.Errorf("left behind: %v %v", left, err)
	}
}

func TestCtl_RunsEtcdctlWithACertificateThatIsRemoved(t *testing.T) {
	h := declared(t)
	h.form(h.lead("prod"))
	h.etcdctl(`
for a in "$@"; do echo "$a"; case $a in --cert=*) cert=${a#--cert=};; esac; done
cp "$cert" "${cert%.crt}.key" "$HOUSE"; stat -c %a "$(dirname "$cert")"
echo "has ${ETCDCTL_ENDPOINTS-none} ${ETCDCTL_USER-none}"; cat; echo trouble >&2; exit 42`)
	t.Setenv("ETCDCTL_ENDPOINTS", "https://127.0.0.1:1")
	t.Setenv("ETCDCTL_USER", "root")
	ctl := h.startWith("typed", "etcd", "ctl", "--as", "alice", "--", "get", "--prefix", "/a b").must(42)
	contains(t, ctl.stdout.String(), "--endpoints=https://10.0.0.11:2379,https://10.0.0.12:2379,https://10.0.0.13:2379\n", "\nget\n--prefix\n/a b\n700\nhas none root\ntyped")
	if got := ctl.stderr.String(); got != "trouble\n" {
		t.Errorf("got %q", got)
	}
	h.noCertificateLeft()
	pair, err := tls.LoadX509KeyPair(filepath.Join(h.dir, "alice.crt"), filepath.Join(h.dir, "alice.key"))
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(pair.Leaf.NotAfter); pair.Leaf.Subject.CommonName != "alice" || left > ctlTTL {
		t.Errorf("%s, valid for %s", pair.Leaf.Subject, left)
	}
	stdout, _ := h.run(42, "etcd", "ctl", "endpoint", "health", "--cluster")
	contains(t, stdout, "\nendpoint\nhealth\n--cluster\n")
	stdout, _ = h.run(42, "etcd", "ctl", "--", "--endpoints", "https://10.0.0.12:2379", "endpoint", "status")
	contains(t, stdout, "--cacert=", "\n--endpoints\nhttps://10.0.0.12:2379\nendpoint\n")
	if strings.Contains(stdout, "--endpoints=") {
		t.Errorf("endpoints were added to those that were asked for: %s", stdout)
	}
}

// A terminal that is closed, or a service that is stopped, leaves no key behind.
func TestCtl_PassesSignalsOnAndRemovesTheCertificate(t *testing.T) {
	h := declared(t)
	h.form(h.lead("prod"))
	for name, c := range map[string]struct {
		script string
		code   int
	}{
		"it ends by the signal":  {`echo begun; exec sleep 60`, 128 + int(syscall.SIGHUP)},
		"it ends in good order":  {`trap 'echo ended; exit 3' HUP; echo begun; while :; do sleep 0.02; done`, 3},
		"it was told twice more": {`n=0; trap 'n=$((n+1)); echo told $n' HUP; echo begun; while [ $n -lt 2 ]; do sleep 0.02; done; exit 4`, 4},
	} {
		t.Run(name, func(t *testing.T) {
			h.t = t
			h.etcdctl(c.script)
			ctl := h.start("etcd", "ctl", "--", "watch", "x")
			ctl.stdout.await(t, "begun")
			hangUp(t)
			if c.code == 4 {
				ctl.stdout.await(t, "told 1")
				hangUp(t)
			}
			ctl.must(c.code)
			h.noCertificateLeft()
		})
	}
}

// hangUp sends SIGHUP to this process, as a terminal does that is closed.
func hangUp(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

func TestCtl_EndsAtTheTimeout(t *testing.T) {
	h := declared(t)
	h.form(h.lead("prod"))
	h.etcdctl(`exec sleep 60`)
	_, stderr := h.run(exitTimedOut, "etcd", "ctl", "--timeout", "300ms", "--", "watch", "x")
	contains(t, stderr, "--timeout")
	h.noCertificateLeft()
}

func TestCtl_SaysWhatIsMissing(t *testing.T) {
	h := declared(t)
	h.etcdctl("true")
	_, stderr := h.run(exitRefused, "etcd", "ctl", "--", "member", "list")
	contains(t, stderr, "error[CKE109]: prod is not formed yet")
	h.noCertificateLeft()
	h.run(exitUsage, "etcd", "ctl")
	h.run(exitUsage, "etcd", "ctl", "--as", "../x", "--", "get")
	t.Setenv("PATH", strings.Split(os.Getenv("PATH"), ":")[0]+"/none")
	_, stderr = h.run(exitRefused, "etcd", "ctl", "--", "member", "list")
	contains(t, stderr, "error: there is no etcdctl in PATH on this host\n", "Nothing was changed.\nTry: ckecli etcd env, for another client of etcd\n")
}
