package cke_test

import (
	"testing"
	"time"

	"cke"
)

// A first member that was stopped may have served, whoever was the first process in its container.
func TestMayHoldWrites_OfAStoppedFounder(t *testing.T) {
	at := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)
	j := cke.Join{StartedAt: at}
	silent := cke.EndpointStatus{Problem: "refused"}
	for _, c := range []struct {
		code  int
		stops bool
		holds bool
	}{
		{code: 0, holds: true},
		{code: 130, holds: true}, // "init": true in daemon.json
		{code: 137, holds: true},
		{code: 143, holds: true}, // the same
		{code: 0, stops: true}, {code: 143, stops: true},
		{code: 1}, {code: 2}, {code: 255},
	} {
		held := cke.Container{Name: "etcd", State: cke.ContainerExited, ExitCode: c.code, StartedAt: at, KeptDown: true}
		if why := j.MayHoldWrites(held, silent, c.stops); (why != "") != c.holds {
			t.Errorf("exit code %d, stopped as it may be %v: %q", c.code, c.stops, why)
		}
	}
}
