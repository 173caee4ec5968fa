package strategy_test

import (
	"slices"
	"testing"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// A node that the order calls destroyed and that answers with its member is stopped like any other: what prepares the restore starts
// again with it, and once that is on record the node is waited for.
func TestDestroyed_ANodeThatIsBackIsFencedAndWaitedFor(t *testing.T) {
	order := cke.RestoreOrder{Target: "file:///b", Source: "demo", Destroyed: []string{"n3"}}
	begun := func(change func(*scene)) *scene {
		s := formed(3).running()
		s.begunAt(noon, order)
		s.Identity.Joins = slices.DeleteFunc(s.Identity.Joins, func(j cke.Join) bool { return j.Node.Name() == "n3" })
		change(s)
		return s
	}
	away := strategy.Decide(begun(func(s *scene) { s.silent(3) }).Input)
	before, is := away.Operation.(op.Restore)
	if !is || len(before.Fence) != 2 || len(before.Gone) != 1 || before.Returned != nil {
		t.Fatalf("while it is away: %#v, %s", away.Operation, away.Reason)
	}
	back := strategy.Decide(begun(func(*scene) {}).Input)
	after, is := back.Operation.(op.Restore)
	if !is || len(after.Fence) != 3 || after.Gone != nil || !slices.Equal(after.Returned, []string{"n3"}) {
		t.Fatalf("once it is back: %#v, %s", back.Operation, back.Reason)
	}
	before.Incarnation = after.Incarnation
	if strategy.Superseded(before, after, nil, false) == nil || strategy.Superseded(after, after, nil, false) != nil {
		t.Error("what runs without it has to end, and no other one")
	}
	recorded := func(s *scene) { s.Identity.Incarnation.Restore.Returned = []string{"n3"} }
	if d := strategy.Decide(begun(recorded).Input); d.Operation == nil || d.Operation.(op.Restore).Returned != nil {
		t.Errorf("once that is on record: %#v", d.Operation)
	}
	if d := strategy.Decide(begun(func(s *scene) { recorded(s); s.silent(3) }).Input); d.Operation != nil || len(d.Blockers) != 1 {
		t.Errorf("silent again: %#v %v", d.Operation, d.Blockers)
	}
}
