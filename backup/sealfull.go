package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"filippo.io/age"

	"cke/backup/internal/pages"
	"cke/backup/internal/stream"
)

// ErrNeedsWhole reports that the kept part of a snapshot does not show its revision. Take it again with KeepWhole.
var ErrNeedsWhole = errors.New("the snapshot must be kept whole to be read")

// FullWriter receives an etcd snapshot as a stream, and writes two local files: what is needed to read the snapshot's
// revision, and the compressed and encrypted body to be uploaded. Memory does not depend on its size.
type FullWriter struct {
	raw, body *os.File
	pages     *pages.Sieve
	seal      *bodyWriter
	check     *digestGuard
	fan       *stream.Fanout
	back      *writeback
}

// NewFullWriter makes the two files; raw == "" means that the snapshot is in a file already.
func NewFullWriter(raw, body string, recipients []age.Recipient) (w *FullWriter, err error) {
	w = &FullWriter{check: newDigestGuard()}
	if raw != "" {
		if w.raw, err = os.OpenFile(raw, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
			return nil, err
		}
	}
	if w.body, err = os.OpenFile(body, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	if _, err = w.body.Seek(headRoom, io.SeekStart); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	if w.seal, err = newBody(w.body, recipients, true); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	to := []io.Writer{w.check, w.seal}
	if w.raw != nil {
		w.pages = newSieve(w.raw)
		to[0] = io.MultiWriter(w.pages, w.check)
	}
	w.fan = stream.NewFanout(to...)
	return w, nil
}

// beginFull makes the file of a full for a bucket, of a snapshot that is in files already.
func beginFull(body string, to Bucket, recipients []age.Recipient) (*FullWriter, error) {
	w, err := NewFullWriter("", body, recipients)
	if err != nil {
		return nil, err
	}
	if err := w.For(to); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// For sets where the object will be stored. If its file can become the object, the disk starts to sync it while it is
// written. Call it before anything is written.
func (w *FullWriter) For(b Bucket) error {
	if !keepsFiles(b) {
		return nil
	}
	back, err := newWriteback(w.body.Name())
	w.back = back
	if err == nil {
		w.seal.Into(writtenBack{w.body, back})
	}
	return err
}

// KeepWhole makes the first file a copy of the whole snapshot. Call it before anything is written.
func (w *FullWriter) KeepWhole() { w.pages.Whole = true }

// Write takes the next bytes of the snapshot.
func (w *FullWriter) Write(p []byte) (int, error) { return w.fan.Write(p) }

// end completes the stream and checks that it was whole.
func (w *FullWriter) end() error {
	if err := w.fan.Close(); err != nil {
		return err
	}
	if err := w.check.done(); err != nil {
		return err
	}
	return w.seal.Close()
}

// complete gives a database the digest that a snapshot ends with.
func (w *FullWriter) complete() error {
	if err := w.fan.Close(); err != nil {
		return err
	}
	sum := w.check.sum()
	_, err := io.MultiWriter(w.check, w.seal).Write(sum)
	return err
}

// Seal completes the full. It refuses a snapshot that does not end with its own digest: a truncated one. h provides place
// and writer; if Place.Revision is 0, it is filled in from the snapshot. ErrNeedsWhole: take the snapshot again.
func (w *FullWriter) Seal(h Header) (Content, Header, error) {
	if err := w.end(); err != nil {
		return Content{}, h, err
	}
	if err := w.pages.Done(); err != nil {
		return Content{}, h, err
	}
	info, err := InspectSnapshot(w.raw.Name())
	if err != nil && !w.pages.Whole {
		err = fmt.Errorf("%w: %w", ErrNeedsWhole, err)
	}
	if err != nil {
		return Content{}, h, err
	}
	return w.describe(h, info)
}

func (w *FullWriter) describe(h Header, info SnapshotInfo) (Content, Header, error) {
	if h.Place.Revision == 0 {
		h.Place.Revision = info.Revision
	}
	h.Last, h.Leases, h.Compacted = h.Place.Revision, info.Leases, info.Compacted
	h.AuthRevision, h.AuthEnabled = info.AuthRevision, info.AuthEnabled
	w.seal.describe(&h)
	c, err := Content{Body: &fileBody{path: w.body.Name(), size: h.BodySize, sum: h.bodySum()}}.WithHeader(h)
	h.Size, h.Sum = c.Size(), c.HeadSum()
	return c, h, err
}

// Close closes the files; the content returned by Seal stays readable until they are removed.
func (w *FullWriter) Close() error {
	var err error
	if w.fan != nil {
		err = w.fan.Close()
	}
	if w.seal != nil {
		w.seal.Abandon()
	}
	err = errors.Join(err, w.back.Close())
	for _, f := range []*os.File{w.raw, w.body} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}

// SealFull makes a full for a bucket from a snapshot file, or from a database file, which has no digest at its end yet;
// body is the file for the result.
func SealFull(ctx context.Context, snapshot, body string, to Bucket, h Header, recipients []age.Recipient) (Content, Header, error) {
	c, h, _, err := sealFile(ctx, snapshot, body, to, h, recipients)
	return c, h, err
}

// sealFile is SealFull, and returns the digest at the end of the snapshot.
func sealFile(ctx context.Context, snapshot, body string, to Bucket, h Header, recipients []age.Recipient) (c Content, _ Header, digest [sha256.Size]byte, err error) {
	info, err := InspectSnapshot(snapshot)
	if err != nil {
		return c, h, digest, err
	}
	src, err := os.Open(snapshot)
	if err != nil {
		return c, h, digest, err
	}
	defer src.Close()
	w, err := beginFull(body, to, recipients)
	if err != nil {
		return c, h, digest, err
	}
	defer w.Close()
	n, err := w.fan.ReadFrom(&contextReader{ctx, src})
	if err != nil {
		return c, h, digest, fmt.Errorf("read %s: %w", snapshot, err)
	}
	if n%snapshotBlock == 0 {
		err = w.complete()
	}
	if err = errors.Join(err, w.end()); err != nil {
		return c, h, digest, err
	}
	copy(digest[:], w.check.tail)
	c, h, err = w.describe(h, info)
	return c, h, digest, err
}

// digestGuard checks that a stream ends with the SHA-256 of all that precedes it.
type digestGuard struct {
	h    hash.Hash
	tail []byte // the newest bytes, not yet hashed
	size int64
}

func newDigestGuard() *digestGuard { return &digestGuard{h: sha256.New()} }

func (g *digestGuard) Write(p []byte) (int, error) {
	g.size += int64(len(p))
	if len(p) >= sha256.Size {
		g.h.Write(g.tail)
		g.h.Write(p[:len(p)-sha256.Size])
		g.tail = append(g.tail[:0], p[len(p)-sha256.Size:]...)
		return len(p), nil
	}
	g.tail = append(g.tail, p...)
	if over := len(g.tail) - sha256.Size; over > 0 {
		g.h.Write(g.tail[:over])
		g.tail = append(g.tail[:0], g.tail[over:]...)
	}
	return len(p), nil
}

// sum takes the tail to be data.
func (g *digestGuard) sum() []byte {
	g.h.Write(g.tail)
	g.tail = g.tail[:0]
	return g.h.Sum(nil)
}

// whole returns the SHA-256 of all that was written, in hex. Nothing can be written then.
func (g *digestGuard) whole() string { return hex.EncodeToString(g.sum()) }

func (g *digestGuard) done() error {
	if g.size%snapshotBlock != sha256.Size {
		return damaged("the snapshot is truncated: %d bytes", g.size)
	}
	if !bytes.Equal(g.h.Sum(nil), g.tail) {
		return damaged("the snapshot does not match the digest at its end")
	}
	return nil
}
