package backup

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"filippo.io/age"
	"golang.org/x/sys/unix"

	"cke/backup/internal/stream"
)

// saveFull writes the snapshot in a full to a file, checked. w judges who wrote it before anything is unpacked. sum digests it on the
// way, unless it is nil. durable: the file is to be synced later.
func (s *Store) saveFull(ctx context.Context, p Place, file string, sum *digestGuard, durable bool, w *witness) (h Header, err error) {
	o, err := s.openFull(ctx, p)
	if err != nil {
		return h, err
	}
	defer o.Close()
	h = o.head
	if err := errors.Join(s.seeFull(ctx, w, h), s.roomFor(h, file)); err != nil {
		return h, err
	}
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	to := writtenBack{File: f}
	if durable {
		if to.back, err = newWriteback(file); err != nil {
			return h, err
		}
		defer func() { err = errors.Join(err, to.back.Close()) }()
	}
	if sum == nil {
		return h, o.copyTo(ctx, to)
	}
	if err = o.copyTo(ctx, to, sum); err == nil {
		err = sum.done()
	}
	return h, err
}

// roomFor refuses a full that is not known to be genuine and says that it is larger than what is free where a file is written.
func (s *Store) roomFor(h Header, file string) error {
	var fs unix.Statfs_t
	if s.trusts(h.Signature) || unix.Statfs(filepath.Dir(file), &fs) != nil {
		return nil
	}
	if free := fs.Bavail * uint64(fs.Bsize); uint64(h.Content) > free {
		return &os.PathError{Op: "write", Path: file, Err: fmt.Errorf("%w: the full holds %d bytes, and %d are free", syscall.ENOSPC, h.Content, free)}
	}
	return nil
}

// fetchFull hands the snapshot in a full to writers. It is checked, but only in the end.
func (s *Store) fetchFull(ctx context.Context, p Place, to ...io.Writer) (Header, error) {
	o, err := s.openFull(ctx, p)
	if err != nil {
		return Header{}, err
	}
	defer o.Close()
	return o.head, o.copyTo(ctx, to...)
}

// copyTo hands what is opened to writers. It is checked, but only in the end.
func (o *bodyReader) copyTo(ctx context.Context, to ...io.Writer) error {
	fan := stream.NewFanout(to...)
	_, err := o.WriteTo(&contextWriter{ctx, fan})
	if err = cmp.Or(fan.Close(), err); err != nil && !IsDamage(err) {
		err = fmt.Errorf("copy %s: %w", o.head.Place.Name(), err)
	}
	if err == nil {
		err = o.Finish()
	}
	return err
}

// openFull starts to read a full.
func (s *Store) openFull(ctx context.Context, p Place) (*bodyReader, error) {
	body, err := s.Bucket.Open(ctx, p.Name(), 0, -1)
	if errors.Is(err, ErrNotFound) {
		return nil, damaged("%w", errMissing)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", p.Name(), err)
	}
	o, err := newFullOpener(p, body, s.Identities)
	if err != nil {
		return nil, errors.Join(err, body.Close())
	}
	return o, nil
}

func newFullOpener(p Place, body io.ReadCloser, ids []age.Identity) (*bodyReader, error) {
	h, _, err := readHeader(body)
	if err == nil {
		err = h.at(p)
	}
	if err == nil && h.Content%snapshotBlock != sha256.Size {
		err = damaged("a snapshot of %d bytes has no digest at its end", h.Content)
	}
	if err != nil {
		return nil, err
	}
	o, err := openBody(h, body, ids)
	if err == nil {
		o.body = body
	}
	return o, err
}

type contextWriter struct {
	ctx context.Context
	w   io.Writer
}

func (c *contextWriter) Write(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.w.Write(p)
}
