package etcdnode

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"cke"
)

// images.archive_dir on a mount that hangs, here a FIFO that nobody writes to: the call ends with its context.
func TestEnsureImage_EndsWithItsContextWhereTheArchiveDirectoryHangs(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.61.4", "ed25519", "ed25519")
	dir := t.TempDir()
	fifo := filepath.Join(dir, "etcd.tar")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	fleet := fleetOf(t, newMemoryHostKeys(), func(c *Config) { c.Archives = &Archives{Dir: dir} }, node)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- fleet.Machine(node.node).EnsureImage(ctx, "etcd:v3.6.16", nil) }()
	select {
	case err := <-done:
		if err == nil {
			t.Error("no error")
		}
	case <-time.After(patience):
		t.Error("it has not ended")
	}
	w, err := os.OpenFile(fifo, os.O_WRONLY|syscall.O_NONBLOCK, 0) // ends the call that was left behind
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
}

// A file of which the mount hangs while it is read.
func TestLocalReader_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	from, to := io.Pipe()
	defer to.Close()
	ctx, cancel := context.WithCancel(t.Context())
	r := newLocalReader(ctx, "etcd.tar", from)
	go func() {
		_, _ = to.Write([]byte("begin"))
		cancel()
	}()
	if got, err := io.ReadAll(r); !errors.Is(err, context.Canceled) || len(got) > len("begin") {
		t.Errorf("%q, %v", got, err)
	}
}

// An ssh-agent that takes connections and does not answer counts as none: the key of the store is used.
func TestSigners_AnAgentThatHangsCountsAsNone(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.61.1", "ed25519", "ed25519")
	socket := filepath.Join(t.TempDir(), "agent")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
		}
	})
	defer wg.Wait()
	defer l.Close()
	fleet := fleetOf(t, newMemoryHostKeys(), func(c *Config) { c.AgentSocket = socket }, node)
	if _, err := fleet.session(t.Context(), node.node); err != nil {
		t.Errorf("%s: %v", cke.CodeOf(err), err)
	}
}
