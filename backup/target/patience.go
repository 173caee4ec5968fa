package target

import (
	"context"
	"fmt"
	"io"
	"time"
)

// patience is how long a store may take for one answer, or for the next bytes of one. Without a limit a server that takes a request
// and stays silent would stop backups without a word. Uploads have a limit by their size (backup.Retry).
var patience = time.Minute

// watched is a request that is given up when its store is silent for patience.
type watched struct {
	context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

func watch(ctx context.Context) *watched {
	ctx, cancel := context.WithCancelCause(ctx)
	return &watched{ctx, cancel, time.AfterFunc(patience, func() { cancel(fmt.Errorf("the target has not answered for %s", patience)) })}
}

// goOn gives the next part of the answer as much time.
func (w *watched) goOn() { w.timer.Reset(patience) }

// rest stops the clock while nothing is asked for.
func (w *watched) rest() { w.timer.Stop() }

func (w *watched) end() {
	w.rest()
	w.cancel(nil)
}

// why says that the store was silent, if that is what became of the request.
func (w *watched) why(err error) error {
	if err != nil && err != io.EOF && w.Err() != nil {
		return context.Cause(w)
	}
	return err
}

// patientReader is the body of an answer.
type patientReader struct {
	io.ReadCloser
	w *watched
}

// Read implements io.Reader.
func (r *patientReader) Read(p []byte) (int, error) {
	r.w.goOn()
	defer r.w.rest()
	n, err := r.ReadCloser.Read(p)
	return n, r.w.why(err)
}

// Close implements io.Closer.
func (r *patientReader) Close() error {
	defer r.w.end()
	return r.ReadCloser.Close()
}
