package backup

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"cke/internal/contain"
)

// errNoLink: a file cannot get a second name where the object belongs; it has to be copied.
var errNoLink = errors.New("the body's file cannot be linked")

// adopt makes the file in which a body was kept the object, by a second name, if both are on one file system. The digest
// of a body is that of the bytes that were handed to the kernel for that very file, so nothing has to be read again.
func adopt(file string, c Content) error {
	b, ok := c.Body.(*fileBody)
	if !ok || len(c.Head) != headRoom || b.suspect.Load() {
		return errNoLink
	}
	f, err := os.OpenFile(b.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if names, err := nameCount(f); err != nil || names != 1 {
		return errors.Join(errNoLink, err) // it is an object already, which never changes
	}
	tmp := filepath.Join(filepath.Dir(file), partial+rand.Text())
	if err := os.Link(b.path, tmp); err != nil {
		return errors.Join(errNoLink, err)
	}
	defer os.Remove(tmp)
	if _, err := f.WriteAt(c.Head, 0); err != nil {
		return fmt.Errorf("write %s: %w", tmp, err)
	}
	if err := finish(f, c); err != nil {
		b.suspect.Store(true)
		return fmt.Errorf("write %s: %w", tmp, err)
	}
	return place(tmp, file)
}

func nameCount(f *os.File) (uint64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	return uint64(s.Nlink), nil
}

// FlushAhead starts to sync a body whose file can become an object of b, and returns a function that waits for that.
// Creating the object, which syncs it in any case, then takes less time.
func (c Content) FlushAhead(b Bucket) (wait func()) {
	body, ok := c.Body.(*fileBody)
	if !ok || !keepsFiles(b) {
		return func() {}
	}
	done := make(chan struct{})
	go contain.Work(func() {
		defer close(done)
		if err := syncFile(body.path); err != nil {
			body.suspect.Store(true)
		}
	}, func(error) { body.suspect.Store(true) })()
	return func() { <-done }
}

// keepsFiles reports whether objects of b are local files.
func keepsFiles(b Bucket) bool {
	_, ok := local(b)
	return ok
}
