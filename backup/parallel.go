package backup

import (
	"errors"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"

	"cke/backup/internal/contain"
)

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

// Write takes p over. An error of what is written to may be told by a later Write, or by Close.
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

const (
	// aheadPart is how much is read at once of what is read ahead, aheadDepth how many such parts there are.
	aheadPart  = 256 << 10
	aheadDepth = 4
)

// readAhead reads in a goroutine of its own: reading, digesting and decrypting a body go on beside decompressing it.
type readAhead struct {
	full, free chan []byte
	quit       chan struct{}
	ended      chan struct{}
	once       sync.Once
	err        error // valid once full is closed
	told       atomic.Pointer[error]

	held, rest []byte
}

func newReadAhead(r io.Reader) *readAhead {
	a := &readAhead{full: make(chan []byte, aheadDepth), free: make(chan []byte, aheadDepth), quit: make(chan struct{}), ended: make(chan struct{})}
	for range aheadDepth {
		a.free <- make([]byte, aheadPart)
	}
	go contain.Work(func() {
		defer close(a.ended)
		defer close(a.full)
		for {
			var part []byte
			select {
			case part = <-a.free:
			case <-a.quit:
				a.err = errNoMore
				return
			}
			n, err := readFrom(r, part[:cap(part)])
			if n > 0 {
				a.full <- part[:n] // there is room for all parts
			}
			if err != nil {
				a.err = err
				return
			}
			if n == 0 {
				a.free <- part
			}
		}
	}, func(error) {})()
	return a
}

// readFrom reads; a panic of r is an error.
func readFrom(r io.Reader, p []byte) (n int, err error) {
	err = contain.Do(func() (err error) {
		n, err = r.Read(p)
		return err
	})
	return n, err
}

// errNoMore ends the reading of what nobody wants any more.
var errNoMore = errors.New("closed")

func (a *readAhead) Read(p []byte) (int, error) {
	for len(a.rest) == 0 {
		if a.held != nil {
			a.free <- a.held
			a.held = nil
		}
		part, ok := <-a.full
		if !ok {
			if !errors.Is(a.err, io.EOF) {
				a.told.Store(&a.err)
			}
			return 0, a.err
		}
		a.held, a.rest = part, part
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// WriteTo hands on what is left, without a copy between.
func (a *readAhead) WriteTo(w io.Writer) (n int64, err error) {
	for {
		if len(a.rest) == 0 {
			if _, err := a.Read(nil); errors.Is(err, io.EOF) {
				return n, nil
			} else if err != nil {
				return n, err
			}
		}
		m, err := w.Write(a.rest)
		n, a.rest = n+int64(m), a.rest[m:]
		if err != nil {
			return n, err
		}
	}
}

// Close ends the reading.
func (a *readAhead) Close() {
	a.once.Do(func() { close(a.quit) })
	<-a.ended
}
