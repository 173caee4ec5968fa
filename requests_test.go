package cke_test

import (
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
