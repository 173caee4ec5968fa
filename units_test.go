package cke_test

import (
	"testing"

	"cke"
)

func TestCount_SaysOneThingAndManyThings(t *testing.T) {
	for n, want := range []string{"0 members", "1 member", "2 members"} {
		if got := cke.Count(n, "member"); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
	for n, want := range []string{"0 revisions wait", "1 revision waits", "2 revisions wait"} {
		if got := cke.Plural(int64(n), "revision waits", "revisions wait"); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}
