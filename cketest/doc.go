// Package cketest tests that every implementation of a port does what the comments in ports.go say: one case for each sentence.
// The simulated nodes, members and stores pass the same cases as the real ones, so that a fake is as strict as the real one.
package cketest

import (
	"context"
	"errors"
	"testing"
	"time"

	"cke"
)

// limit is how long a case waits for what must happen.
const limit = time.Minute

// must ends the case unless what it builds on succeeds.
func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// is fails unless err is what the port's comment names; nil: success.
func is(t *testing.T, what string, err, want error) {
	t.Helper()
	if want == nil && err != nil || want != nil && !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

// has fails unless err has this code.
func has(t *testing.T, what string, err error, code cke.Code) {
	t.Helper()
	if err == nil || cke.CodeOf(err) != code {
		t.Errorf("%s: got %v, want code %s", what, err, code)
	}
}

// bounded is a context with a deadline, as every call needs one.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// await asks until done, which needs time and reports nobody when it holds.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); !done(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited %s in vain until %s", limit, what)
		}
	}
}
