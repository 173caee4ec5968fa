package ui_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"cke"
)

// world is a store in memory.
type world struct {
	mu       sync.Mutex
	clusters map[string]*stored
	broken   error
	changed  map[chan struct{}]string
	// start is set where the clock runs: observations of the present stay as old as they are, until they end.
	start, end time.Time
}

// stored is what a world holds of one cluster.
type stored struct {
	log      []cke.Spec
	status   *cke.Status
	identity cke.Identity
	requests cke.Requests
	records  []cke.Record
	led      bool
	// deposed is when another daemon started to lead; zero: this one leads.
	deposed time.Time
}

func newWorld() *world {
	return &world{clusters: map[string]*stored{}, changed: map[chan struct{}]string{}}
}

// change changes a cluster, and announces it.
func (w *world) change(name string, f func(*stored)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w.clusters[name])
	for c, of := range w.changed {
		if of == name {
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}
}

func (w *world) breaks(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = err
}

// read returns what f returns of a cluster.
func read[T any](w *world, name string, f func(*stored) (T, error)) (T, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var none T
	if w.broken != nil {
		return none, w.broken
	}
	c := w.clusters[name]
	if c == nil {
		return none, fmt.Errorf("cluster %s: %w", name, cke.ErrNotFound)
	}
	v, err := f(c)
	if err != nil {
		return none, err
	}
	text, _ := json.Marshal(v) // nothing is shared with the store
	_ = json.Unmarshal(text, &none)
	return none, nil
}

func (w *world) Clusters(context.Context) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.clusters)), w.broken
}

func (w *world) Spec(_ context.Context, name string) (cke.Spec, error) {
	return read(w, name, func(c *stored) (cke.Spec, error) { return c.log[0], nil })
}

func (w *world) SpecLog(_ context.Context, name string) ([]cke.Spec, error) {
	return read(w, name, func(c *stored) ([]cke.Spec, error) { return c.log, nil })
}

func (w *world) Status(_ context.Context, name string) (cke.Status, error) {
	return read(w, name, func(c *stored) (cke.Status, error) {
		if c.status == nil {
			return cke.Status{}, cke.ErrNotFound
		}
		s := *c.status
		if !w.start.IsZero() && noon.Sub(s.ObservedAt) < time.Minute { // else nothing is observed any more
			until := time.Now()
			if !w.end.IsZero() {
				until = w.end
			}
			s.ObservedAt = s.ObservedAt.Add(until.Sub(w.start).Truncate(time.Second))
		}
		return s, nil
	})
}

// Statuses are encoded as the store has them.
func (w *world) Statuses(ctx context.Context) (map[string][]byte, error) {
	names, err := w.Clusters(ctx)
	texts := map[string][]byte{}
	for _, name := range names {
		s, none := w.Status(ctx, name)
		switch {
		case errors.Is(none, cke.ErrNotFound):
			continue
		case none != nil:
			return nil, none
		}
		if texts[name], err = json.Marshal(s); err != nil {
			return nil, err
		}
	}
	return texts, err
}

func (w *world) Identity(_ context.Context, name string) (cke.Identity, error) {
	return read(w, name, func(c *stored) (cke.Identity, error) { return c.identity, nil })
}

func (w *world) RequestsOf(_ context.Context, name string) (cke.Requests, error) {
	return read(w, name, func(c *stored) (cke.Requests, error) { return c.requests, nil })
}

func (w *world) Leader(_ context.Context, name string) (cke.Leader, error) {
	return read(w, name, func(c *stored) (cke.Leader, error) {
		if !c.led {
			return cke.Leader{}, cke.ErrNotFound
		}
		return cke.Leader{Host: "boot-1", Term: 7}, nil
	})
}

func (w *world) Records(_ context.Context, name string, n int) ([]cke.Record, error) {
	return read(w, name, func(c *stored) ([]cke.Record, error) { return c.records[:min(n, len(c.records))], nil })
}

func (w *world) Record(_ context.Context, name string, id int64) (cke.Record, error) {
	return read(w, name, func(c *stored) (cke.Record, error) {
		for _, r := range c.records {
			if r.ID == id {
				return r, nil
			}
		}
		return cke.Record{}, cke.ErrNotFound
	})
}

func (w *world) Changes(ctx context.Context, name string) <-chan struct{} {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	w.changed[c] = name
	w.mu.Unlock()
	context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.changed, c)
		close(c)
	})
	return c
}
