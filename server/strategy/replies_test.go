package strategy_test

import (
	"go/ast"
	"slices"
	"testing"

	"cke"
	"cke/internal/source"
	"cke/op"
	"cke/server/strategy"
)

// What a member of another cluster says of itself is no measure for this one's: not who leads, not how far its log goes.
func TestDecide_MeasuresNobodyByAMemberOfAnotherCluster(t *testing.T) {
	s := formed(3).learner(3, true).frozenBy("cluster-id join1 c2", true).with(func(s *scene) {
		first := s.endpoint(1)
		first.ClusterID, first.LeaderID, first.RaftTerm, first.RaftIndex = "c2", first.MemberID, 99, 1_000_000
		for _, i := range []int{2, 3} {
			s.endpoint(i).RaftIndex, s.endpoint(i).RaftApplied = 100, 100
		}
	})
	d := strategy.Decide(s.Input)
	if _, is := d.Operation.(op.PromoteMember); !is {
		t.Errorf("%#v: %s", d.Operation, d.Reason)
	}
	for _, m := range strategy.Report(s.Input, d, cke.Status{}).Members {
		if m.Join == s.Identity.Joins[0].ID && m.Role != "-" || m.Lag > 100 {
			t.Errorf("%s: %s, lag %d", m.Name, m.Role, m.Lag)
		}
	}
}

// Every rule asks replies and reply, which leave out members of other clusters. Only these are about anything that answers.
func TestRules_TakeNoAnswerOfAnotherCluster(t *testing.T) {
	raw := []string{"replies", "reply", // they leave them out
		"findings", "wentBack", "reached", "clusterIDMismatch", "putAside", "endedMembership", "noSurvivor", // two clusters under one name, and what each has served
		"memberProblem", "certificates", "misplacedContainer", "unseen", "down", // whether anything answers there
		"olderThanFounder", "knownRevision", "withoutLost", "returned", // of lives before the one on record
		"Survivors"} // it says of each whether it is of this cluster
	for _, fn := range source.Functions(t) {
		ast.Inspect(fn, func(n ast.Node) bool {
			if s, is := n.(*ast.SelectorExpr); is && (s.Sel.Name == "Endpoints" || s.Sel.Name == "Endpoint") && typeName(s.X) == "Etcd" && !slices.Contains(raw, fn.Name.Name) {
				t.Errorf("%s takes any answer", fn.Name.Name)
			}
			return true
		})
	}
}
