package sim_test

import (
	"strings"
	"testing"
	"time"

	"cke/sim"
)

// A member continues alone while the management hosts see only that one: the memberships of the others end. Once they are seen again, operators
// remove what the status names as left over, and the cluster gets as it is declared.
func TestTwins_TheOnlyOneInSightContinuesAlone(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		for _, n := range []string{"n2", "n3"} {
			s.Cut(sim.Management, n)
		}
		if !s.Node("n1").ContinueAlone() {
			t.Fatal("n1 does not continue alone")
		}
		s.Cut("n2", "n3")
		n := s.person()
		n.healed = time.Now()
		s.until(30*time.Minute, func() bool { n.attend(); return false })
		s.Heal("n2", "n3")
		s.pass(time.Minute)
		s.HealNetwork()
		s.must("as declared", func() bool { n.attend(); return s.arrived() })
		if v := s.Violations(); v != nil {
			t.Error(strings.Join(v, "\n"))
		}
	})
}
