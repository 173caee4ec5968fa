package backuptest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"cke/internal/need"
)

const gatewayVersion = "v1.8.0"

// The credentials of the S3 server.
const (
	AccessKey = "test"
	SecretKey = "testsecret"
)

// Gateway runs a real S3 server, versitygw, over a local directory with one bucket, and returns its address.
func Gateway(t testing.TB, bucket string) string {
	t.Helper()
	binary := gatewayBinary(t)
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, bucket), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	cmd := exec.Command(binary, "--access", AccessKey, "--secret", SecretKey, "--port", address, "--region", "us-east-1",
		"posix", "--sidecar", t.TempDir(), root)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { cmd.Process.Kill(); <-ended })
	for range 200 {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			return address
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
	return ""
}

// gatewayBinary builds the server once and keeps it in the cache directory.
func gatewayBinary(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a built S3 server")
	}
	dir := os.Getenv("CKE_CACHE")
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			need.Missing(t, "no directory for the S3 server: %v", err)
		}
		dir = filepath.Join(base, "cke")
	}
	dir = filepath.Join(dir, "tools")
	binary := filepath.Join(dir, "versitygw")
	if _, err := os.Stat(binary); err == nil {
		return binary
	}
	cmd := exec.Command("go", "install", fmt.Sprint("github.com/versity/versitygw/cmd/versitygw@", gatewayVersion))
	cmd.Env = append(os.Environ(), "GOBIN="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		need.Missing(t, "the S3 server cannot be built: %v\n%s", err, out)
	}
	return binary
}
