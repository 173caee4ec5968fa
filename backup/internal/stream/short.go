package stream

import (
	"errors"
	"fmt"
	"io"

	"cke/backup/internal/damage"
)

// errCut: a store broke off what it was asked for, as one whose connection is cut. It says nothing about the object.
var errCut = errors.New("the store ended its answer early")

// Uncut wraps what a store opened so that only a clean end is the end of an object. The layers above could not
// distinguish io.ErrUnexpectedEOF, with which net/http reports a cut connection, from a truncated object.
func Uncut(r io.Reader) io.Reader { return uncut{r} }

type uncut struct{ r io.Reader }

func (u uncut) Read(p []byte) (int, error) {
	n, err := u.r.Read(p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errCut
	}
	return n, err
}

// Short distinguishes a stream that ended early from one that failed.
func Short(err error, what string) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return damage.Errorf("truncated in its %s", what)
	}
	return fmt.Errorf("read %s: %w", what, err)
}
