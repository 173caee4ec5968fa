package strategy_test

import (
	"testing"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// A restored member that may have been started lacks its container, and its volume is there.
func TestDecide_MakesContainersOfRestoredMembersAgain(t *testing.T) {
	for name, c := range map[string]struct {
		volume, started, begins bool
	}{
		"its volume is there":             {true, true, true},
		"its volume is gone as well":      {false, true, false},
		"nothing was started":             {true, false, true},
		"nothing was started nor is left": {false, false, true},
	} {
		s := formed(3)
		s.Identity.Incarnation.State, s.Identity.Incarnation.Restore = cke.Restoring, &cke.Restoration{}
		for i := range s.Identity.Joins {
			s.node(i + 1).Containers = nil
			if !c.volume {
				s.node(i + 1).Volumes = nil
			}
			if s.Identity.Joins[i].StartedAt = noon; !c.started {
				s.Identity.Joins[i].StartedAt = s.Identity.Joins[i].EndedAt
			}
		}
		d := strategy.Decide(s.Input)
		if o, is := d.Operation.(op.Restore); is != c.begins || is && (o.Started != c.started || len(o.Founders) != 3) {
			t.Errorf("%s: %T %s", name, d.Operation, d.Reason)
		}
	}
}
