package take_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// Killed between any two writes, the next Taker goes on with what is there.
func TestTaker_CrashAtAnyWriteLosesNothing(t *testing.T) {
	t.Parallel()
	steps := 9
	if testing.Short() {
		steps = 5
	}
	for n := range steps {
		mem := backuptest.NewMemory()
		s := etcdtest.Start(t, etcdtest.Options{})
		(&taketest.Rig{T: t, Server: s}).Put("first", "1")
		c := taketest.Config(s, backuptest.CrashAt(mem, n))
		c.Delta.Size = 1 // every change is due at once
		c.Shutdown = time.Millisecond
		c.Retry.For = time.Second // the dead take no more
		r := taketest.Start(t, s, c)
		e := <-r.Events // of the full
		crashed := e.Err != nil
		for i := range 5 {
			r.Put(fmt.Sprint("k", i), "v")
			// Either it is stored, or the crash is told.
			limit := time.After(time.Minute)
			for done := crashed; !done; {
				select {
				case e := <-r.Events:
					crashed = crashed || e.Err != nil
					done = e.Type == take.DeltaStored || crashed
				case <-limit:
					t.Fatalf("crash at %d: nothing happens", n)
				}
			}
		}
		r.Abandon()
		r = taketest.Start(t, s, taketest.Config(s, mem))
		r.Put("end", "1")
		if _, err := r.Taker.Full(etcdtest.Context(t)); err != nil {
			t.Fatal(err)
		}
		r.Put("end", "2")
		r.Flush()
		same(t, r, mem)
		r.Stop()
	}
}

func TestTaker_TwoWritersNeverOverlap(t *testing.T) {
	t.Parallel()
	b := backuptest.NewMemory()
	r1 := begin(t, b, func(c *take.Config) { c.Delta.Size = 1; c.Writer = "one" })
	c := taketest.Config(r1.Server, b)
	c.Delta.Size, c.Writer = 1, "two"
	r2 := taketest.Start(t, r1.Server, c)
	for i := range 60 {
		r1.Put(fmt.Sprint("k", i%7), fmt.Sprint(i))
	}
	// Whoever loses a race for a name is told and goes on from what the other wrote.
	if err := r1.Stop(); err != nil {
		t.Fatal(err)
	}
	r2.Put("end", "1")
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		err := r2.Taker.Flush(ctx)
		cancel()
		if err == nil {
			break
		}
		if !errors.Is(err, take.ErrStopped) {
			t.Fatal(err)
		}
	}
	same(t, r2, b)
	l, err := r2.Store().Lineage(etcdtest.Context(t), "a1b2")
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range l.Streams {
		next := st.First
		for _, d := range st.Deltas {
			h, err := backup.ReadHeader(etcdtest.Context(t), b, d.Place)
			if err != nil || h.Place.Revision != next {
				t.Errorf("stream %d: a delta begins at %d, want %d: %v", st.Stream, h.Place.Revision, next, err)
			}
			next = h.Last + 1
		}
	}
}

func TestTaker_DeadTargetDoesNotHoldTheWatchBeyondItsBuffer(t *testing.T) {
	t.Parallel()
	mem := backuptest.NewMemory()
	var dead sync.Map
	b := &backuptest.Faulty{Bucket: mem, Before: func(ctx context.Context, op, name string) error {
		if _, ok := dead.Load("yes"); ok && op == "create" {
			<-ctx.Done() // hangs
			return ctx.Err()
		}
		return nil
	}}
	r := begin(t, b, func(c *take.Config) {
		c.Delta.Size, c.Buffer, c.Delta.Period = 4<<10, 1<<20, cke.Duration(50*time.Millisecond)
		c.Retry.Attempt = time.Second
	})
	dead.Store("yes", true)
	for i := range 60 {
		r.Put(fmt.Sprint("k", i), random(64<<10))
	}
	r.Await(take.Overflow)
	if p := r.Taker.Status().Problem; p == "" {
		t.Error("no problem is told")
	}
	dead.Delete("yes")
	r.Await(take.FullStored)
	r.Put("end", "1")
	r.Flush()
	same(t, r, mem)
	if p := r.Taker.Status().Problem; p != "" {
		t.Errorf("problem %q stays", p)
	}
}

func TestTaker_TargetThatFailsForAWhileLosesNothing(t *testing.T) {
	t.Parallel()
	mem := backuptest.NewMemory()
	var mu sync.Mutex
	failures := 0
	b := &backuptest.Faulty{
		Bucket: mem,
		Before: func(_ context.Context, op, _ string) error {
			mu.Lock()
			defer mu.Unlock()
			if op == "create" && failures > 3 {
				failures--
				return errors.New("no space left")
			}
			return nil
		},
		After: func(op, _ string) error { // it was written, and yet an error comes back
			mu.Lock()
			defer mu.Unlock()
			if failures > 0 {
				failures--
				return errors.New("connection reset")
			}
			return nil
		},
	}
	r := begin(t, b, nil)
	for i := range 10 {
		mu.Lock()
		failures = 6
		mu.Unlock()
		r.Put("k", fmt.Sprint(i))
		r.Flush()
	}
	same(t, r, mem)
}
