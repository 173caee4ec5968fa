// Package bounded runs a program for a bounded time.
package bounded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Run is one run of a program.
type Run struct {
	// Program is its full path, Args are its arguments. No shell reads them.
	Program string
	Args    []string
	// Env are variables besides those of this process.
	Env []string
	// Limit is how long it may run. After that, its process group is killed.
	Limit time.Duration
	// Output is how many bytes from the end of what it writes are kept.
	Output int
}

// closing is how long what a program has started may keep its output open after its end.
const closing = 2 * time.Second

// Do runs the program to its end and returns the end of what it wrote to stdout and stderr. The error says how it failed. After a
// failure nothing of its process group is left; what it leaves running after it succeeded is not killed.
func (r Run) Do(ctx context.Context) (output string, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.Limit)
	defer cancel()
	reads, writes, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer reads.Close()
	cmd := exec.CommandContext(ctx, r.Program, r.Args...)
	cmd.Dir, cmd.Env = "/", append(os.Environ(), r.Env...)
	cmd.Stdout, cmd.Stderr = writes, writes
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	kill := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = kill
	runtime.LockOSThread() // Pdeathsig is sent when the thread ends that started it
	defer runtime.UnlockOSThread()
	err = cmd.Start()
	writes.Close()
	if err != nil {
		return "", err
	}
	out, copied := &tail{most: r.Output}, make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(out, reads)
	}()
	if err = cmd.Wait(); err != nil {
		_ = kill() // the process itself is gone, and what it has started may not be
	}
	_ = reads.SetReadDeadline(time.Now().Add(closing))
	<-copied
	switch {
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("it did not end within %s, and was killed", r.Limit)
	case err != nil && ctx.Err() != nil:
		err = fmt.Errorf("it was killed: %w", context.Cause(ctx))
	}
	return out.String(), err
}

// tail keeps the end of what is written.
type tail struct {
	most int
	end  []byte
}

var _ io.Writer = (*tail)(nil)

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.end = append(t.end, p[max(0, len(p)-t.most):]...)
	if over := len(t.end) - t.most; over > 0 {
		t.end = append(t.end[:0], t.end[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.end) }
