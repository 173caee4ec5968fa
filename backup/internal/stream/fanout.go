package stream

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"cke/internal/contain"
)

const (
	// fanPart is what is handed over at once, fanDepth how many such parts wait for each receiver at most.
	fanPart  = 512 << 10
	fanDepth = 4
)

// Fanout passes a stream to several receivers, each in its own goroutine: receiving, writing, digesting and compressing a
// snapshot run concurrently. Memory is a few parts, whatever the stream's length.
type Fanout struct {
	to     []chan *part
	errs   []error
	wg     sync.WaitGroup
	filled *part
	pool   sync.Pool
	failed atomic.Pointer[error] // the first one
}

type part struct {
	data []byte
	left atomic.Int32 // receivers that have not read it yet
}

// NewFanout starts the receivers. Close stops them.
func NewFanout(to ...io.Writer) *Fanout {
	f := &Fanout{errs: make([]error, len(to))}
	f.pool.New = func() any { return &part{data: make([]byte, 0, fanPart)} }
	for i, w := range to {
		parts := make(chan *part, fanDepth)
		f.to = append(f.to, parts)
		f.wg.Go(contain.Work(func() {
			for p := range parts {
				if f.errs[i] == nil {
					if f.errs[i] = writeTo(w, p.data); f.errs[i] != nil {
						f.failed.CompareAndSwap(nil, &f.errs[i])
					}
				}
				if p.left.Add(-1) == 0 {
					p.data = p.data[:0]
					f.pool.Put(p)
				}
			}
		}, func(error) {}))
	}
	return f
}

// writeTo writes; a panic of w is an error.
func writeTo(w io.Writer, p []byte) error {
	return contain.Do(func() error {
		_, err := w.Write(p)
		return err
	})
}

// Write takes p over. An error of a receiver may be returned by a later Write, or by Close.
func (f *Fanout) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		room, err := f.room()
		if err != nil {
			return 0, err
		}
		m := copy(room, p)
		p = p[m:]
		f.fill(m)
	}
	return n, nil
}

// ReadFrom reads r to its end, without an extra copy.
func (f *Fanout) ReadFrom(r io.Reader) (n int64, err error) {
	for {
		room, err := f.room()
		if err != nil {
			return n, err
		}
		m, err := r.Read(room)
		n += int64(m)
		f.fill(m)
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// room is where the next bytes go; never empty.
func (f *Fanout) room() ([]byte, error) {
	if err := f.failed.Load(); err != nil {
		return nil, *err
	}
	if f.filled == nil {
		f.filled = f.pool.Get().(*part)
	}
	return f.filled.data[len(f.filled.data):cap(f.filled.data)], nil
}

// fill takes n bytes of room over.
func (f *Fanout) fill(n int) {
	f.filled.data = f.filled.data[:len(f.filled.data)+n]
	if len(f.filled.data) == cap(f.filled.data) {
		f.flush()
	}
}

func (f *Fanout) flush() {
	p := f.filled
	f.filled = nil
	p.left.Store(int32(len(f.to)))
	for _, c := range f.to {
		c <- p
	}
}

// Close waits until every receiver has read everything, and returns their error. It may be called twice.
func (f *Fanout) Close() error {
	if f.to != nil {
		if f.filled != nil {
			f.flush()
		}
		for _, c := range f.to {
			close(c)
		}
		f.to = nil
	}
	f.wg.Wait()
	return errors.Join(f.errs...)
}
