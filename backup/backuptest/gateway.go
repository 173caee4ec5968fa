package backuptest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"cke/internal/need"
)

var gateway = need.Program{File: "versitygw-v1.8.0", Package: "github.com/versity/versitygw/cmd/versitygw", Version: "v1.8.0"}

// The credentials of the S3 server.
const (
	AccessKey = "test"
	SecretKey = "testsecret"
)

// Gateway runs a real S3 server, versitygw, with one bucket, whose objects lie in a local directory of its name.
func Gateway(t testing.TB, bucket string) (address, dir string) {
	t.Helper()
	binary := gateway.Built(t)
	root := t.TempDir()
	dir = filepath.Join(root, bucket)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	l.Close()
	cmd := exec.Command(binary, "--access", AccessKey, "--secret", SecretKey, "--port", address, "--region", "us-east-1",
		"posix", "--sidecar", t.TempDir(), root)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { cmd.Process.Kill(); <-ended })
	for range 400 {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			return address, dir
		}
		select {
		case err := <-ended:
			ended <- err
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("the S3 server exited: %v\n%s", err, text)
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Fatal("the S3 server does not answer")
	return "", ""
}
