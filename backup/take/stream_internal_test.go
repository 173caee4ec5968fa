package take

import (
	"context"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc/connectivity"

	"cke/backup/internal/etcdtest"
)

// A member was down, and the connection to it rests between attempts. Once it answers again, its snapshot is received at once.
func TestReceive_FromAMemberThatHasJustRestarted(t *testing.T) {
	ctx := etcdtest.Context(t)
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
	if err := receive(ctx, cli, io.Discard); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	c := cli.ActiveConnection()
	for now := c.GetState(); now != connectivity.TransientFailure; now = c.GetState() { // the next attempt is a second away
		if now == connectivity.Idle {
			c.Connect()
		}
		if !c.WaitForStateChange(ctx, now) {
			t.Fatal(ctx.Err())
		}
	}
	etcdtest.Start(t, etcdtest.Options{Dir: s.Dir, Address: s.Address})
	if err := receive(ctx, cli, io.Discard); err != nil {
		t.Error(err)
	}
}

// A member never comes back: what asks for its snapshot ends with an error, soon, and at once if it is canceled.
func TestReceive_FromAMemberThatNeverComesBack(t *testing.T) {
	t.Parallel()
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
		begun := time.Now()
		err := receive(ctx, cli, io.Discard)
		took := time.Since(begun)
		cancel()
		if err == nil || took > min(limit, requestTimeout)+2*time.Second {
			t.Errorf("%v: after %v: %v", limit, took, err)
		}
	}
	cli.Close()
	if err := receive(etcdtest.Context(t), cli, io.Discard); err == nil {
		t.Error("no error of a connection that is closed")
	}
}
