package backup

import (
	"context"
	"io"
	"strings"
	"time"

	"cke"
)

// Bucket is a place for objects. An object is written whole or not at all, and never changes.
// backuptest.Run tests what every implementation guarantees.
type Bucket interface {
	// List returns the objects whose names start with prefix, sorted by name.
	List(ctx context.Context, prefix string) ([]Object, error)
	// Open reads length bytes from offset on, or fewer if the object ends before; a negative length reads to the end. It
	// returns cke.ErrNotFound if there is no such object.
	Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error)
	// Create writes a new object; if one of that name exists, it returns ErrExists and changes nothing. It returns nil
	// only when the object is complete and durable, and its size and digest were found equal to c's. After any other
	// error the object may exist or not, but never in part.
	Create(ctx context.Context, name string, c Content) error
	// Delete removes an object. It succeeds if there is no such object.
	Delete(ctx context.Context, name string) error
}

// Sweeper is a bucket, such as Dir, in which crashed writers may leave half-written files.
type Sweeper interface {
	// Sweep removes half-written files that are older than age.
	Sweep(ctx context.Context, age time.Duration) error
}

// Object is one entry of a listing.
type Object struct {
	Name    string
	Size    int64
	ModTime time.Time
}

// ErrNotFound is what Open returns for a missing object.
var ErrNotFound = cke.ErrNotFound

// Within returns the part of b below a folder, as if it were a separate bucket.
func Within(b Bucket, folder string) Bucket {
	folder = strings.Trim(folder, "/")
	if folder == "" {
		return b
	}
	return &within{b, folder + "/"}
}

type within struct {
	Bucket
	prefix string
}

func (w *within) List(ctx context.Context, prefix string) ([]Object, error) {
	objects, err := w.Bucket.List(ctx, w.prefix+prefix)
	for i := range objects {
		objects[i].Name = strings.TrimPrefix(objects[i].Name, w.prefix)
	}
	return objects, err
}

func (w *within) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	return w.Bucket.Open(ctx, w.prefix+name, offset, length)
}

func (w *within) Create(ctx context.Context, name string, c Content) error {
	return w.Bucket.Create(ctx, w.prefix+name, c)
}

func (w *within) Delete(ctx context.Context, name string) error {
	return w.Bucket.Delete(ctx, w.prefix+name)
}
