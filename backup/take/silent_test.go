package take_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// clock is one that can be put forward.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time             { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) putForward(d time.Duration) { c.ahead.Add(int64(d)) }

// A watch may be open and bring nothing: the member has lost the others, or what is between has forgotten the connection.
func TestTaker_ASilentWatchIsReportedAndBeginsOnAnotherMember(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{})
	var mu sync.Mutex
	silent, watched := false, ""
	end := func(name string) string {
		return etcdtest.SlowProxy(t, s, func(ctx context.Context, method string, _ int) {
			if !strings.HasSuffix(method, "/Watch") {
				return
			}
			mu.Lock()
			if watched == "" {
				watched = name
			}
			wait := silent && watched == name
			mu.Unlock()
			if wait {
				<-ctx.Done()
			}
		})
	}
	c, now := taketest.Config(s, backuptest.NewMemory()), &clock{}
	c.Endpoints, c.Now = []string{end("a"), end("b")}, now.now
	c.Delta.Period = cke.Duration(50 * time.Millisecond)
	r := taketest.Start(t, s, c)
	r.Await(take.FullStored)
	r.Put("k", "1")
	r.Await(take.DeltaStored)
	mu.Lock()
	silent = true
	mu.Unlock()
	var last int64
	for range 10 {
		last = r.Put("k", "x")
	}
	awaitTaker(t, "the cluster's revision seen", func() bool { return r.Taker.Status().Seen >= last })
	if st := r.Taker.Status(); st.Revision >= last {
		t.Fatalf("the watch was not silent: %+v", st)
	}
	now.putForward(time.Hour)
	if e := r.Await(take.ClusterFailed); !strings.Contains(e.Err.Error(), "the watch delivers no changes") {
		t.Errorf("reported: %v", e.Err)
	}
	awaitTaker(t, "all stored", func() bool { return r.Taker.Status().Revision >= last })
}

// awaitTaker waits until something holds.
func awaitTaker(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// A cluster that answers nothing is reported though the watch has not ended.
func TestTaker_ASilentClusterIsReported(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{})
	var silent atomic.Bool
	c, now := taketest.Config(s, backuptest.NewMemory()), &clock{}
	c.Endpoints, c.Now = []string{etcdtest.Proxy(t, s, func(method string) error {
		if silent.Load() && strings.HasSuffix(method, "/AuthStatus") {
			return errors.New("no answer")
		}
		return nil
	})}, now.now
	c.Delta.Period = cke.Duration(50 * time.Millisecond)
	r := taketest.Start(t, s, c)
	r.Await(take.FullStored)
	silent.Store(true)
	told := make(chan struct{})
	defer close(told)
	go func() { // again and again: an answer from before may come in after the first hour
		for tick := time.Tick(500 * time.Millisecond); ; {
			now.putForward(time.Hour)
			select {
			case <-told:
				return
			case <-tick:
			}
		}
	}()
	r.Await(take.ClusterFailed)
}

// etcd's client begins a watch that was cut again by itself. What came then was made at nobody knows what time.
func TestTaker_AWatchThatWasCutIsNotUnbroken(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{})
	cut := &cutter{}
	c, now := taketest.Config(s, backuptest.NewMemory()), &clock{}
	c.Endpoints, c.Now = []string{cut.start(t, s.Address)}, now.now
	c.Delta.Period = cke.Duration(50 * time.Millisecond)
	r := taketest.Start(t, s, c)
	r.Await(take.FullStored)
	before := r.Put("k", "before")
	r.Await(take.DeltaStored)
	cut.set(true)
	at := now.now()
	made := r.Put("k", "made while it was cut")
	now.putForward(time.Hour)
	cut.set(false)
	h := r.Await(take.DeltaStored).Header
	if h.Last != made || !h.Watched.After(at.Add(time.Minute)) {
		t.Errorf("revision %d of %d, watched since %s, cut at %s", h.Last, made, h.Watched, at)
	}
	store := r.Store()
	store.Now = now.now
	f, err := store.Find(t.Context(), backup.At{Time: at.Add(30 * time.Minute)})
	if err != nil || f.Revision != before || len(f.Notes) == 0 {
		t.Errorf("%+v, %v; before the cut %d", f, err, before)
	}
}

// The cluster loses its newest changes while the watch is cut, and clients make more than it has lost before the watch is back.
func TestTaker_AnotherHistoryBehindACutWatchIsNotContinued(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"shortly": 0, "for long": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, b := etcdtest.Start(t, etcdtest.Options{}), backuptest.NewMemory()
			cut := &cutter{}
			c, now := taketest.Config(s, b), &clock{}
			c.Endpoints, c.Now = []string{cut.start(t, s.Address)}, now.now
			c.Delta.Period = cke.Duration(50 * time.Millisecond)
			r := taketest.Start(t, s, c)
			r.Await(take.FullStored)
			var last int64
			for range 10 {
				last = r.Put("k", "first life")
			}
			awaitTaker(t, "all stored", func() bool { return r.Taker.Status().Revision >= last })
			cut.set(true)
			before := len(backups(t, b))
			other := secondLife(t)
			for range 200 { // the log is longer than that of the first life
				if _, err := other.Server.Client.Grant(etcdtest.Context(t), 1000); err != nil {
					t.Fatal(err)
				}
			}
			for other.Put("k", "second life") <= last+10 {
			}
			now.putForward(ahead)
			cut.move(other.Server.Address)
			if err := r.Ended(); !errors.Is(err, take.ErrDiverged) {
				t.Fatal(err)
			}
			if n := len(backups(t, b)); n != before {
				t.Errorf("%d backups instead of %d", n, before)
			}
		})
	}
}
