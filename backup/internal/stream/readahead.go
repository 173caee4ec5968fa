package stream

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"cke/internal/contain"
)

const (
	// aheadPart is how much is read at once of what is read ahead, aheadDepth how many such parts there are.
	aheadPart  = 256 << 10
	aheadDepth = 4
)

// ReadAhead reads in its own goroutine: reading, digesting and decrypting a body run concurrently with decompressing it.
type ReadAhead struct {
	full, free chan []byte
	quit       chan struct{}
	ended      chan struct{}
	once       sync.Once
	err        error // valid once full is closed
	told       atomic.Pointer[error]

	held, rest []byte
}

// NewReadAhead starts to read r. Close stops it.
func NewReadAhead(r io.Reader) *ReadAhead {
	a := &ReadAhead{full: make(chan []byte, aheadDepth), free: make(chan []byte, aheadDepth), quit: make(chan struct{}), ended: make(chan struct{})}
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
				a.err = errClosed
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

// errClosed stops reading what is no longer needed.
var errClosed = errors.New("closed")

// Read implements io.Reader.
func (a *ReadAhead) Read(p []byte) (int, error) {
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

// WriteTo writes the rest, without an extra copy.
func (a *ReadAhead) WriteTo(w io.Writer) (n int64, err error) {
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

// Close stops reading.
func (a *ReadAhead) Close() {
	a.once.Do(func() { close(a.quit) })
	<-a.ended
}
