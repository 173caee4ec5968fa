package sim_test

import (
	"slices"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// stopping reports whether it is on record that the member on a node was asked to stop.
func (s *stage) stopping(node string) bool {
	return slices.ContainsFunc(s.Store().Identity().Joins, func(j cke.Join) bool { return j.Node.Name() == node && j.Stopping })
}

// A stop is given up while the engine has the request, and the node falls silent; its member serves. Nobody else is stopped meanwhile:
// once the engine wakes, it stops what it was asked to.
func TestStop_ThatWasGivenUpHoldsBackOthers(t *testing.T) {
	for _, dies := range []bool{false, true} {
		inFormed(t, 3, func(s *stage) {
			hung := ""
			s.Judge = func(_ int, c sim.Call) sim.Verdict {
				switch operation, _ := s.Store().Running(); {
				case operation != "restart-member" || c.Name != "StopContainer":
					return sim.Proceed
				case hung == "":
					hung = c.Node
					s.Node(hung).Hang()
					if dies {
						return sim.KillAfter
					}
				case c.Node != hung:
					t.Errorf("%s is stopped while the engine of %s has a stop in hand", c.Node, hung)
				}
				return sim.Proceed
			}
			s.Store().SetSpec(s.want([]int{1, 2, 3}, true))
			s.until(3*time.Minute, func() bool { s.succeed(); return false })
			if hung == "" {
				t.Fatal("nobody was to stop")
			}
			if !s.stopping(hung) {
				t.Error("that it was asked to stop is not on record")
			}
			s.Judge = nil
			s.Node(hung).Unhang()
			s.must("as declared", s.changed)
			if s.stopping(hung) {
				t.Errorf("%s is still to stop by the record", hung)
			}
		})
	}
}

// A stop that never arrived holds nobody back once the node answers, also where its member is to stay as it is.
func TestStop_ThatWasLostIsForgotten(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		cut := ""
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if operation, _ := s.Store().Running(); cut == "" && operation == "restart-member" && c.Name == "StopContainer" {
				cut = c.Node
				s.declare(s.Nodes()...)
				return sim.KillBefore
			}
			return sim.Proceed
		}
		s.Store().SetSpec(s.want([]int{1, 2, 3}, true))
		s.must("cut", func() bool { return cut != "" })
		s.must("as declared", s.changed)
		s.pass(time.Minute)
		if s.stopping(cut) {
			t.Errorf("%s is still to stop by the record", cut)
		}
	})
}
