package sabakan_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cke"
	"cke/sabakan"
)

// source is an inventory that a story changes.
type source func(ctx context.Context) (cke.HostList, error)

func (s source) Registered(context.Context, string) (bool, error) {
	return false, errors.New("it is not asked")
}

func (s source) Hosts(ctx context.Context) (cke.HostList, error) { return s(ctx) }

func oneHost() (cke.HostList, error) {
	return cke.HostList{Hosts: []cke.Host{{ID: "a"}}, ReadAt: time.Now()}, nil
}

// run runs a reader in a bubble with a clock of its own; each read is sent.
func run(t *testing.T, r *sabakan.Reader) <-chan sabakan.Read {
	reads := make(chan sabakan.Read)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Run(ctx, func(read sabakan.Read) {
			select {
			case reads <- read:
			case <-ctx.Done():
			}
		})
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return reads
}

// An inventory is away for a day: what was known last stays known, with its age, and each failure says how old it is.
func TestReader_KeepsTheLastGoodAnswerForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fault := errors.New("connection refused")
		var away atomic.Bool
		away.Store(true)
		r := &sabakan.Reader{Interval: time.Hour, Source: source(func(context.Context) (cke.HostList, error) {
			if away.Load() {
				return cke.HostList{}, fault
			}
			return oneHost()
		})}
		if r.Last().Age(time.Now()) >= 0 || r.Last().Failure(time.Now()) != nil {
			t.Errorf("before the first read: %+v", r.Last())
		}
		reads := run(t, r)
		first := <-reads
		if err := first.Failure(time.Now()); !errors.Is(err, fault) || !strings.Contains(err.Error(), "never read") || first.Failures != 1 {
			t.Errorf("got %v, %+v", err, first)
		}
		away.Store(false)
		if good := <-reads; good.Failure(time.Now()) != nil || good.Failures != 0 || good.Age(time.Now()) != 0 || len(good.Good.Hosts) != 1 {
			t.Errorf("got %+v", good)
		}
		away.Store(true)
		var last sabakan.Read
		for range 24 {
			last = <-reads
			if last.Err == nil || len(last.Good.Hosts) != 1 {
				t.Fatalf("got %+v", last)
			}
		}
		if err := last.Failure(time.Now()); last.Failures != 24 || last.Age(time.Now()) != 24*time.Hour || err.Error() != "connection refused; the last good answer is 24h0m0s old" {
			t.Errorf("got %v, %+v", err, last)
		}
		if kept := r.Last(); kept.Failures != last.Failures || kept.At != last.At {
			t.Errorf("got %+v, sent %+v", kept, last)
		}
		away.Store(false)
		if back := <-reads; back.Err != nil || back.Failures != 0 || back.Age(time.Now()) != 0 {
			t.Errorf("got %+v", back)
		}
	})
}

// A file system hangs: the read is given up, no second one is started beside it, and what it returns in the end is too old.
func TestReader_OneReadIsUnderWayAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var started atomic.Int32
		r := &sabakan.Reader{Interval: 30 * time.Second, Source: source(func(context.Context) (cke.HostList, error) {
			if started.Add(1) == 1 {
				<-release // whatever its context says
			}
			return oneHost()
		})}
		start, reads := time.Now(), run(t, r)
		if late := <-reads; late.Err == nil || time.Since(start) != 2*sabakan.DefaultWithin {
			t.Errorf("after %s: %+v", time.Since(start), late)
		}
		for n := range 3 {
			if late := <-reads; late.Failures != n+2 || started.Load() != 1 || !strings.Contains(late.Err.Error(), "has not ended") {
				t.Errorf("got %+v after %d reads", late, started.Load())
			}
		}
		close(release)
		if good := <-reads; good.Err != nil || started.Load() != 2 || good.Age(time.Now()) != 0 {
			t.Errorf("got %+v after %d reads", good, started.Load())
		}
	})
}
