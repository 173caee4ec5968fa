package backup

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"cke/internal/contain"
)

// writebackPart is how much is written before the kernel is asked to start putting it on disk.
const writebackPart = 16 << 20

// writeback has the kernel put a file on disk while it is still being written, so that the sync in the end has little left
// to wait for. It promises nothing: what fails is reported by that sync. Not for concurrent use. nil does nothing.
type writeback struct {
	f       *os.File
	pending int64
	busy    chan struct{} // one at a time: asking can take as long as the disk is busy
}

// newWriteback watches over a file that is there.
func newWriteback(path string) (*writeback, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &writeback{f: f, busy: make(chan struct{}, 1)}, nil
}

// wrote counts bytes that were written anywhere in the file.
func (w *writeback) wrote(n int) {
	if w == nil {
		return
	}
	if w.pending += int64(n); w.pending < writebackPart {
		return
	}
	select {
	case w.busy <- struct{}{}:
		w.pending = 0
		go contain.Work(func() {
			defer func() { <-w.busy }()
			_ = unix.SyncFileRange(int(w.f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE) // all of the file; without waiting for the disk
		}, func(error) {})()
	default:
	}
}

// Close waits until pending syncs are done. It may be called twice.
func (w *writeback) Close() error {
	if w == nil {
		return nil
	}
	w.busy <- struct{}{}
	defer func() { <-w.busy }()
	if err := w.f.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// writtenBack is a file that is written from one end to the other.
type writtenBack struct {
	*os.File
	back *writeback
}

func (w writtenBack) Write(p []byte) (int, error) {
	n, err := w.File.Write(p)
	w.back.wrote(n)
	return n, err
}
