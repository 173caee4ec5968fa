package lab

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
)

// ExitError says that a command on a node ended with a status other than 0.
type ExitError struct {
	Command string
	Code    int
	Stderr  string // its last lines; empty if the caller took them
}

func (e *ExitError) Error() string {
	text := fmt.Sprintf("%s: exit status %d", e.Command, e.Code)
	if e.Stderr != "" {
		text += ": " + e.Stderr
	}
	return text
}

// IsExit reports whether err is a command's own status, and which.
func IsExit(err error) (code int, ok bool) {
	var e *ExitError
	if errors.As(err, &e) {
		return e.Code, true
	}
	return 0, false
}

// Exec runs a command as root on a running node, past its network, and returns what it wrote to stdout, unaltered.
// A status other than 0 is an *ExitError, which carries the end of stderr.
func (l *Lab) Exec(ctx context.Context, node string, command ...string) (string, error) {
	n, err := l.node(node)
	if err != nil {
		return "", err
	}
	if err := l.needRunning(ctx, n.Name); err != nil {
		return "", err
	}
	return l.exec(ctx, n.Name, command...)
}

// Run is Exec with streams; each may be nil.
func (l *Lab) Run(ctx context.Context, node string, stdin io.Reader, stdout, stderr io.Writer, command ...string) error {
	n, err := l.node(node)
	if err != nil {
		return err
	}
	if err := l.needRunning(ctx, n.Name); err != nil {
		return err
	}
	return l.run(ctx, n.Name, stdin, stdout, stderr, command...)
}

func (l *Lab) exec(ctx context.Context, containerName string, command ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	err := l.run(ctx, containerName, nil, &stdout, &stderr, command...)
	if e, ok := err.(*ExitError); ok {
		e.Stderr = lastLines(stderr.String(), 3)
		if e.Stderr == "" {
			e.Stderr = lastLines(stdout.String(), 1)
		}
	}
	return stdout.String(), err
}

// run executes a command in a container, copying its streams until it ends.
func (l *Lab) run(ctx context.Context, containerName string, stdin io.Reader, stdout, stderr io.Writer, command ...string) error {
	docker, err := l.engine(ctx)
	if err != nil {
		return err
	}
	what := strings.Join(command, " ")
	created, err := docker.ContainerExecCreate(ctx, containerName, container.ExecOptions{
		Cmd: command, AttachStdin: stdin != nil, AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		return fmt.Errorf("run %s on %s: %w", what, containerName, err)
	}
	streams, err := docker.ContainerExecAttach(ctx, created.ID, container.ExecAttachOptions{})
	if err != nil {
		return fmt.Errorf("run %s on %s: %w", what, containerName, err)
	}
	defer streams.Close()
	defer context.AfterFunc(ctx, streams.Close)()
	if stdin != nil {
		// Ends with the streams: a reader that never returns is the caller's own.
		go func() {
			io.Copy(streams.Conn, stdin)
			streams.CloseWrite()
		}()
	}
	_, err = stdcopy.StdCopy(orDiscard(stdout), orDiscard(stderr), streams.Reader)
	if ctx.Err() != nil {
		return fmt.Errorf("run %s on %s: %w", what, containerName, ctx.Err())
	}
	if err != nil {
		return fmt.Errorf("run %s on %s: read its output: %w", what, containerName, err)
	}
	ended, err := docker.ContainerExecInspect(ctx, created.ID)
	if err != nil {
		return fmt.Errorf("run %s on %s: %w", what, containerName, err)
	}
	if ended.ExitCode != 0 {
		return &ExitError{Command: what, Code: ended.ExitCode}
	}
	return nil
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// file is a file to be put into a node, with its path from the root.
type file struct {
	Name     string
	Mode     int64
	UID, GID int
	Data     []byte
}

// putFiles writes files into a container, running or not.
func (l *Lab) putFiles(ctx context.Context, containerName string, files ...file) error {
	docker, err := l.engine(ctx)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Name: f.Name, Mode: f.Mode, Uid: f.UID, Gid: f.GID, Size: int64(len(f.Data)), ModTime: time.Now()}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		if _, err := tw.Write(f.Data); err != nil {
			return err
		}
	}
	if err := tw.Close(); err != nil {
		return err
	}
	if err := docker.CopyToContainer(ctx, containerName, "/", &b, container.CopyToContainerOptions{}); err != nil {
		return fmt.Errorf("write %s on %s: %w", files[0].Name, containerName, err)
	}
	return nil
}
