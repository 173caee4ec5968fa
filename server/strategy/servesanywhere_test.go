package strategy_test

import (
	"testing"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// tolerated lets an operator have lifted the finding that the store is older.
func (s *scene) tolerated(t *testing.T) *scene {
	t.Helper()
	if f, found := strategy.Decide(s.Input).Operation.(op.Freeze); found {
		s.Identity.Freeze = &cke.Freeze{ID: "f1", Kind: f.Kind, Finding: f.Finding, Problem: f.Problem, At: noon, LiftedAt: noon}
	}
	return s
}

// A member that serves where its container was made for, and is not on record there, is neither removed nor stopped as one that does not serve.
func TestDecide_TakesNobodyForDownWhoServesAtFormerPorts(t *testing.T) {
	undeclared := func(s *scene) { s.Spec.Nodes[1].ControlPlane = false }
	served := func(s *scene) { s.Seen.Etcd.Elsewhere[0].Linearizable = true }
	for name, row := range map[string]struct {
		s     *scene
		never string
	}{
		"no control plane any more":                {formed(5).elsewhere(2).silent(3).with(undeclared), "remove-member"},
		"to be moved back, by etcd's list as well": {formed(3).startedLate(1).with(served).unseen().silent(2, 3), "start-changed"},
	} {
		d := strategy.Decide(row.s.tolerated(t).Input)
		if d.Operation != nil && d.Operation.Name() == row.never || d.Frozen != nil {
			t.Errorf("%s: %+v", name, d)
		}
	}
	alone := formed(5).elsewhere(2).with(undeclared).tolerated(t)
	if d := strategy.Decide(alone.Input); d.Operation == nil || d.Operation.Name() != "remove-member" {
		t.Errorf("nobody else is down: %+v", d)
	}
}
