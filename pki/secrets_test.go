package pki_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"cke"
	"cke/pki"
)

// memory keeps secrets as the store does: created once, never overwritten.
type memory struct {
	mu      sync.Mutex
	values  map[string][]byte
	reads   int
	creates int
	fail    error         // what every call fails with, or nil
	late    chan struct{} // when not nil, reads wait for it after they have looked
}

func newMemory() *memory { return &memory{values: map[string][]byte{}} }

func (m *memory) Secret(ctx context.Context, name string) ([]byte, error) {
	m.mu.Lock()
	m.reads++
	value, ok := m.values[name]
	late, fail := m.late, m.fail
	m.mu.Unlock()
	if late != nil {
		select {
		case <-late:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	switch {
	case fail != nil:
		return nil, fail
	case !ok:
		return nil, fmt.Errorf("secret %s: %w", name, cke.ErrNotFound)
	}
	return bytes.Clone(value), nil
}

func (m *memory) CreateSecret(ctx context.Context, name string, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	if _, ok := m.values[name]; ok {
		return fmt.Errorf("secret %s: %w", name, cke.ErrConflict)
	}
	m.creates++
	m.values[name] = bytes.Clone(value)
	return nil
}

// clock is a clock that a test sets.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Now()} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newAuthority() (*pki.Authority, *memory, *clock) {
	m, c := newMemory(), newClock()
	return pki.New(m, "prod", c.Now), m, c
}

func join(address, hostname string) cke.Join {
	return cke.Join{ID: "abcdef012345", Node: cke.Node{Address: address, Hostname: hostname}, Member: hostname, ClientPort: 2379, PeerPort: 2380}
}
