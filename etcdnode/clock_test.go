package etcdnode

import (
	"testing"
	"time"

	"cke"
)

func TestObserver_TellsTheTimeOfANode(t *testing.T) {
	f, _, _, _ := twoMembers(t)
	seen := f.Observe(t.Context()).Nodes[0]
	if off := time.Since(seen.Clock); seen.Clock.IsZero() || off.Abs() > time.Minute {
		t.Errorf("the node's clock says %s", seen.Clock)
	}
	now, err := f.Machine(f.currentScope().nodes[0]).Clock(t.Context())
	if off := time.Since(now); err != nil || off.Abs() > time.Minute {
		t.Errorf("the node's clock says %s, %v", now, err)
	}
}

func TestNodeFacts_AClockThatWandersIsNoNews(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	facts := func(ahead time.Duration) nodeFacts {
		return nodeFacts{status: cke.NodeStatus{SeenAt: now, Clock: now.Add(ahead)}}
	}
	for _, row := range []struct {
		ahead time.Duration
		same  bool
	}{{0, true}, {30 * time.Second, true}, {2 * time.Minute, false}, {-2 * time.Minute, false}} {
		if got := facts(0).sameNews(facts(row.ahead)); got != row.same {
			t.Errorf("%s: the same: %v", row.ahead, got)
		}
	}
}
