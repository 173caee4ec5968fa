package strategy_test

import (
	"testing"

	"cke"
	"cke/op"
)

// denied lets etcd's authentication refuse cke, as members say.
func (s *scene) denied() *scene {
	for i := range s.Seen.Etcd.Endpoints {
		if e := &s.Seen.Etcd.Endpoints[i]; e.Problem == "" {
			e.Denied = true
		}
	}
	return s
}

// A refusal proves that reads succeed, and that nothing else would.
func TestDecide_ChangesNothingWhileAuthenticationRefusesIt(t *testing.T) {
	check(t, []row{
		{"all serve", formed(3).denied(), nil, "its user cke does not have the role root", []string{"CKE325"}},
		{"a node more is declared", formed(3).denied().with(func(s *scene) { s.Spec = spec(4) }), nil, "its user cke does not have the role root", []string{"CKE325"}},
		{"a member that stopped is started", formed(3).stopped(2).denied(), op.StartMembers{Joins: []cke.Join{formed(3).join(2)}, AwaitServing: true}, "n2 stopped", nil},
	})
	st := formed(3).denied().report()
	if c, _ := st.Condition(cke.CondReady); st.Health != cke.HealthDegraded || c.Status != cke.False || len(st.Problems) != 1 || st.Ready != 3 {
		t.Errorf("%s, %+v, %+v", st.Health, c, st.Problems)
	}
}
