package main

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"cke/backup/backuptest"
)

func TestServe_AnEngineThatFailsSaysNothingAboutTheBackup(t *testing.T) {
	backuptest.Programs(t, map[string]string{"docker": `case $1 in run) echo etcd Version: 3.7.0;; create) echo "no space left" >&2; exit 1;; esac`})
	h := newBackedUpHouse(t)
	_, stderr := h.run(exitFailed, "backup", "verify", "--restore", "--target", h.url)
	if !strings.Contains(stderr, "CKE410") || !strings.Contains(stderr, "no space left") || !strings.Contains(stderr, "equal to the cluster's") {
		t.Errorf("got %s", stderr)
	}
	if n := len(h.objects("verified")); n != 0 {
		t.Errorf("%d marks were left", n)
	}
}

// The image that a person named is the one that has to start.
func TestVerify_AnImageThatWasNamedAndIsNotThereIsNoSuccess(t *testing.T) {
	backuptest.Programs(t, map[string]string{"docker": "exit 1\n"})
	h := newBackedUpHouse(t)
	_, stderr := h.run(exitFailed, "backup", "verify", "--restore", "--image", "mine:1", "--target", h.url)
	if !strings.Contains(stderr, "CKE410") || !strings.Contains(stderr, "does not have the image mine:1") {
		t.Errorf("got %s", stderr)
	}
}

// Requirement D2: what is merged is a backup like any other, also for a drill.
func TestVerify_AMergedFullTellsItsVersionOfEtcd(t *testing.T) {
	backuptest.Programs(t, map[string]string{"etcd": "echo etcd Version: 3.5.9\n", "etcdutl": ""})
	h := newBackedUpHouse(t)
	h.run(exitDone, "backup", "compact", "--target", h.url)
	stdout, _ := h.run(exitDone, "backup", "verify", "--restore", "--target", h.url)
	if !strings.Contains(stdout, "and 0 deltas") || !strings.Contains(stdout, "but the backup is from etcd 3.7") {
		t.Errorf("got %s", stdout)
	}
	if stdout, _ := h.run(exitDone, "backup", "show", fmt.Sprint(h.last), "--target", h.url); !strings.Contains(stdout, "etcd 3.7") {
		t.Errorf("got %s", stdout)
	}
}

func TestVerify_RestoresAnEarlierState(t *testing.T) {
	t.Setenv("PATH", "")
	h := newBackedUpHouse(t)
	if stdout, _ := h.run(exitDone, "backup", "verify", "--restore", "--revision", "9", "--target", h.url); !strings.Contains(stdout, "revision 9 of") {
		t.Errorf("got %s", stdout)
	}
	h.run(exitUsage, "backup", "verify", "--revision", "9", "--target", h.url)
}

func TestVerify_SaysWhyNoEtcdWasStarted(t *testing.T) {
	h := newBackedUpHouse(t)
	verify := []string{"backup", "verify", "--restore", "--target", h.url}
	backuptest.Programs(t, map[string]string{"etcd": "echo etcd Version: 3.5.9\n", "etcdutl": "", "docker": "exit 1\n"})
	stdout, _ := h.run(exitDone, verify...)
	if !strings.Contains(stdout, "etcd 3.5.9 was found, but the backup is from etcd 3.7") || !strings.Contains(stdout, "does not have the image gcr.io/etcd-development/etcd:v3.7") {
		t.Errorf("got %s", stdout)
	}
	backuptest.Programs(t, map[string]string{"etcdutl": "", "etcd": `case $1 in --version) echo etcd Version: 3.7.0;; *) echo "panic: page 7" >&2; exit 2;; esac`})
	_, stderr := h.run(exitDamaged, verify...)
	if !strings.Contains(stderr, "CKE401") || !strings.Contains(stderr, "panic: page 7") {
		t.Errorf("got %s", stderr)
	}
	if n := len(h.objects("verified")); n != 1 {
		t.Errorf("%d marks were left", n)
	}
}

func TestVerify_StartsTheEtcdInPATH(t *testing.T) {
	for _, name := range []string{"etcd", "etcdutl"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
	h := newBackedUpHouse(t)
	stdout, _ := h.run(exitDone, "backup", "verify", "--restore", "--target", h.url)
	if !strings.Contains(stdout, "started on it and holds revision 22") && !strings.Contains(stdout, "but the backup is from") {
		t.Errorf("got %s", stdout)
	}
}
