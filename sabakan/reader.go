package sabakan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"cke"
)

// Reader reads an inventory again and again, and keeps the last good answer. Only its own goroutine waits for the inventory.
type Reader struct {
	Source cke.Inventory
	// Interval is the time from the end of one read to the start of the next.
	Interval time.Duration
	// Within is how long a read is waited for; zero: twice DefaultWithin, since sources have their own deadlines. The file system
	// of a file may hang for longer. The next read starts only after such a read has ended.
	Within time.Duration

	mu   sync.Mutex
	last Read
}

// Read is what is known of an inventory.
type Read struct {
	// Good is the last good answer, which is shared: it is not to be changed. Its ReadAt is zero if there was none yet.
	Good cke.HostList
	// Err is why the newest read failed; nil: it was good. Failures counts those that failed since the last good one.
	Err      error
	Failures int
	// At is when the newest read ended; zero: there was none yet.
	At time.Time
}

// Age is how old the last good answer is; negative: there was none yet.
func (r Read) Age(now time.Time) time.Duration {
	if r.Good.ReadAt.IsZero() {
		return -1
	}
	return max(now.Sub(r.Good.ReadAt), 0)
}

// Failure is why the newest read failed, with the age of the last good answer; nil: it was good.
func (r Read) Failure(now time.Time) error {
	switch age := r.Age(now); {
	case r.Err == nil:
		return nil
	case age < 0:
		return fmt.Errorf("%w; the inventory was never read yet", r.Err)
	default:
		return fmt.Errorf("%w; the last good answer is %s old", r.Err, age.Round(time.Second))
	}
}

// Last returns what is known now. It never waits for the inventory.
func (r *Reader) Last() Read {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// Run reads at once and then at the interval, until ctx ends. It calls done after each read.
func (r *Reader) Run(ctx context.Context, done func(Read)) {
	late := false
	ended := make(chan result, 1)
	for next := time.NewTimer(0); ; next.Reset(r.Interval) {
		select {
		case <-ctx.Done():
			next.Stop()
			return
		case <-next.C:
		}
		if late {
			select {
			case <-ended: // it is older than it seems
				late = false
			default:
			}
		}
		got := result{err: errLate}
		if !late {
			got, late = r.read(ctx, ended)
		}
		if ctx.Err() == nil {
			done(r.keep(got))
		}
	}
}

// errLate is why a read failed that was given up.
var errLate = errors.New("a read of the inventory was started earlier and has not ended")

type result struct {
	list cke.HostList
	err  error
}

// read reads once. A read that it gives up is late, and sends its result later.
func (r *Reader) read(ctx context.Context, ended chan result) (got result, late bool) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.Within, 2*DefaultWithin))
	defer cancel()
	go func() {
		list, err := r.Source.Hosts(ctx)
		ended <- result{list, err}
	}()
	select {
	case got := <-ended:
		return got, false
	case <-ctx.Done():
		return result{err: errLate}, true
	}
}

func (r *Reader) keep(got result) Read {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last.At, r.last.Err = time.Now(), got.err
	if got.err != nil {
		r.last.Failures++
	} else {
		r.last.Failures, r.last.Good = 0, got.list
	}
	return r.last
}
