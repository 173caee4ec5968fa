package sim_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/server/strategy"
	"cke/sim"
)

// cutOffAddition lets a cluster of three move from n3 to n4, and ends its daemon once the membership on n4 is on record; n4 goes down with it.
func (s *stage) cutOffAddition(t *testing.T) {
	t.Helper()
	s.declare(s.Nodes()[:3]...)
	s.daemon()
	s.must("formed", s.changed)
	cut := false
	s.Judge = func(_ int, call sim.Call) sim.Verdict {
		if !cut && call.Name == "AddLearner" {
			cut = true
			return sim.KillBefore
		}
		return sim.Proceed
	}
	s.declare(s.Nodes()[0], s.Nodes()[1], s.Nodes()[3])
	if !s.until(convergence, func() bool { return cut }) || s.join("n4").ID == "" {
		t.Fatal("the membership of n4 is not on record")
	}
	s.Node("n4").PowerOff()
}

// The addition of the member on n4 was cut off once its membership was on record: n3 serves until n4 has a member that votes, or another
// node.
func TestLacking_AMemberStaysUntilTheOneThatReplacesItVotes(t *testing.T) {
	for name, then := range map[string]func(s *stage){
		"n4 comes back":               func(s *stage) { s.Node("n4").PowerOn() },
		"the file names n5 instead":   func(s *stage) { s.declare(s.Nodes()[0], s.Nodes()[1], s.Nodes()[4]) },
		"the file names n3 again":     func(s *stage) { s.declare(s.Nodes()[:3]...) },
		"n3 fails, and n4 comes back": func(s *stage) { s.Node("n3").PowerOff(); s.pass(time.Minute); s.Node("n4").PowerOn() },
	} {
		t.Run(name, func(t *testing.T) {
			play(t, 5, func(s *stage) {
				s.cutOffAddition(t)
				s.daemon()
				s.pass(10 * time.Minute)
				if s.join("n3").ID == "" || s.Serving() != 3 {
					t.Errorf("n3 was removed, %d serve", s.Serving())
				}
				then(s)
				s.must("as declared", s.changed)
				if v := s.Violations(); v != nil {
					t.Error(strings.Join(v, "\n"))
				}
			})
		})
	}
}

// A daemon that takes the membership for a member removes the one that serves.
func TestChecker_NoticesAMemberThatLeavesForAMembershipOnRecord(t *testing.T) {
	play(t, 5, func(s *stage) {
		s.cutOffAddition(t)
		s.blind = func(in *strategy.Input) {
			in.Spec.Nodes = in.Spec.Nodes[:2]
			in.Identity.Joins = slices.DeleteFunc(slices.Clone(in.Identity.Joins), func(j cke.Join) bool { return j.Node.Name() == "n4" })
		}
		s.daemon()
		s.pass(10 * time.Minute)
		s.mustViolate(t, "before there are as many others as are declared")
	})
}
