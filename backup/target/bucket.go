package target

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"cke/backup"
	"cke/internal/contain"
)

// Large objects go in parts of partSize, uploadParts at once: memory is their product.
const (
	partSize    = 8 << 20
	uploadParts = 3
)

const contentType = "application/octet-stream"

// bucket is an object store.
type bucket struct {
	b  *blob.Bucket
	s3 *s3Objects // nil: another service, which treats small and large objects alike
}

var _ backup.Bucket = (*bucket)(nil)

// List implements backup.Bucket.
func (b *bucket) List(ctx context.Context, prefix string) ([]backup.Object, error) {
	var list []backup.Object
	w := watch(ctx)
	defer w.end()
	it := b.b.List(&blob.ListOptions{Prefix: prefix})
	for {
		w.goOn()
		o, err := it.Next(w)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("list %q: %w", prefix, w.why(err))
		}
		if !o.IsDir {
			list = append(list, backup.Object{Name: o.Key, Size: o.Size, ModTime: o.ModTime})
		}
	}
	slices.SortFunc(list, func(a, b backup.Object) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// Open implements backup.Bucket.
func (b *bucket) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	w := watch(ctx)
	r, err := b.b.NewRangeReader(w, name, offset, length, nil)
	if err == nil {
		w.rest()
		return &patientReader{r, w}, nil
	}
	defer w.end()
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, fmt.Errorf("%s: %w", name, backup.ErrNotFound)
	}
	// S3 refuses a range behind the end, so each one of an empty object.
	w.goOn()
	if a, why := b.b.Attributes(w, name); why == nil && a.Size <= offset {
		return io.NopCloser(strings.NewReader("")), nil
	}
	return nil, fmt.Errorf("open %s: %w", name, w.why(err))
}

// Create implements backup.Bucket. The object is read back: what providers report of digests differs and, for objects
// uploaded in parts, is not a digest of the whole.
func (b *bucket) Create(ctx context.Context, name string, c backup.Content) error {
	if err := b.upload(ctx, name, c); err != nil {
		return err
	}
	r, err := b.Open(ctx, name, 0, -1)
	if err != nil {
		return fmt.Errorf("%w: %w", backup.ErrUnsettled, err)
	}
	defer r.Close()
	if err := c.Check(r); err != nil {
		if !backup.IsDamage(err) {
			return fmt.Errorf("%w: %w", backup.ErrUnsettled, err)
		}
		err = fmt.Errorf("the object uploaded as %s was read back altered: %v", name, err)
		if !b.honors(ctx, name) {
			return err // another writer may have replaced it
		}
		// It is ours: the upload succeeded under the condition that nothing was there.
		return errors.Join(err, b.Delete(ctx, name))
	}
	return nil
}

// honors reports whether the store keeps to the condition that nothing is there. It is tried beside an object.
func (b *bucket) honors(ctx context.Context, name string) bool {
	name += "-probe-" + rand.Text()
	c := backup.Content{Head: []byte("probe"), Unasked: true}
	err := b.upload(ctx, name, c)
	if err == nil {
		err = b.upload(ctx, name, c)
	}
	if errors.Is(err, backup.ErrExists) {
		c.InParts = true
		err = b.upload(ctx, name, c)
	}
	return b.Delete(ctx, name) == nil && errors.Is(err, backup.ErrExists)
}

func (b *bucket) upload(ctx context.Context, name string, c backup.Content) error {
	// The condition on the upload is what counts. Asking first spares an upload in vain, and helps where a store ignores it.
	if !c.Unasked {
		if there, err := b.b.Exists(ctx, name); err == nil && there {
			return fmt.Errorf("%s: %w", name, backup.ErrExists)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if b.s3 != nil && b.s3.takes(name, c) {
		return b.s3.upload(ctx, name, c)
	}
	src, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer src.Close()
	// What is uploaded is checked on its way, so that a source that changed or ended early completes nothing.
	r, w := io.Pipe()
	checked := make(chan error, 1)
	go contain.Work(func() {
		err := contain.Do(func() error { return c.Check(io.TeeReader(src, w)) })
		if err != nil {
			cancel() // before the end is seen: that abandons the upload
		}
		w.CloseWithError(err)
		checked <- err
	}, func(error) {})()
	// Not NewWriter: the library's writer for Azure panics in Close when the service refuses the object.
	err = b.b.Upload(ctx, name, r, &blob.WriterOptions{
		IfNotExist: true, BufferSize: partSize, MaxConcurrency: uploadParts, ContentType: contentType,
	})
	r.CloseWithError(errNotRead)
	if wrong := <-checked; err == nil || !errors.Is(wrong, errNotRead) {
		err = errors.Join(err, wrong)
	}
	switch {
	case err == nil:
		return nil
	case taken(err):
		return fmt.Errorf("%s: %w", name, backup.ErrExists)
	}
	return fmt.Errorf("upload %s: %w", name, err)
}

// errNotRead ends reading a source of which an upload that failed wants no more.
var errNotRead = errors.New("the upload stopped")

// taken searches for the refusal, also in a joined error.
func taken(err error) bool {
	var many interface{ Unwrap() []error }
	if !errors.As(err, &many) {
		return gcerrors.Code(err) == gcerrors.FailedPrecondition
	}
	return slices.ContainsFunc(many.Unwrap(), func(e error) bool { return gcerrors.Code(e) == gcerrors.FailedPrecondition })
}

// Delete implements backup.Bucket.
func (b *bucket) Delete(ctx context.Context, name string) error {
	w := watch(ctx)
	defer w.end()
	if err := b.b.Delete(w, name); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return protected(w.why(err))
	}
	return nil
}
