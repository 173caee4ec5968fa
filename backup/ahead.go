package backup

import (
	"bytes"
	"context"
	"io"
	"sync"

	"cke/internal/contain"
)

const (
	// aheadObjects and aheadBytes bound what is fetched before it is needed: a chain of thousands of small deltas would
	// otherwise take a round trip for each.
	aheadObjects = 8
	aheadBytes   = 4 << 20
)

// ahead is a bucket that fetches small objects, which will be opened in a known order, before they are asked for.
type ahead struct {
	Bucket
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	fetched map[string]chan fetched
	room    chan struct{}
}

type fetched struct {
	data []byte
	err  error
}

// fetchAhead starts; Close ends it. Only whole reads are served from what was fetched.
func fetchAhead(ctx context.Context, b Bucket, entries []Entry) *ahead {
	ctx, cancel := context.WithCancel(ctx)
	a := &ahead{Bucket: b, cancel: cancel, fetched: map[string]chan fetched{}, room: make(chan struct{}, aheadObjects)}
	var small []string
	for _, e := range entries {
		if e.Size <= aheadBytes {
			small = append(small, e.Name())
			a.fetched[e.Name()] = make(chan fetched, 1)
		}
	}
	a.wg.Go(contain.Work(func() {
		for _, name := range small {
			select {
			case a.room <- struct{}{}:
			case <-ctx.Done():
				return
			}
			a.wg.Go(contain.Work(func() {
				data, err := readWhole(ctx, b, name)
				a.fetched[name] <- fetched{data, err}
			}, func(err error) { a.fetched[name] <- fetched{nil, err} }))
		}
	}, func(error) { cancel() }))
	return a
}

func readWhole(ctx context.Context, b Bucket, name string) ([]byte, error) {
	r, err := b.Open(ctx, name, 0, -1)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	// Never more than was listed, whatever the store sends.
	return io.ReadAll(io.LimitReader(r, aheadBytes+1))
}

// Open implements Bucket.
func (a *ahead) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	c := a.fetched[name]
	if c == nil || offset != 0 || length >= 0 {
		return a.Bucket.Open(ctx, name, offset, length)
	}
	select {
	case f := <-c:
		<-a.room
		if f.err != nil {
			return nil, f.err
		}
		return io.NopCloser(bytes.NewReader(f.data)), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close waits for pending reads.
func (a *ahead) Close() {
	a.cancel()
	a.wg.Wait()
}
