package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cenkalti/backoff/v5"

	"cke/backup/internal/stream"
)

// ErrUnsettled reports that an object was written, or may have been, and was not read back.
var ErrUnsettled = errors.New("it may be stored, but was not read back")

// Retry bounds how a write to a bucket is repeated.
type Retry struct {
	// First is the pause after the first failure, doubled up to Longest; zero: 500 ms and 30 s.
	First, Longest time.Duration
	// For is how long to retry; zero: 10 minutes. The context may stop it earlier.
	For time.Duration
	// Attempt bounds one attempt, so that a target that hangs is given up; zero: a minute, and a second for each MiB.
	// What an attempt may have written is read back within the same time again.
	Attempt time.Duration
}

func (r Retry) attempt(size int64) time.Duration {
	if r.Attempt > 0 {
		return r.Attempt
	}
	return time.Minute + time.Duration(size>>20)*time.Second
}

func (r Retry) withDefaults() Retry {
	if r.First == 0 {
		r.First = 500 * time.Millisecond
	}
	if r.Longest == 0 {
		r.Longest = 30 * time.Second
	}
	if r.For == 0 {
		r.For = 10 * time.Minute
	}
	return r
}

// Put writes an object and tries again when the bucket fails. If the outcome of an attempt is unknown, it reads the
// object: if that is the same one, it was written. ErrExists means that another one exists. guard, which may be nil, is
// called before every attempt; its error stops Put.
func (r Retry) Put(ctx context.Context, b Bucket, name string, c Content, guard func() error) error {
	r = r.withDefaults()
	if p, is := ParsePlace(name); is && p.Kind == KindDelta {
		c.Whole = true // writers contend for this name: it takes the request of which Mark has seen that the store keeps to its condition
	}
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = r.First, r.Longest
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		if guard != nil {
			if err := guard(); err != nil {
				return struct{}{}, backoff.Permanent(err)
			}
		}
		err := r.create(ctx, b, name, c)
		if errors.Is(err, ErrExists) || errors.Is(err, ErrLost) || IsDamage(err) {
			return struct{}{}, backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(r.For))
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// create is one attempt. The end of its time does not show whether the object was written: that is settled, or the next attempt would fare no
// better, or find no time.
func (r Retry) create(ctx context.Context, b Bucket, name string, c Content) error {
	attempt, cancel := context.WithTimeout(ctx, r.attempt(c.Size()))
	defer cancel()
	err := b.Create(attempt, name, c)
	if err != nil && attempt.Err() != nil && !errors.Is(err, ErrExists) {
		err = fmt.Errorf("%w: %w", ErrUnsettled, err)
	}
	exists := errors.Is(err, ErrExists)
	if !exists && !errors.Is(err, ErrUnsettled) || ctx.Err() != nil {
		return err
	}
	again, cancel := context.WithTimeout(ctx, r.attempt(c.Size()))
	defer cancel()
	same := sameObject(again, b, name, c)
	switch {
	case same == nil:
		if e, is := b.(interface{ Expect(Place) }); is { // it is stored, as if Create had said so
			if p, is := ParsePlace(name); is {
				e.Expect(p)
			}
		}
		return nil
	case errors.Is(same, ErrExists) || IsDamage(same):
		return same
	case exists:
		return fmt.Errorf("%w: %w", ErrUnsettled, same)
	}
	return err
}

// sameObject is nil if what is there is c, from its first byte to its last. ErrExists if it is something else; damage if it
// is c cut short or altered.
func sameObject(ctx context.Context, b Bucket, name string, c Content) error {
	r, err := b.Open(ctx, name, 0, -1)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := sameHead(r, c); err != nil {
		return err
	}
	rest := Content{Body: c.Body}
	err = rest.Check(&contextReader{ctx, r})
	if IsDamage(err) {
		return damaged("the stored object was altered after its header")
	}
	return err
}

// sameHead reads c's head.
func sameHead(r io.Reader, c Content) error {
	head := make([]byte, len(c.Head))
	n, err := io.ReadFull(stream.Uncut(r), head)
	switch {
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF):
		return err
	case bytes.Equal(head, c.Head):
		return nil
	case bytes.HasPrefix(c.Head, head[:n]):
		return damaged("the stored object is truncated: %d bytes instead of %d", n, c.Size())
	}
	return ErrExists
}

// Pause waits for a time, or until ctx is canceled; then it returns the error of ctx.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Since returns how long ago a time was, by one clock. If the clock was put back, or the machine suspended, that counts
// as a long time.
func Since(then, now time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)).Abs())
}
