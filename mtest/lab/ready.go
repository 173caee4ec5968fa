package lab

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
)

// readyLimit bounds how long a node may take from power-on to answering. Typical is a second.
const readyLimit = 60 * time.Second

// What a node's daemons log once they accept connections.
const (
	sshdReady   = "Server listening on 0.0.0.0 port 22"
	engineReady = "API listen on /var/run/docker.sock"
)

// waitReady waits until the node has logged each of marks since its last start, or since then if that is not zero.
// It follows the log, so that nothing is polled.
func (l *Lab) waitReady(ctx context.Context, node string, since time.Time, marks ...string) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	docker, err := l.engine(ctx)
	if err != nil {
		return err
	}
	info, err := docker.ContainerInspect(ctx, node)
	if err != nil {
		return fmt.Errorf("wait for %s: %w", node, err)
	}
	from := info.State.StartedAt
	if !since.IsZero() {
		from = since.UTC().Format(time.RFC3339Nano)
	}
	log, err := docker.ContainerLogs(ctx, node, container.LogsOptions{ShowStdout: true, ShowStderr: true, Follow: true, Since: from})
	if err != nil {
		return fmt.Errorf("read the log of %s: %w", node, err)
	}
	defer log.Close()
	pr, pw := io.Pipe()
	go func() {
		_, err := stdcopy.StdCopy(pw, pw, log) // ends when log is closed
		pw.CloseWithError(err)
	}()
	defer pr.Close()
	var last string
	lines := bufio.NewScanner(pr)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		last = lines.Text()
		marks = without(marks, last)
		if len(marks) == 0 {
			return nil
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s does not start, last it said %q: %w", node, last, err)
	}
	return fmt.Errorf("%w: %s stopped while starting, last it said %q", ErrNotRunning, node, last)
}

// without returns the marks that line does not contain.
func without(marks []string, line string) []string {
	var left []string
	for _, m := range marks {
		if !strings.Contains(line, m) {
			left = append(left, m)
		}
	}
	return left
}
