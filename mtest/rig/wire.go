package rig

import (
	"context"
	"net"
	"sync"
)

// Wire carries TCP connections to one address until it is cut: then connections stay, new ones are accepted, and
// nothing comes through.
type Wire struct {
	// Address is where it is reached.
	Address string

	listener net.Listener
	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup

	mu    sync.Mutex
	whole chan struct{} // closed while the wire carries
}

// NewWire returns a wire to an address. Close it.
func NewWire(to string) (*Wire, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &Wire{Address: l.Addr().String(), listener: l, whole: make(chan struct{})}
	close(w.whole)
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.wg.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				near.Close()
				continue
			}
			context.AfterFunc(w.ctx, func() { near.Close(); far.Close() })
			w.wg.Go(func() { w.carry(near, far) })
			w.wg.Go(func() { w.carry(far, near) })
		}
	})
	return w, nil
}

// Cut stops everything; Repair lets it continue where it stopped.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.whole = make(chan struct{})
}

// Repair undoes Cut.
func (w *Wire) Repair() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.whole)
}

// Close ends all connections.
func (w *Wire) Close() {
	w.cancel()
	w.listener.Close()
	w.wg.Wait()
}

func (w *Wire) carry(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		w.mu.Lock()
		whole := w.whole
		w.mu.Unlock()
		select {
		case <-whole:
		case <-w.ctx.Done():
		}
		if _, werr := to.Write(b[:n]); err != nil || werr != nil {
			return
		}
	}
}
