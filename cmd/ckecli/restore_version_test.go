package main

import (
	"path/filepath"
	"strings"
	"testing"

	"cke/backup"
)

// A plan says that the leader will refuse data that the declared etcd cannot read. It is not refused here: a member of 3.7 may have data of 3.6.
func TestRestore_NotesABackupOfANewerEtcd(t *testing.T) {
	h, _, _ := storedHouse(t)
	full := h.objects("full")[0]
	name, err := filepath.Rel(h.dir, full)
	if err != nil {
		t.Fatal(err)
	}
	place, _ := backup.ParsePlace(name)
	if head, err := backup.ReadHeader(h.ctx(), backup.Dir(h.dir), place); err != nil || !strings.HasPrefix(head.EtcdVersion, "3.7.") {
		t.Fatalf("%+v, %v", head, err)
	}
	file := h.write("other.yml", strings.NewReplacer("prod", "other", "10.0.0.", "10.0.9.").Replace(clusterFile)+"options: {etcd: {version: 3.6.16}}\n")
	out, _ := h.run(0, "restore", "--plan", "--from", h.url, "--source-cluster", "prod", "--file", file)
	contains(t, out, "the backup was made by etcd 3.7.", "because etcd 3.6.16 cannot read it; declare options.etcd.version 3.7.")
}
