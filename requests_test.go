package cke_test

import (
	"strings"
	"testing"
	"time"

	"cke"
)

func TestHold_IsActiveUntilItsTimeIsOver(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		hold *cke.Hold
		want bool
	}{
		"none":         {nil, false},
		"unlimited":    {&cke.Hold{Reason: "x", Since: noon}, true},
		"not over yet": {&cke.Hold{Until: noon.Add(time.Second)}, true},
		"just over":    {&cke.Hold{Until: noon}, false},
	} {
		if got := tc.hold.Active(noon); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// A task that cannot be decoded may be to cancel the restore: until the operator says otherwise, it does not continue.
func TestRequests_ATaskThatCannotBeDecodedHoldsARestore(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	if why := (cke.Requests{Unread: []string{"t1", "t2"}}).EndsRestore(noon); !strings.Contains(why, "t1, t2") {
		t.Errorf("%q", why)
	}
	if why := (cke.Requests{Tasks: []cke.Task{{Kind: cke.TaskBackup}}}).EndsRestore(noon); why != "" {
		t.Errorf("%q", why)
	}
}

// A lease that cannot be decoded has no end.
func TestDrain_IsActiveUntilItsTimeIsOver(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for until, want := range map[time.Time]bool{{}: true, noon.Add(time.Second): true, noon: false} {
		if got := (cke.Drain{Node: "n1", Until: until}).Active(noon); got != want {
			t.Errorf("until %s: %v", until, got)
		}
	}
}
