package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
)

// Content is what an object is to hold. Size and digest are known beforehand and it can be read repeatedly, so an upload
// can be repeated and its result checked.
type Content struct {
	// Head comes first, whole and from memory. It holds its own digest or is the whole object.
	Head []byte
	// Body follows the head; nil means that there is none.
	Body Body
	// Unasked makes a bucket skip the check whether the object exists, so that the store shows whether it enforces the
	// condition of Create.
	Unasked bool
	// Whole sends the object in one request, from memory, whatever its size. InParts sends it as large objects are sent,
	// however small it is. Stores that treat both alike ignore them.
	Whole, InParts bool
}

// Body is the large part of an object.
type Body interface {
	Size() int64
	// Sum is the SHA-256 of the body.
	Sum() [sha256.Size]byte
	Open(ctx context.Context) (io.ReadCloser, error)
}

// Size is the number of bytes of the object.
func (c Content) Size() int64 {
	n := int64(len(c.Head))
	if c.Body != nil {
		n += c.Body.Size()
	}
	return n
}

// Open reads the whole object.
func (c Content) Open(ctx context.Context) (io.ReadCloser, error) {
	if c.Body == nil {
		return io.NopCloser(bytes.NewReader(c.Head)), nil
	}
	body, err := c.Body.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &readCloser{io.MultiReader(bytes.NewReader(c.Head), body), body.Close}, nil
}

// Check reads r to its end and compares it with the size and digest of c.
func (c Content) Check(r io.Reader) error {
	head := make([]byte, len(c.Head))
	if _, err := io.ReadFull(r, head); err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	if !bytes.Equal(head, c.Head) {
		return damaged("the head that was read back differs from the one that was written")
	}
	h := sha256.New()
	n, err := io.Copy(h, r)
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	if c.Body == nil {
		if n != 0 {
			return damaged("read back %d bytes too many", n)
		}
		return nil
	}
	if sum := c.Body.Sum(); n != c.Body.Size() || !bytes.Equal(h.Sum(nil), sum[:]) {
		return damaged("read back %d bytes instead of %d, or bytes that differ from those written", n, c.Body.Size())
	}
	return nil
}

type readCloser struct {
	io.Reader
	close func() error
}

func (r *readCloser) Close() error { return r.close() }

// memoryBody is a body in memory.
type memoryBody struct {
	data []byte
	sum  [sha256.Size]byte
}

func (b *memoryBody) Size() int64            { return int64(len(b.data)) }
func (b *memoryBody) Sum() [sha256.Size]byte { return b.sum }
func (b *memoryBody) Open(context.Context) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(b.data)), nil
}

// fileBody is a body in a local file, after room that is left for a head.
type fileBody struct {
	path string
	size int64
	sum  [sha256.Size]byte
	// suspect: the file could not be synced. The kernel tells that once only, so the file never becomes an object; a copy of
	// it may, since its digest is checked on the way.
	suspect atomic.Bool
}

// headRoom is the room before a body: with a head of that very length, the file becomes the object.
const headRoom = 4 << 10

func (b *fileBody) Size() int64            { return b.size }
func (b *fileBody) Sum() [sha256.Size]byte { return b.sum }
func (b *fileBody) Open(context.Context) (io.ReadCloser, error) {
	f, err := os.Open(b.path)
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(headRoom, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// remoteBody is the body of an object in another bucket.
type remoteBody struct {
	bucket Bucket
	name   string
	offset int64
	size   int64
	sum    [sha256.Size]byte
}

func (b *remoteBody) Size() int64            { return b.size }
func (b *remoteBody) Sum() [sha256.Size]byte { return b.sum }
func (b *remoteBody) Open(ctx context.Context) (io.ReadCloser, error) {
	return b.bucket.Open(ctx, b.name, b.offset, -1)
}

// HeadSum returns the digest at the end of the head of a backup object: the value of Header.Sum after reading.
func (c Content) HeadSum() string { return headSum(c.Head) }

// WithHeader returns the same content under another header.
func (c Content) WithHeader(h Header) (Content, error) {
	room := 0
	if _, ok := c.Body.(*fileBody); ok {
		room = headRoom
	}
	head, err := h.encode(room)
	return Content{Head: head, Body: c.Body}, err
}

// BodyContent is a content that is wholly in memory.
func BodyContent(head, body []byte) Content {
	return Content{Head: head, Body: &memoryBody{data: body, sum: sha256.Sum256(body)}}
}
