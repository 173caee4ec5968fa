package strategy_test

import (
	"testing"
	"time"

	"cke"
	"cke/server/strategy"
)

// The pause between two reboots ends when it is over, and not with the next look that comes by itself.
func TestReboots_LooksAgainOnceThePauseIsOver(t *testing.T) {
	s := rebootable(3, 3).queued(2)
	s.Requests.Reboots.History = []cke.EndedEntry{{Address: "10.0.0.3", StartedAt: noon.Add(-time.Hour), EndedAt: noon.Add(-119 * time.Second)}}
	if d := strategy.Decide(s.Input); d.Operation != nil || d.Again != time.Second {
		t.Errorf("%s, again after %s", d.Reason, d.Again)
	}
}
