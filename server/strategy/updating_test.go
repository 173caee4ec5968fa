package strategy_test

import (
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// A restart that cke makes under the gate is progress; anything else that is wrong beside it is a problem.
func TestReport_TakesItsOwnRestartForProgress(t *testing.T) {
	restarts := func(i int) strategy.Decision {
		return strategy.Decision{Operation: op.RestartMember{Join: formed(3).join(i)}, Reason: "it runs with other arguments than declared"}
	}
	down := func() *scene { return formed(3).stopped(2) }
	settling := formed(3).with(func(s *scene) {
		s.Before.LastOperation = &cke.OperationStatus{Type: "restart-member", State: cke.RecordCompleted, Time: noon.Add(-time.Second)}
	})
	for _, row := range []struct {
		name     string
		scene    *scene
		decision strategy.Decision
		health   cke.Health
		state    string
		problems int
	}{
		{"it is down", down(), restarts(2), cke.HealthUpdating, "restarting", 0},
		{"it has not stopped yet", formed(3), restarts(2), cke.HealthUpdating, "healthy", 0},
		{"between two of them", settling, strategy.Decision{Reason: "n3 is restarted next"}, cke.HealthUpdating, "healthy", 0},
		{"another node is silent, too", down().silent(3), restarts(2), cke.HealthDegraded, "restarting", 1},
		{"another one is restarted", down(), restarts(3), cke.HealthDegraded, "stopped", 1},
		{"its data is gone", formed(3).wiped(2), restarts(2), cke.HealthDegraded, "missing", 1},
		{"its node is silent", formed(3).silent(2), restarts(2), cke.HealthDegraded, "unreachable", 1},
		{"nothing is done about it", down(), strategy.Decision{Reason: "restart-member failed once"}, cke.HealthDegraded, "stopped", 1},
	} {
		s := strategy.Report(row.scene.Input, row.decision, cke.Status{})
		if s.Health != row.health || len(s.Problems) != row.problems || s.Members[1].State != row.state {
			t.Errorf("%s: %s, %s, %+v", row.name, s.Health, s.Members[1].State, s.Problems)
		}
	}
	if s := strategy.Report(down().silent(3).lost().Input, restarts(2), cke.Status{}); s.Health == cke.HealthUpdating || len(s.Problems) == 0 {
		t.Errorf("without a quorum: %s, %+v", s.Health, s.Problems)
	}
}
