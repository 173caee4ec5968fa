package etcdtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"cke/backup/internal/need"
)

const etcdutlVersion = "v3.7.3"

// Restore makes a data directory of a snapshot file with etcd's own etcdutl. Where etcdutl is not
// built and cannot be, need.Missing decides.
func Restore(t testing.TB, snapshot string) (dir string) {
	t.Helper()
	binary := etcdutl(t)
	dir = filepath.Join(t.TempDir(), "data")
	out, err := exec.Command(binary, "snapshot", "restore", snapshot, "--data-dir", dir, "--name", "test",
		"--initial-cluster", "test="+PeerURL, "--initial-advertise-peer-urls", PeerURL, "--initial-cluster-token", "restored").CombinedOutput()
	if err != nil {
		t.Fatalf("etcdutl snapshot restore: %v\n%s", err, out)
	}
	return dir
}

// etcdutl builds the program once and keeps it in the cache directory. It cannot be installed by version, because its
// module replaces others.
func etcdutl(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs etcdutl to be built")
	}
	dir := os.Getenv("CKE_CACHE")
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			need.Missing(t, "no place for etcdutl: %v", err)
		}
		dir = filepath.Join(base, "cke")
	}
	binary := filepath.Join(dir, "tools", "etcdutl")
	if _, err := os.Stat(binary); err == nil {
		return binary
	}
	src := t.TempDir()
	if err := os.WriteFile(filepath.Join(src, "go.mod"), []byte("module tool\n\ngo 1.26\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"get", "go.etcd.io/etcd/etcdutl/v3@" + etcdutlVersion},
		{"build", "-o", binary, "go.etcd.io/etcd/etcdutl/v3"},
	} {
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = src, append(os.Environ(), "GOFLAGS=-mod=mod")
		if out, err := cmd.CombinedOutput(); err != nil {
			need.Missing(t, "etcdutl cannot be built: %v\n%s", err, out)
		}
	}
	return binary
}
