// Package probe checks a machine from inside: whether it can listen on ports, whether it reaches those of others, and how long
// its disk takes to sync. It runs on a node for a few seconds, in a container, for `ckecli preflight`.
package probe

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Task is what a probe is to do.
type Task struct {
	// Listen are addresses of the machine to listen on until the end.
	Listen []string `json:"listen,omitempty"`
	// Dial are addresses of other machines. One that refuses is tried again until the end: its probe may start later.
	Dial []string `json:"dial,omitempty"`
	// Dir is the directory whose disk is measured; empty: none is.
	Dir string `json:"dir,omitempty"`
	// For is how long all of it takes, in seconds; the disk has a third of it.
	For float64 `json:"for"`
}

// Result is what a probe found.
type Result struct {
	// Listened and Dialled have the error by address; empty: none.
	Listened map[string]string `json:"listened,omitempty"`
	Dialled  map[string]string `json:"dialled,omitempty"`
	Sync     *Sync             `json:"sync,omitempty"`
}

// Sync is how long small writes took until they were on the disk, in seconds.
type Sync struct {
	Writes  int     `json:"writes"`
	Median  float64 `json:"median"`
	P99     float64 `json:"p99"`
	Problem string  `json:"problem,omitempty"` // why nothing, or not all, was measured
}

const (
	// dialLimit bounds one try to connect, dialPause is what lies between two.
	dialLimit = time.Second
	dialPause = 100 * time.Millisecond
	// syncWrites and syncSize, in bytes, are those that are measured: a write of etcd's log is about that large.
	syncWrites = 500
	syncSize   = 4 << 10
)

// Run does the task. It returns at the latest when the time of the task is over.
func Run(ctx context.Context, t Task) Result {
	all := time.Duration(t.For * float64(time.Second))
	ctx, cancel := context.WithTimeout(ctx, all)
	defer cancel()
	r := Result{Listened: map[string]string{}, Dialled: map[string]string{}}
	for _, address := range t.Listen {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		r.Listened[address] = why(err)
		if err == nil {
			defer l.Close()
			go accept(l)
		}
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, address := range t.Dial {
		wg.Go(func() {
			err := dial(ctx, address)
			mu.Lock()
			defer mu.Unlock()
			r.Dialled[address] = why(err)
		})
	}
	if t.Dir != "" {
		s := measure(ctx, t.Dir, time.Now().Add(all/3))
		r.Sync = &s
	}
	wg.Wait()
	<-ctx.Done() // others may reach for this one until then
	return r
}

// accept takes connections and closes them, until the listener is closed.
func accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		c.Close()
	}
}

// dial connects; who refuses, or does not answer, is tried again until ctx ends.
func dial(ctx context.Context, address string) error {
	var last error
	for {
		try, cancel := context.WithTimeout(ctx, dialLimit)
		c, err := (&net.Dialer{}).DialContext(try, "tcp", address)
		cancel()
		if err == nil {
			return c.Close()
		}
		end, ends := ctx.Deadline()                                                            // a dial that it cuts off may return before ctx has an error
		if over := ctx.Err() != nil || ends && !time.Now().Before(end); last == nil || !over { // the end of the time is no news of the other side
			last = err
		}
		select {
		case <-ctx.Done():
			return last
		case <-time.After(dialPause):
		}
	}
}

// Why something could not be reached, or listened on.
const (
	Refused  = "connection refused"
	NoAnswer = "no answer"
	Taken    = "address already in use"
)

func why(err error) string {
	var system syscall.Errno
	var network net.Error
	switch {
	case err == nil:
		return ""
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	case errors.Is(err, syscall.EADDRINUSE):
		return Taken
	case errors.As(err, &system):
		return system.Error()
	case errors.As(err, &network) && network.Timeout():
		return NoAnswer
	}
	return err.Error()
}

// measure writes to a file of its own, one write after the other, each until it is on the disk. The file has no name any more
// before the first write: nothing is left of it however this process exits. A disk that does not answer ends with ctx.
func measure(ctx context.Context, dir string, until time.Time) Sync {
	f, err := os.CreateTemp(dir, ".cke-preflight-*")
	if err == nil {
		err = os.Remove(f.Name())
	}
	if err != nil {
		return Sync{Problem: why(err)}
	}
	var took []time.Duration
	block := make([]byte, syncSize)
	for len(took) < syncWrites && time.Now().Before(until) {
		begun := time.Now()
		synced := make(chan error, 1) // the write ends with the process, if the disk never answers
		go func() {
			_, err := f.Write(block)
			if err == nil {
				err = syscall.Fdatasync(int(f.Fd()))
			}
			synced <- err
		}()
		select {
		case err = <-synced:
		case <-ctx.Done():
			return summary(took, "a small write was not synced to the disk after "+time.Since(begun).Round(time.Second/10).String())
		}
		if err != nil {
			return summary(took, why(err))
		}
		took = append(took, time.Since(begun))
	}
	return summary(took, why(f.Close()))
}

func summary(took []time.Duration, problem string) Sync {
	s := Sync{Writes: len(took), Problem: problem}
	if len(took) > 0 {
		slices.Sort(took)
		s.Median = took[len(took)/2].Seconds()
		s.P99 = took[min(len(took)*99/100, len(took)-1)].Seconds()
	}
	return s
}
