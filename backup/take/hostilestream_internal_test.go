package take

import (
	"context"
	"io"
	"runtime"
	"testing"
	"time"

	"cke/backup/internal/etcdtest"
)

// A member never comes back: what asks for its snapshot ends with an error, soon, and at once if it is canceled. Nothing is left running.
func TestReceive_FromAMemberThatNeverComesBack(t *testing.T) {
	s := etcdtest.Start(t, etcdtest.Options{})
	k, err := dial(&Config{Endpoints: []string{s.Endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	cli, err := k.member(s.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
	for _, limit := range []time.Duration{time.Minute, 300 * time.Millisecond, 0} {
		ctx, cancel := context.WithTimeout(etcdtest.Context(t), limit)
		n, begun := runtime.NumGoroutine(), time.Now()
		err := receive(ctx, cli, io.Discard)
		took := time.Since(begun)
		cancel()
		if err == nil || took > min(limit, requestTimeout)+2*time.Second {
			t.Errorf("%v: after %v: %v", limit, took, err)
		}
		t.Logf("%v: after %v: %v; goroutines %d, before %d", limit, took, err, runtime.NumGoroutine(), n)
	}
	cli.Close()
	if err := receive(etcdtest.Context(t), cli, io.Discard); err == nil {
		t.Error("no error of a connection that is closed")
	}
}
