package backuptest

import (
	"context"
	"errors"
	"io"
	"sync"

	"cke/backup"
)

// ErrCrash is returned by a Faulty after it has crashed.
var ErrCrash = errors.New("crashed")

// Faulty is a bucket that fails as configured. The zero value of every hook does nothing.
type Faulty struct {
	backup.Bucket
	// Before is called before every operation ("list", "open", "create", "delete") and may block; an error makes the
	// operation fail without effect.
	Before func(ctx context.Context, op, name string) error
	// After is called after an operation took effect; an error is returned in place of success.
	After func(op, name string) error
	// Read wraps what Open returns.
	Read func(name string, r io.ReadCloser) io.ReadCloser
}

var _ backup.Bucket = (*Faulty)(nil)

// CrashAt returns a bucket in which the n-th step crashes, and every later one fails. Every change counts as two steps:
// one before and one after it takes effect.
func CrashAt(b backup.Bucket, n int) *Faulty {
	var mu sync.Mutex
	step := func(string) error {
		mu.Lock()
		defer mu.Unlock()
		n--
		if n < 0 {
			return ErrCrash
		}
		return nil
	}
	changes := func(op string) bool { return op == "create" || op == "delete" }
	return &Faulty{
		Bucket: b,
		Before: func(_ context.Context, op, _ string) error {
			if changes(op) {
				return step(op)
			}
			mu.Lock()
			defer mu.Unlock()
			if n < 0 {
				return ErrCrash
			}
			return nil
		},
		After: func(op, _ string) error {
			if changes(op) {
				return step(op)
			}
			return nil
		},
	}
}

func (f *Faulty) before(ctx context.Context, op, name string) error {
	if f.Before == nil {
		return nil
	}
	return f.Before(ctx, op, name)
}

func (f *Faulty) after(op, name string, err error) error {
	if err != nil || f.After == nil {
		return err
	}
	return f.After(op, name)
}

// List implements backup.Bucket.
func (f *Faulty) List(ctx context.Context, prefix string) ([]backup.Object, error) {
	if err := f.before(ctx, "list", prefix); err != nil {
		return nil, err
	}
	return f.Bucket.List(ctx, prefix)
}

// Open implements backup.Bucket.
func (f *Faulty) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if err := f.before(ctx, "open", name); err != nil {
		return nil, err
	}
	r, err := f.Bucket.Open(ctx, name, offset, length)
	if err == nil && f.Read != nil {
		r = f.Read(name, r)
	}
	return r, err
}

// Create implements backup.Bucket.
func (f *Faulty) Create(ctx context.Context, name string, c backup.Content) error {
	if err := f.before(ctx, "create", name); err != nil {
		return err
	}
	return f.after("create", name, f.Bucket.Create(ctx, name, c))
}

// Delete implements backup.Bucket.
func (f *Faulty) Delete(ctx context.Context, name string) error {
	if err := f.before(ctx, "delete", name); err != nil {
		return err
	}
	return f.after("delete", name, f.Bucket.Delete(ctx, name))
}
