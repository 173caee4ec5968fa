package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"cke"
	"cke/backup"
	"cke/internal/term"
)

// meter counts what goes to and comes from a bucket.
type meter struct {
	backup.Bucket
	objects, bytes atomic.Int64
	// changed is set if something was or may have been written or deleted.
	changed atomic.Bool
}

var _ backup.Sweeper = (*meter)(nil)

// Open implements backup.Bucket.
func (m *meter) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	r, err := m.Bucket.Open(ctx, name, offset, length)
	if err != nil {
		return nil, err
	}
	return &meteredReader{r, m}, nil
}

// Create implements backup.Bucket.
func (m *meter) Create(ctx context.Context, name string, c backup.Content) error {
	if backup.IsLock(name) {
		return m.Bucket.Create(ctx, name, c)
	}
	m.changed.Store(true)
	err := m.Bucket.Create(ctx, name, c)
	if err == nil {
		m.objects.Add(1)
		m.bytes.Add(c.Size())
	}
	return err
}

// Delete implements backup.Bucket.
func (m *meter) Delete(ctx context.Context, name string) error {
	err := m.Bucket.Delete(ctx, name)
	if !backup.IsLock(name) && !errors.Is(err, backup.ErrProtected) {
		m.changed.Store(true)
		m.objects.Add(1)
	}
	return err
}

// Sweep implements backup.Sweeper.
func (m *meter) Sweep(ctx context.Context, age time.Duration) error {
	if s, ok := m.Bucket.(backup.Sweeper); ok {
		return s.Sweep(ctx, age)
	}
	return nil
}

type meteredReader struct {
	io.ReadCloser
	m *meter
}

func (r *meteredReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.m.bytes.Add(int64(n))
	return n, err
}

func (r *meteredReader) Close() error {
	r.m.objects.Add(1)
	return r.ReadCloser.Close()
}

// progressAfter is how long work may take before a terminal shows how far it is.
const progressAfter = 300 * time.Millisecond

// telling shows on a terminal how far long work is, until the function that it returns is called.
func (a *app) telling(doing string, m *meter) (done func()) {
	live := term.NewLive(a.stderr, a.size(a.stderr))
	if !live.Terminal() {
		return func() {}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	begun := a.now()
	go func() {
		defer close(stopped)
		tick := time.NewTicker(progressAfter)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				live.Show(fmt.Sprintf("%s: %s, %s so far (%s)", doing, cke.Count(m.objects.Load(), "object"), term.Size(m.bytes.Load()), term.Took(a.now().Sub(begun))))
			case <-stop:
				live.Show()
				return
			}
		}
	}()
	return func() { close(stop); <-stopped }
}
