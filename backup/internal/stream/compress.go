package stream

import (
	"errors"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"

	"cke/internal/contain"
)

const (
	// zstdWindow bounds what a reader has to remember; a writer takes twice as much.
	zstdWindow    = 1 << 20
	zstdMaxWindow = 8 << 20
)

// zstdOptions are those of every body. Values that repeat nothing are made shorter, too, if they do not use all bytes alike: who
// reads them has less to fetch, to digest and to decrypt. The content has a digest or checksums of its own, so zstd adds none.
func zstdOptions(cores int) []zstd.EOption {
	return []zstd.EOption{
		zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(cores), zstd.WithWindowSize(zstdWindow),
		zstd.WithEncoderCRC(false), zstd.WithAllLitEntropyCompression(true),
	}
}

const (
	// framePart is how much of a full is compressed at once, in a frame of its own: a run of frames is as good as one frame to
	// every reader of zstd, and costs hardly any size from twice the window on.
	framePart = 2 * zstdWindow
	// mostEncoders bounds how many do that side by side; each needs a few MiB.
	mostEncoders = 3
)

// frames compresses what is written to it on several cores, and writes the result in order.
type frames struct {
	zstd   *zstd.Encoder
	part   []byte
	jobs   chan *frame // in order, to the goroutine that writes them
	free   chan *frame // those that are not at work; bounds memory
	failed atomic.Pointer[error]
	ended  chan struct{}
	once   sync.Once
}

type frame struct {
	in, out []byte
	done    chan error
}

func newFrames(w io.Writer) (*frames, error) {
	n := min(runtime.GOMAXPROCS(0), mostEncoders)
	z, err := zstd.NewWriter(nil, zstdOptions(n)...)
	if err != nil {
		return nil, err
	}
	f := &frames{zstd: z, jobs: make(chan *frame, n+1), free: make(chan *frame, n+1), ended: make(chan struct{})}
	for range n + 1 {
		f.free <- &frame{done: make(chan error, 1)}
	}
	go contain.Work(func() {
		defer close(f.ended)
		for j := range f.jobs {
			err := <-j.done
			if err == nil && f.failed.Load() == nil {
				err = writeTo(w, j.out)
			}
			if err != nil {
				f.failed.CompareAndSwap(nil, &err)
			}
			f.free <- j
		}
	}, func(error) {})()
	return f, nil
}

// Write takes p over. An error of the underlying writer may be returned by a later Write, or by Close.
func (f *frames) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if err := f.failed.Load(); err != nil {
			return 0, *err
		}
		if f.part == nil {
			f.part = make([]byte, 0, framePart)
		}
		m := min(len(p), framePart-len(f.part))
		f.part, p = append(f.part, p[:m]...), p[m:]
		if len(f.part) == framePart {
			f.flush()
		}
	}
	return n, nil
}

func (f *frames) flush() {
	j := <-f.free
	j.in, f.part = f.part, j.in[:0]
	f.jobs <- j
	go contain.Work(func() {
		j.out = f.zstd.EncodeAll(j.in, j.out[:0])
		j.done <- nil
	}, func(err error) { j.done <- err })()
}

// Close completes the last frame and waits for all. It may be called twice.
func (f *frames) Close() error {
	f.once.Do(func() {
		if len(f.part) > 0 {
			f.flush()
		}
		close(f.jobs)
	})
	<-f.ended
	var err error
	if e := f.failed.Load(); e != nil {
		err = *e
	}
	return errors.Join(err, f.zstd.Close())
}
