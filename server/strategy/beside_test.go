package strategy_test

import (
	"slices"
	"testing"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// beside lets the identity beside the backups have members that the store does not have.
func (s *scene) beside(ids ...string) *scene {
	s.Backup = &cke.BackupStatus{Lineage: s.Identity.Incarnation.ID}
	for _, id := range ids {
		s.Backup.Lacks = append(s.Backup.Lacks, cke.Lacking{ID: id, What: "the member of node " + id})
	}
	return s
}

// Members that took the place of others, on nodes that the copy of the store does not know: the identity beside the backups
// has them. Nothing is stopped, deleted or restored, until an operator accepts that they are gone.
func TestDecide_FreezesAStoreThatLacksWhatLiesBesideItsBackups(t *testing.T) {
	older := formed(3).beside("j4", "j5")
	f, is := strategy.Decide(older.Input).Operation.(op.Freeze)
	if !is || f.Kind != cke.FreezeOlderStore || f.Problem.Code != cke.CodeOlderStore {
		t.Fatalf("%+v", strategy.Decide(older.Input))
	}
	for name, asks := range map[string]func(*scene){
		"a deletion": func(s *scene) { s.Deleting, s.DeletionAt = true, noon },
		"a restore":  func(s *scene) { s.restored() },
	} {
		if f, is := strategy.Decide(formed(3).beside("j4").with(asks).Input).Operation.(op.Freeze); !is || f.Held == nil {
			t.Errorf("%s: %+v", name, f)
		}
	}
	frozen := cke.NewFreeze(f.Kind, f.Finding, f.Problem, f.Seen)
	older.Identity.Freeze = &frozen
	if why := strategy.RestoreRefusal(older.Input, cke.RestoreOrder{Target: "file:///b", Source: "demo"}); why == nil || why.Code != cke.CodeOlderStore {
		t.Errorf("while it is frozen: %v", why)
	}
	frozen.LiftedAt = noon
	for name, s := range map[string]*scene{
		"an operator accepted it":        older,
		"a part of it is left":           formed(3).beside("j5").with(func(s *scene) { s.Identity.Freeze = &frozen }),
		"they are on record again":       formed(3).beside(string(formed(3).Identity.Joins[0].ID)),
		"it is another incarnation":      formed(3).beside("j4").with(func(s *scene) { s.Backup.Lineage = "former" }),
		"the deletion is sealed already": formed(3).beside("j4").with(func(s *scene) { s.Deleting, s.Sealed = true, true }),
	} {
		if f, is := strategy.Decide(s.Input).Operation.(op.Freeze); is {
			t.Errorf("%s: %+v", name, f)
		}
		if why := strategy.RestoreRefusal(s.Input, cke.RestoreOrder{Target: "file:///b", Source: "demo"}); why != nil {
			t.Errorf("%s: %v", name, why)
		}
	}
	for compared, ends := range map[bool]bool{false: false, true: true} { // else it would freeze the cluster again
		s := formed(3).beside().with(func(s *scene) { s.Identity.Freeze = &frozen })
		s.Spec.Backup.Target, s.Backup.Compared = "file:///b", compared
		if _, is := strategy.Decide(s.Input).Operation.(op.EndFinding); is != ends {
			t.Errorf("compared: %v, %+v", compared, strategy.Decide(s.Input))
		}
	}
	for compared, waits := range map[bool]bool{false: true, true: false} { // a daemon that has just started
		s := formed(3).beside().restored()
		s.Requests.Tasks[0].At, s.Spec.Backup.Target, s.Backup.Compared = noon, "file:///b", compared
		if d := strategy.Decide(s.Input); (d.Operation == nil) != waits {
			t.Errorf("compared: %v, %T %s", compared, d.Operation, d.Reason)
		}
	}
	more := formed(3).beside("j5", "j6")
	more.Identity.Freeze = &frozen
	if f, is := strategy.Decide(more.Input).Operation.(op.Freeze); !is || slices.Contains([]string{frozen.Finding}, f.Finding) {
		t.Errorf("another one: %+v", f)
	}
}
