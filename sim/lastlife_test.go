package sim_test

import "testing"

// All nodes are lost with the management host. On another one the operator restores the incarnation before the last. What lies beside the backups
// says how far the last one had come at least: the restored cluster starts above that.
func TestRestore_RevisionsOfTheLastLifeAreNotGivenOutAgain(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.declare(s.Nodes()...)
		s.backedUp()
		s.order(fromBackup)
		s.must("restored", func() bool { return s.restored() && s.settled() })
		for range 5 {
			s.Write("n1", "seen by clients")
		}
		last := s.Store().Identity().Incarnation.Restore.Floor()
		s.latest().Kill()
		for _, n := range s.Nodes() {
			n.Blank()
		}
		s.burnt() // with the identity of the last life
		s.order(fromBackup)
		s.must("restored again", s.restored)
		if again := s.Store().Identity().Incarnation.Restore.Floor(); again <= last {
			t.Errorf("revisions begin at %d; the last life gave out %d and what follows", again, last)
		}
		s.unbroken(t)
	})
}
