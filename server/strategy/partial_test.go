package strategy_test

import (
	"testing"
	"time"

	"cke/op"
	"cke/server/strategy"
	"cke/server/strategy/scenes"
)

// partial lets no member have been waited for.
func (s *scene) partial() *scene {
	scenes.NotWaitedFor(&s.Input)
	return s
}

func TestDecide_WithoutWaitingForMembersOnlyStartsThoseThatStopped(t *testing.T) {
	d := strategy.Decide(formed(3).stopped(1).partial().Input)
	if o, ok := d.Operation.(op.StartMembers); !ok || len(o.Joins) != 1 {
		t.Errorf("%+v", d)
	}
	for name, s := range map[string]*scene{
		"nothing to start":        formed(3).partial(),
		"its data is gone":        formed(3).emptied(1).partial(),
		"a node is undeclared":    formed(4).undeclared(4).partial(),
		"the member that answers": formed(4).undeclared(4).partial().with(func(s *scene) { s.Seen.Etcd.Quorate = true }),
	} {
		if d := strategy.Decide(s.Input); d.Operation != nil || d.Again <= 0 || d.Again > 100*time.Millisecond || d.Blockers != nil {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// What stops all members is decided on a full look: the last backup and the order of stopping depend on what members say.
func TestDecide_StopsAllOnlyAfterAFullLook(t *testing.T) {
	for name, s := range map[string]*scene{"hibernation": formed(3).hibernated().partial(), "restore": formed(3).restored().partial()} {
		if d := strategy.Decide(s.Input); d.Operation != nil || d.Again == 0 {
			t.Errorf("%s: %T %s", name, d.Operation, d.Reason)
		}
	}
}
