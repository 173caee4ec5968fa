// Package backuptest provides what tests of backups share: the suite that every bucket must pass, a bucket in memory, and
// one that fails, hangs and crashes as configured.
package backuptest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"cke/backup"
)

// Memory is a bucket in memory.
type Memory struct {
	mu      sync.Mutex
	objects map[string]object
}

type object struct {
	data []byte
	time time.Time
}

var _ backup.Bucket = (*Memory)(nil)

// NewMemory returns an empty bucket.
func NewMemory() *Memory { return &Memory{objects: map[string]object{}} }

// List implements backup.Bucket.
func (m *Memory) List(_ context.Context, prefix string) ([]backup.Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []backup.Object
	for name, o := range m.objects {
		if strings.HasPrefix(name, prefix) {
			list = append(list, backup.Object{Name: name, Size: int64(len(o.data)), ModTime: o.time})
		}
	}
	slices.SortFunc(list, func(a, b backup.Object) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// Open implements backup.Bucket.
func (m *Memory) Open(_ context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.objects[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w", name, backup.ErrNotFound)
	}
	data := o.data[min(offset, int64(len(o.data))):]
	if length >= 0 {
		data = data[:min(length, int64(len(data)))]
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// Create implements backup.Bucket.
func (m *Memory) Create(ctx context.Context, name string, c backup.Content) error {
	r, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	var data bytes.Buffer
	if err := c.Check(io.TeeReader(r, &data)); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.objects[name]; ok {
		return fmt.Errorf("%s: %w", name, backup.ErrExists)
	}
	m.objects[name] = object{data.Bytes(), time.Now()}
	return nil
}

// Delete implements backup.Bucket.
func (m *Memory) Delete(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, name)
	return nil
}

// Get returns an object's bytes, or nil if there is no such object.
func (m *Memory) Get(name string) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.objects[name].data)
}

// Set stores any bytes under a name, as a fault of the store or a manual change would.
func (m *Memory) Set(name string, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects[name] = object{slices.Clone(data), time.Now()}
}

// Clone returns an independent copy.
func (m *Memory) Clone() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := NewMemory()
	for name, o := range m.objects {
		c.objects[name] = o
	}
	return c
}
