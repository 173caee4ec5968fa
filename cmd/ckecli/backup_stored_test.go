package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/backup/backuptest"
	"cke/storage"
)

const awsFile = "[default]\naws_access_key_id = " + backuptest.AccessKey + "\naws_secret_access_key = " + backuptest.SecretKey + "\n"

// withStore gives the house a store that holds cluster prod with this backup section.
func (h *backedUpHouse) withStore(t *testing.T, section string) {
	t.Helper()
	h.house = newHouse(t)
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", clusterFile+section))
}

func TestBackup_TargetAndRetentionComeFromTheStoredCluster(t *testing.T) {
	h := newBackedUpHouse(t)
	h.withStore(t, "")
	if _, stderr := h.run(exitFailed, "backup", "list"); !strings.Contains(stderr, "CKE405") || !strings.Contains(stderr, "no backup target") {
		t.Errorf("got %s", stderr)
	}
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", clusterFile+"backup: {target: \""+h.url+"\", retention: {last: 1}}\n"))
	if stdout, _ := h.run(exitDone, "backup", "list", "-o", "name"); strings.Count(stdout, "a1b2/") != 2 {
		t.Errorf("got %s", stdout)
	}
	h.run(exitDone, "backup", "prune", "--confirm", "prod")
	if n := len(h.objects("full")); n != 1 {
		t.Errorf("%d fulls are left", n)
	}
	if _, stderr := h.run(exitFailed, "backup", "list", "--cluster", "none"); !strings.Contains(stderr, "CKE106") {
		t.Errorf("got %s", stderr)
	}
	h.embedded.Close()
	if _, stderr := h.run(exitStore, "backup", "list"); !strings.Contains(stderr, "--target URL") {
		t.Errorf("got %s", stderr)
	}
	h.run(exitDone, "backup", "list", "--target", h.url)
}

// A restore that waits reads nothing yet. What it is to read stays, and the refusal names who asked for it.
func TestBackup_NothingIsDeletedWhileARestoreIsOrdered(t *testing.T) {
	h := newBackedUpHouse(t)
	h.withStore(t, "backup: {target: \""+h.url+"\", retention: {last: 1}}\n")
	task := cke.NewTask(cke.TaskRestore, "", "", "ann@boot-2", time.Now())
	task.Restore = &cke.RestoreOrder{Target: h.url, Source: "prod"}
	if err := h.store.AskRestore(h.ctx(), "prod", task, storage.RestoreAsked{}); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"prune"}, {"delete", fmt.Sprint(h.fulls[0])}} {
		_, stderr := h.run(exitRefused, append(append([]string{"backup"}, args...), "--confirm", "prod")...)
		contains(t, stderr, "CKE414", "ann@boot-2 has requested to restore prod", "Nothing was changed")
	}
	if n := len(h.objects("full")); n != 2 {
		t.Errorf("%d fulls are left", n)
	}
	h.run(exitDone, "backup", "compact", "--trust", "any") // it deletes nothing
	h.run(exitDone, "task", "cancel", task.ID)
	h.run(exitDone, "backup", "prune", "--confirm", "prod")
	if n := len(h.objects("full")); n != 1 {
		t.Errorf("%d fulls are left", n)
	}
}

func TestBackup_CredentialsAreSealedAndStayWhileInUse(t *testing.T) {
	h := newBackedUpHouse(t)
	h.withStore(t, "backup: {target: \"s3://bucket/x?path_style=true&endpoint=http://127.0.0.1:1\"}\n")
	file := h.write("credentials", awsFile)
	if _, stderr := h.run(exitDone, "backup", "credentials", "list"); !strings.Contains(stderr, "no backup credentials") {
		t.Errorf("got %s", stderr)
	}
	h.run(exitRefused, "backup", "credentials", "delete")
	stdout, stderr := h.run(exitDone, "backup", "credentials", "set", file)
	if stdout != backuptest.AccessKey+"\n" || !strings.Contains(stderr, "all clusters") {
		t.Errorf("got %s%s", stdout, stderr)
	}
	if stdout, _ := h.run(exitDone, "backup", "credentials", "list", "-o", "json"); !strings.Contains(stdout, backuptest.AccessKey) || strings.Contains(stdout, backuptest.SecretKey) {
		t.Errorf("got %s", stdout)
	}
	if _, stderr := h.run(exitRefused, "backup", "credentials", "delete"); !strings.Contains(stderr, "in use by the backup section of prod") || !strings.Contains(stderr, "CKE103") {
		t.Errorf("got %s", stderr)
	}
	h.run(exitDone, "backup", "credentials", "set", file, "--cluster", "prod")
	h.run(exitDone, "backup", "credentials", "delete")
	h.run(exitRefused, "backup", "credentials", "delete", "--cluster", "prod")
	if _, stderr := h.run(exitRefused, "backup", "credentials", "set", file, "--profile", "none"); !strings.Contains(stderr, "CKE101") || strings.Contains(stderr, backuptest.SecretKey) {
		t.Errorf("got %s", stderr)
	}

	// The host without the key file.
	if err := os.Remove(filepath.Join(h.house.dir, "secret.key")); err != nil {
		t.Fatal(err)
	}
	if _, stderr := h.run(exitFailed, "backup", "list"); !strings.Contains(stderr, "CKE105") || !strings.Contains(stderr, "--credentials FILE") {
		t.Errorf("got %s", stderr)
	}
}

// The whole way through a real S3 server: copied to with credentials of the command line, read with those in the store.
func TestBackup_S3(t *testing.T) {
	address, _ := backuptest.Gateway(t, "backups")
	h := newBackedUpHouse(t)
	url := "s3://backups/some/prefix?region=us-east-1&path_style=true&endpoint=http://" + address
	file := h.write("aws", awsFile)
	h.run(exitDone, "backup", "copy", h.url, url, "--to-credentials", file)
	if stdout, _ := h.run(exitDone, "backup", "copy", h.url, url, "--to-credentials", file, "-o", "json"); !strings.Contains(stdout, `"objects": 0`) {
		t.Errorf("copied twice: %s", stdout)
	}
	wrong := h.write("wrong", strings.Replace(awsFile, backuptest.SecretKey, "wrong", 1))
	if _, stderr := h.run(exitFailed, "backup", "list", "--target", url, "--credentials", wrong); !strings.Contains(stderr, "CKE405") {
		t.Errorf("got %s", stderr)
	}
	h.withStore(t, "backup: {target: \""+url+"\"}\n")
	h.run(exitDone, "backup", "credentials", "set", h.write("aws", awsFile), "--cluster", "prod")
	h.run(exitDone, "backup", "verify", "--restore")
	stdout, _ := h.run(exitDone, "backup", "list")
	if !strings.Contains(stdout, "2 to 22") || !strings.Contains(stdout, "ago") {
		t.Errorf("got %s", stdout)
	}
	h.run(exitDone, "backup", "extract", filepath.Join(h.house.dir, "out.db"))
}
