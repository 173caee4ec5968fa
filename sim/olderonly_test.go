package sim_test

import (
	"strings"
	"testing"
	"time"

	"cke/sim"
)

// The store is brought back from a copy from before all members moved to nodes that its file does not name. Operators have the newest
// store, and bring it back as the status asks for: who serves is not given up.
func TestOlderStore_WhoServesElsewhereIsNotGivenUp(t *testing.T) {
	for name, size := range map[string]int{"one member": 1, "three members": 3} {
		for since, unmarked := range map[string]bool{"": false, ", without marks": true} {
			t.Run(name+since, func(t *testing.T) {
				play(t, 2*size, func(s *stage) {
					s.declare(s.Nodes()[:size]...)
					s.daemon()
					s.must("formed", s.changed)
					n := s.person()
					n.copy()
					s.declare(s.Nodes()[size:]...)
					s.must("moved", s.changed)
					s.pass(5 * time.Minute)
					if !s.Write(s.Nodes()[size].Name(), "kept") {
						t.Fatal("not written")
					}
					if unmarked {
						s.eachNode((*sim.Node).Unmark)
					}
					n.putBack()
					s.daemon()
					serves := s.Nodes()[size].Name()
					s.must("as declared", func() bool {
						n.attend()
						_, carries := s.Store().Identity().On(s.Node(serves).Declared())
						return carries && s.settled() && s.Serving() == size && s.Write(serves, "later")
					})
					if v := s.Violations(); v != nil {
						t.Error(strings.Join(v, "\n"))
					}
				})
			})
		}
	}
}

// A store in whose place an older copy was put is no newer one any more once all its members were replaced: operators do not bring it back.
func TestOlderStore_AStoreThatWasOutrunIsNotBroughtBack(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		n := s.person()
		n.copy()
		s.replaceAll(t, "n1")
		n.putBack()
		s.daemon()
		s.must("frozen", func() bool { return s.freeze().Active() })
		s.reclaims(t)
		s.replaceAll(t, "n1", "n2", "n3")
		n.judged = true
		s.Node("n2").PowerOff()
		s.Node("n3").PowerOff()
		s.must("no quorum", func() bool { return s.ForeignMembers() < 0 })
		if n.bringNewer() {
			t.Error("a store whose members all ended is taken for the newest one")
		}
		n.heal()
		s.must("as declared", func() bool { n.attend(); return s.arrived() })
		if v := s.Violations(); v != nil {
			t.Error(strings.Join(v, "\n"))
		}
	})
}
