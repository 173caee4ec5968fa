package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// S3Version is the S3 server that StartS3 builds: versitygw, over a local directory.
const S3Version = "v1.8.0"

// S3 is a real S3 server on loopback with one bucket.
type S3 struct {
	// URL is the target: the bucket with a prefix.
	URL string
	// AccessKey and SecretKey let in.
	AccessKey, SecretKey string

	cmd *exec.Cmd
	end chan struct{}
}

// S3Program builds the server once and keeps it in the cache directory.
func S3Program(ctx context.Context) (string, error) {
	dir := os.Getenv("CKE_CACHE")
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(base, "cke")
	}
	dir = filepath.Join(dir, "tools")
	program := filepath.Join(dir, "versitygw")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	cmd := exec.CommandContext(ctx, "go", "install", "github.com/versity/versitygw/cmd/versitygw@"+S3Version)
	cmd.Env = append(os.Environ(), "GOBIN="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the S3 server: %w: %s", err, out)
	}
	return program, nil
}

// StartS3 starts a server that keeps everything in dir. Stop it.
func StartS3(ctx context.Context, program, dir string) (*S3, error) {
	address, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	for _, d := range []string{"data/bucket", "sidecar"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	s := &S3{URL: "s3://bucket/etcd?region=us-east-1&path_style=true&endpoint=http://" + address, AccessKey: "test", SecretKey: "testsecret", end: make(chan struct{})}
	s.cmd = exec.Command(program, "--access", s.AccessKey, "--secret", s.SecretKey, "--port", address, "--region", "us-east-1",
		"posix", "--sidecar", filepath.Join(dir, "sidecar"), filepath.Join(dir, "data"))
	s.cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the S3 server: %w", err)
	}
	go func() {
		_ = s.cmd.Wait() // it is killed
		close(s.end)
	}()
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		if c, err := net.Dial("tcp", address); err == nil {
			return s, c.Close()
		}
		select {
		case <-s.end:
			return nil, errors.New("the S3 server ended")
		case <-ctx.Done():
			s.Stop()
			return nil, fmt.Errorf("the S3 server does not answer: %w", ctx.Err())
		case <-time.After(lookEvery / 4):
		}
	}
}

// Stop ends the server.
func (s *S3) Stop() {
	_ = s.cmd.Process.Kill() // it may be gone already
	<-s.end
}
