package etcdnode

import (
	"context"
	"fmt"
	"io"

	"golang.org/x/sync/semaphore"
)

// localCalls bounds the calls on the local file system that are under way, or were left behind on a mount that hangs.
var localCalls = semaphore.NewWeighted(32)

// onDisk makes a call on the local file system. It returns when ctx ends, and leaves the call behind if that has not ended then.
func onDisk[T any](ctx context.Context, what string, call func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	var none T
	if ctx.Err() != nil {
		return none, ctx.Err()
	}
	if err := localCalls.Acquire(ctx, 1); err != nil {
		return none, fmt.Errorf("%s: other calls on local files hang: %w", what, err)
	}
	ended := make(chan result, 1)
	go func() {
		defer localCalls.Release(1)
		v, err := call()
		ended <- result{v, err}
	}()
	select {
	case r := <-ended:
		return r.v, r.err
	case <-ctx.Done():
		return none, fmt.Errorf("%s: the file system does not answer: %w", what, ctx.Err())
	}
}

// localReader reads a local file: a Read ends with ctx.
type localReader struct {
	ctx       context.Context
	what      string
	r         io.Reader
	buf, rest []byte // a Read that was left behind has buf
}

func newLocalReader(ctx context.Context, what string, r io.Reader) *localReader {
	return &localReader{ctx: ctx, what: what, r: r, buf: make([]byte, 256<<10)}
}

// Read implements io.Reader.
func (l *localReader) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		n, err := onDisk(l.ctx, l.what, func() (int, error) { return l.r.Read(l.buf) })
		if n == 0 {
			return 0, err
		}
		l.rest = l.buf[:n]
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}
