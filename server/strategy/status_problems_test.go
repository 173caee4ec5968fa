package strategy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

func TestReport_NamesEveryProblemOnce(t *testing.T) {
	told := func(s cke.Status) (all []string) {
		for _, p := range s.Problems {
			all = append(all, strings.TrimSpace(string(p.Code)+" "+p.Node))
			if p.Message == "" || p.Since.IsZero() {
				panic(fmt.Sprintf("incomplete: %+v", p))
			}
		}
		return all
	}
	for _, tt := range []struct {
		name  string
		scene *scene
		want  []string
	}{
		{"none", formed(3), nil},
		{"writes are stopped", formed(3).with(func(s *scene) { s.Seen.Etcd.Alarms = []cke.Alarm{cke.WriteStop("i1", 1)} }), []string{"CKE326"}},
		{"an authority ends in five months", formed(3).allCertified(300).trusts(2, cke.ClientAuthority, 150), []string{"CKE327"}},
		{"one ends in seven months", formed(3).allCertified(300).trusts(2, cke.ClientAuthority, 210), nil},
		{"a silent node", formed(3).silent(2), []string{"CKE201 n2"}},
		{"two silent nodes, no quorum", formed(3).silent(2, 3).lost(), []string{"CKE215 n1", "CKE201 n2", "CKE201 n3", "CKE324"}},
		{"a silent node that carries no member", formed(3).with(func(s *scene) {
			w := cke.Node{Hostname: "w1", Address: "10.0.0.9"}
			s.Spec.Nodes = append(s.Spec.Nodes, w)
			s.Seen.Nodes = append(s.Seen.Nodes, cke.NodeStatus{Node: w, Problem: &cke.Problem{Code: cke.CodeSSHAuth, Node: "w1", Message: "refused"}})
		}), []string{"CKE202 w1"}},
		{"a stopped member during a pause", formed(3).stopped(2).held(), []string{"CKE212 n2"}},
		{"members that are starting are none", forming(3, true), nil},
		{"a split brain", formed(3).with(func(s *scene) { s.endpoint(2).ClusterID = "c2" }), []string{"CKE302 n2"}},
		// n1 is started, and n2 is told all the same.
		{"beside an operation", formed(5).stopped(1).silent(2), []string{"CKE212 n1", "CKE201 n2"}},
		{"beside one that is held back", formed(5).stopped(4).silent(2).with(func(s *scene) {
			s.failed(strategy.Decide(s.Input).Operation, 1, 0)
		}), []string{"CKE207 n1", "CKE201 n2", "CKE212 n4"}},
		{"beside one that failed and is tried again", formed(5).stopped(4).silent(2).with(func(s *scene) {
			s.failed(strategy.Decide(s.Input).Operation, 1, time.Minute)
		}), []string{"CKE207 n1", "CKE201 n2", "CKE212 n4"}},
	} {
		if diff := cmp.Diff(tt.want, told(tt.scene.report())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	in := formed(3).with(func(s *scene) { s.endpoint(2).ClusterID = "c2" }).Input
	s := strategy.Report(in, strategy.Decision{Operation: op.StartMembers{}, Reason: "under way", Frozen: strategy.Decide(in).Frozen}, cke.Status{})
	if got := told(s); !cmp.Equal(got, []string{"CKE302 n2"}) || s.Health != cke.HealthFrozen {
		t.Errorf("frozen while an operation ends: %s %v", s.Health, got)
	}
}

// Requirement D10: each with its stable code.
func TestReport_LastErrorsAreTheNewestFirst(t *testing.T) {
	s := formed(3).failed(op.CleanUp{}, 1, time.Minute).failed(op.DeleteCluster{}, 1, time.Second)
	s.Failures["odd "] = strategy.Failure{Count: 1, At: noon.Add(-time.Hour), Error: "nobody knows"}
	want := []cke.LastError{
		{Code: cke.CodeDiskFull, Description: "it broke", ObservedAt: noon.Add(-time.Second)},
		{Code: cke.CodeDiskFull, Description: "it broke", ObservedAt: noon.Add(-time.Minute)},
		{Code: cke.CodeInternal, Description: "nobody knows", ObservedAt: noon.Add(-time.Hour)},
	}
	if diff := cmp.Diff(want, s.report().LastErrors); diff != "" {
		t.Errorf("last errors (-want +got):\n%s", diff)
	}
}

// The grace of lost data does not run while only the container is gone: the data is there.
func TestReport_AMemberWithoutAContainerIsStopped(t *testing.T) {
	s := formed(3)
	s.node(3).Containers = nil
	s.endpoint(3).Problem = "connection refused"
	if m := s.report().Members[2]; m.State != "stopped" {
		t.Errorf("%+v", m)
	}
}

// A problem for which an operation fails again and again is as old as it is, not as its last attempt.
func TestFailure_AProblemKeepsItsAge(t *testing.T) {
	fails := func(f strategy.Failure, at time.Time, codes ...cke.Code) strategy.Failure {
		var all []cke.Problem
		for _, code := range codes {
			all = append(all, cke.Problem{Code: code, Node: "n1", Since: at})
		}
		return f.Again(at, "it broke", all)
	}
	f := fails(fails(strategy.Failure{}, noon, cke.CodeImage), noon.Add(time.Minute), cke.CodeImage, cke.CodeDiskFull)
	if p := f.Problems; f.Count != 2 || !p[0].Since.Equal(noon) || !p[1].Since.Equal(noon.Add(time.Minute)) {
		t.Errorf("%+v", f)
	}
}
