package cke_test

import (
	"testing"

	"cke"
)

// A mark names a restore as abandoned. That counts for a store from while that restore was under way, also if the mark has the start of an earlier
// recovery that was withdrawn.
func TestMarks_AnAbandonedRestoreIsOverAlsoAfterAWithdrawal(t *testing.T) {
	under := cke.Identity{Incarnation: &cke.Incarnation{ID: "r", State: cke.Restoring, Previous: []string{"x"}, Replaced: []string{"a"}, Restore: &cke.Restoration{Before: &cke.Incarnation{ID: "a", State: cke.Formed, Previous: []string{"x"}}}}}
	for name, over := range map[string][]string{"without": {"x", "r"}, "with": {"x+", "a", "x", "r"}} {
		if len(under.IsOver([]cke.NodeStatus{{Node: cke.Node{Address: "10.0.0.1"}, Over: over}})) == 0 {
			t.Errorf("%s: %v", name, over)
		}
	}
}
