package mtest_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"cke"
	"cke/plan"
)

// TestLabPlan_IsWhatThenHappens plans changes of a cluster on real nodes, from what the daemon has told of them, then stores
// just these plans and reads in the history what was done.
func TestLabPlan_IsWhatThenHappens(t *testing.T) {
	extra(t)
	s := newStory(t, 5)
	s.daemon("cke1")
	s.setKey()
	// All machines are declared at first: which of two that were never seen answers first, nobody can plan.
	first := s.of(0, 1, 2, 3, 4)
	first.Nodes[3].ControlPlane, first.Nodes[4].ControlPlane = false, false
	s.set(first)
	s.ready()

	other := s.of(0, 1, 3)
	other.Options.Etcd.ExtraArgs = []string{"--quota-backend-bytes=4294967296"}
	for _, change := range []struct {
		name string
		to   cke.Cluster
	}{
		{"three members become five", s.of(0, 1, 2, 3, 4)},
		{"five become three others that run with other arguments", other},
	} {
		s.part(change.name, func(s *story) {
			text, err := cke.MarshalCluster(change.to)
			s.must(err)
			file := s.file("next.yml", string(text))
			var p plan.Plan
			s.must(json.Unmarshal([]byte(s.do("plan", file, "-o", "json")), &p))
			if p.Outcome != plan.Converged {
				s.Fatalf("%s: %s", p.Outcome, p.Reason)
			}
			var planned []string
			for _, step := range p.Steps {
				planned = append(planned, step.Operation+" "+strings.Join(step.Targets, " "))
			}
			s.Logf("planned: %s", strings.Join(planned, ", "))

			before := s.records()
			s.do("cluster", "set", file, "--plan", p.Hash, "--yes")
			var done []string
			for _, r := range s.records() {
				known := slices.ContainsFunc(before, func(b cke.Record) bool { return b.ID == r.ID })
				if !known && r.Operation != "compare-data" {
					done = append(done, r.Operation+" "+strings.Join(r.Targets, " "))
				}
			}
			slices.Reverse(done) // newest first
			if !slices.Equal(planned, done) {
				s.Errorf("planned %q, done %q", planned, done)
			}
		})
	}
}
