package main

import (
	"path/filepath"
	"strings"
	"testing"

	"cke/backup"
)

// Data of a newer minor version of etcd than the declared one is refused, as an import of it is: etcdutl of the older version makes a data directory of it, on
// which that etcd does not start ("invalid downgrade"), and by then the members that served are gone.
func TestRestore_OfDataThatTheDeclaredVersionCannotRead(t *testing.T) {
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
	_, stderr := h.run(exitRefused, "restore", "--plan", "--from", h.url, "--source-cluster", "prod", "--file", file)
	contains(t, stderr, "error[CKE113]", "3.7", "3.6.16")
}
