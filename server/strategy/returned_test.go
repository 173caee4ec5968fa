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
	if !is || len(before.Fence) != 2 || len(before.Gone) != 1 {
		t.Fatalf("while it is away: %#v, %s", away.Operation, away.Reason)
	}
	note := func(what string, change func(*scene)) op.Operation {
		t.Helper()
		d := strategy.Decide(begun(change).Input)
		n, is := d.Operation.(op.NoteReturned)
		if !is || !slices.Equal(n.Nodes, []string{"n3"}) {
			t.Fatalf("%s: %#v, %s", what, d.Operation, d.Reason)
		}
		return n
	}
	back := note("once it is back", func(*scene) {})
	note("while the restore waits for another node", func(s *scene) { s.silentNode(1) })
	note("while it is paused", func(s *scene) { s.Requests.Hold = &cke.Hold{Reason: "a look"} })
	note("while only its member answers", func(s *scene) {
		s.silent(3)
		j := s.Identity.Superseded()[2]
		s.Seen.Etcd.Endpoints = append(s.Seen.Etcd.Endpoints, cke.EndpointStatus{Join: j.ID, URL: j.ClientURL(), MemberID: j.MemberID, ClusterID: "before"})
	})
	if strategy.Superseded(before, back, nil, false) == nil || strategy.Superseded(before, before, nil, false) != nil {
		t.Error("what runs without it has to end, and no other one")
	}
	recorded := func(s *scene) { s.Identity.Incarnation.Restore.Returned = []string{"n3"} }
	if d := strategy.Decide(begun(recorded).Input); d.Operation == nil || len(d.Operation.(op.Restore).Fence) != 3 {
		t.Errorf("once that is on record: %#v", d.Operation)
	}
	recovery := strategy.Decide(begun(func(s *scene) {
		s.Identity.Incarnation.Restore.Order = cke.RestoreOrder{Survivor: "n1", Destroyed: []string{"n3"}}
		recorded(s)
		s.silent(3)
	}).Input)
	if _, is := recovery.Operation.(op.CancelRestore); !is {
		t.Errorf("silent again, in a recovery: %#v, %s", recovery.Operation, recovery.Reason)
	}
	if d := strategy.Decide(begun(func(s *scene) { recorded(s); s.silent(3) }).Input); d.Operation != nil || len(d.Blockers) != 1 {
		t.Errorf("silent again: %#v %v", d.Operation, d.Blockers)
	}
}
