package etcdtest

import (
	"os/exec"
	"path/filepath"
	"testing"

	"cke/internal/need"
)

var etcdutl = need.Program{File: "etcdutl", Package: "go.etcd.io/etcd/etcdutl/v3", Version: "v3.7.3"}

// Restore makes a data directory of a snapshot file with etcd's own etcdutl. If etcdutl is not built and cannot be,
// need.Missing decides.
func Restore(t testing.TB, snapshot string) (dir string) {
	t.Helper()
	binary := etcdutl.Built(t)
	dir = filepath.Join(t.TempDir(), "data")
	out, err := exec.Command(binary, "snapshot", "restore", snapshot, "--data-dir", dir, "--name", "test",
		"--initial-cluster", "test="+PeerURL, "--initial-advertise-peer-urls", PeerURL, "--initial-cluster-token", "restored").CombinedOutput()
	if err != nil {
		t.Fatalf("etcdutl snapshot restore: %v\n%s", err, out)
	}
	return dir
}
