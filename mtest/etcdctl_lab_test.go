package mtest_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cke"
	"cke/mtest/rig"
)

// etcdctl copies etcd's own tool from a node's image into a directory of this host.
func (s *story) etcdctl() (dir string) {
	s.Helper()
	var out, trouble bytes.Buffer
	err := s.Lab.Run(s.ctx, s.nodes[0].Name, nil, &out, &trouble, "sh", "-c", "docker create --name tool "+cke.DefaultImage+":v"+rig.EtcdVersion+
		" none >/dev/null && docker cp tool:/usr/local/bin/etcdctl - && docker rm tool >&2")
	if err != nil {
		s.Fatal(err, trouble.String())
	}
	r := tar.NewReader(&out)
	_, err = r.Next()
	s.must(err)
	program, err := io.ReadAll(r)
	s.must(err)
	dir = s.TempDir()
	s.must(os.WriteFile(filepath.Join(dir, "etcdctl"), program, 0o755))
	return dir
}

func TestLabEtcdctl_RunsWithACertificateOfTheCluster(t *testing.T) {
	s := newStory(t, 1)
	s.daemon("cke1")
	s.found()
	tools, private := s.etcdctl(), s.TempDir()
	ctl := func(code int, stdin string, args ...string) string {
		s.Helper()
		cmd := exec.CommandContext(s.ctx, filepath.Join(s.Bin, "ckecli"), append([]string{"etcd", "ctl", "--"}, args...)...)
		cmd.Env = append(os.Environ(), "CKECLI_CONFIG="+s.Config, "HOME="+s.Dir, "PATH="+tools+":"+os.Getenv("PATH"), "TMPDIR="+private, "ETCDCTL_ENDPOINTS=https://127.0.0.1:1")
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.Output()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) || cmd.ProcessState.ExitCode() != code {
			s.Fatalf("etcdctl %v: %v, exit code %d, want %d: %s", args, err, cmd.ProcessState.ExitCode(), code, exit.Stderr)
		}
		return string(out)
	}
	ctl(0, "from stdin", "put", "key")
	if got := ctl(0, "", "get", "key", "--print-value-only"); got != "from stdin\n" {
		s.Errorf("it read %q", got)
	}
	if got := ctl(0, "", "--endpoints", rig.URL(s.nodes[0]), "endpoint", "status", "-w", "simple"); strings.Count(got, rig.URL(s.nodes[0])) != 1 {
		s.Errorf("it asked %q", got)
	}
	ctl(1, "", "--endpoints=https://127.0.0.1:1", "--dial-timeout=200ms", "--command-timeout=1s", "get", "key")
	if left, err := os.ReadDir(private); err != nil || len(left) > 0 {
		s.Errorf("left behind: %v %v", left, err)
	}
}
