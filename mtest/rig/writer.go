package rig

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Writer writes keys through all members in turn and remembers which writes were acknowledged: those must never be lost.
// A write whose outcome is not known is never repeated under the same key.
type Writer struct {
	*Pulse
	clients []*clientv3.Client
	prefix  string
	stop    context.CancelFunc
	wg      sync.WaitGroup
	count   atomic.Int64

	mu    sync.Mutex
	acked map[string]string
}

// Bounds of a writer's rhythm.
const (
	writeEvery = 20 * time.Millisecond
	writeLimit = time.Second
	// writesAtOnce bounds the writes through one member that were not answered yet.
	writesAtOnce = 50
)

// LostError reports acknowledged writes that a member does not have.
type LostError struct {
	Through string   // the URL of the member
	Lost    []string // what is in place of each
}

func (e *LostError) Error() string {
	const most = 10
	lines := e.Lost
	if more := len(lines) - most; more > 0 {
		lines = append(slices.Clone(lines[:most]), fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("read back through %s: %s", e.Through, strings.Join(lines, "\n"))
}

// StartWriter writes below prefix until Stop.
func StartWriter(urls []string, tls *tls.Config, prefix string) (*Writer, error) {
	w := &Writer{prefix: prefix, acked: map[string]string{}, Pulse: StartPulse()}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	for _, url := range urls {
		c, err := Client(url, tls)
		if err != nil {
			w.Stop()
			return nil, err
		}
		w.clients = append(w.clients, c)
	}
	for _, c := range w.clients {
		w.wg.Go(func() { w.write(ctx, c) })
	}
	return w, nil
}

// write begins a write at every tick, whether the last one was answered or not: as with many clients, one answer that
// is lost does not hold up the others.
func (w *Writer) write(ctx context.Context, c *clientv3.Client) {
	free := make(chan struct{}, writesAtOnce)
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		select {
		case free <- struct{}{}:
			w.wg.Go(func() {
				w.put(ctx, c)
				<-free
			})
		default: // nothing was answered for a time
		}
	}
}

func (w *Writer) put(ctx context.Context, c *clientv3.Client) {
	n := w.count.Add(1)
	key, value := fmt.Sprintf("%s%08d", w.prefix, n), fmt.Sprint(n)
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	if _, err := c.Put(ctx, key, value); err == nil {
		w.acknowledge(key, value)
	}
}

func (w *Writer) acknowledge(key, value string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acked[key] = value
	w.Beat()
}

// Acked is how many writes were acknowledged so far.
func (w *Writer) Acked() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acked)
}

// Await waits until n more writes are acknowledged.
func (w *Writer) Await(ctx context.Context, n int) error {
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	for goal := w.Acked() + n; w.Acked() < goal; {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d writes acknowledged: %w", w.Acked(), goal, ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// Stop ends the writing.
func (w *Writer) Stop() {
	w.stop()
	w.wg.Wait()
	for _, c := range w.clients {
		c.Close()
	}
	w.clients = nil
}

// Check reads everything back through each of the members, by linearizable reads, and fails if an acknowledged write
// is missing or another value is in its place.
func (w *Writer) Check(ctx context.Context, urls []string, tls *tls.Config) error {
	for _, url := range urls {
		if err := w.check(ctx, url, tls); err != nil {
			return err
		}
	}
	return nil
}

func (w *Writer) check(ctx context.Context, url string, tls *tls.Config) error {
	c, err := Client(url, tls)
	if err != nil {
		return err
	}
	defer c.Close()
	expected := w.acknowledged() // before the read: the writing may go on
	resp, err := c.Get(ctx, w.prefix, clientv3.WithPrefix())
	if err != nil {
		return fmt.Errorf("read back through %s: %w", url, err)
	}
	found := map[string]string{}
	for _, kv := range resp.Kvs {
		found[string(kv.Key)] = string(kv.Value)
	}
	var lost []string
	for key, value := range expected {
		if got, there := found[key]; !there || got != value {
			lost = append(lost, fmt.Sprintf("%s was acknowledged with %q, and is %q", key, value, got))
		}
	}
	if len(lost) == 0 {
		return nil
	}
	slices.Sort(lost)
	return &LostError{url, lost}
}

func (w *Writer) acknowledged() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.acked)
}
