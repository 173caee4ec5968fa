package etcdnode

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// watch looks at one thing again and again: when a caller wants a fresh look, and now and then by itself. A caller waits for
// it only as long as it likes. There is a goroutine while it looks, and only a timer while it rests.
type watch[T any] struct {
	// look has limits of its own. whole: it asks for everything, whatever old is.
	look  func(ctx context.Context, old T, begun time.Time, whole bool) T
	every time.Duration
	// looked is called after each look, before the next one starts. late: somebody waited for it in vain, and took the
	// thing for silent.
	looked func(old, new T, late bool)

	ctx    context.Context
	cancel context.CancelFunc
	ended  chan struct{}

	mu       sync.Mutex
	timer    *time.Timer // of the next look that is not asked for
	running  bool        // a goroutine looks
	wanted   bool        // a look was asked for that has not started
	closed   bool
	started  uint64    // number of the last look started
	finished uint64    // number of the last look ended
	begun    time.Time // of the look under way; zero: none
	value    T         // of the last look ended
	missed   uint64    // number of a look that somebody waited for in vain; 0: there is none
	whole    bool      // the next look is to ask for everything
	turn     chan struct{}
}

func newWatch[T any](every time.Duration, look func(ctx context.Context, old T, begun time.Time, whole bool) T, looked func(old, new T, late bool)) *watch[T] {
	w := &watch[T]{look: look, every: every, looked: looked, ended: make(chan struct{}), turn: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(every, w.ask)
	return w
}

// close ends the watch and returns when its goroutine has ended.
func (w *watch[T]) close() {
	w.cancel()
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		w.timer.Stop()
		if !w.running {
			close(w.ended)
		}
	}
	w.mu.Unlock()
	<-w.ended
}

// ask starts a look, or another one once that under way has ended.
func (w *watch[T]) ask() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.askLocked()
}

func (w *watch[T]) askLocked() {
	if w.closed {
		return
	}
	w.wanted = true
	if !w.running {
		w.running = true
		w.timer.Stop()
		go w.run()
	}
}

// run looks until no further look is wanted.
func (w *watch[T]) run() {
	for w.next() {
		w.mu.Lock()
		w.started++
		begun := time.Now().UTC()
		w.begun = begun
		old, whole := w.value, w.whole
		w.whole = false
		w.mu.Unlock()
		value := w.look(w.ctx, old, begun, whole)
		if w.ctx.Err() != nil {
			continue
		}
		w.mu.Lock()
		w.value, w.finished, w.begun = value, w.started, time.Time{}
		late := w.missed > 0 && w.missed <= w.started
		if late {
			w.missed = 0
		}
		close(w.turn)
		w.turn = make(chan struct{})
		w.mu.Unlock()
		w.looked(old, value, late)
	}
}

// next reports whether there is to be another look now. If not, the goroutine is over.
func (w *watch[T]) next() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.ctx.Err() != nil:
		if w.running = false; w.closed {
			close(w.ended)
		}
		return false
	case w.wanted:
		w.wanted = false
		return true
	}
	w.running = false
	// Later than those who ask as often as that, and not all in the same moment.
	w.timer.Reset(w.every + w.every/10 + rand.N(w.every/5+1))
	return false
}

// want asks for a look that starts after this call, and returns its number. It asks for everything.
func (w *watch[T]) want() uint64 {
	w.doubt()
	return w.glance()
}

// doubt makes the next look ask for everything.
func (w *watch[T]) doubt() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.whole = true
}

// glance asks for a look that starts after this call, and returns its number.
func (w *watch[T]) glance() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.askLocked()
	return w.started + 1
}

// last returns the result of the last look, how many there were, and since when one is under way (zero: none is).
func (w *watch[T]) last() (value T, looks uint64, begun time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.value, w.finished, w.begun
}

// wait returns true once the look with this number has ended, false if deadline comes first.
func (w *watch[T]) wait(deadline <-chan struct{}, ticket uint64) bool {
	for {
		w.mu.Lock()
		finished, turn := w.finished, w.turn
		w.mu.Unlock()
		if finished >= ticket {
			return true
		}
		select {
		case <-turn:
		case <-deadline:
			w.miss(ticket)
			return false
		case <-w.ended:
			return false
		}
	}
}

// miss notes that the look with this number is not waited for.
func (w *watch[T]) miss(ticket uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.finished < ticket {
		w.missed = ticket
	}
}
