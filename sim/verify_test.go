package sim_test

import (
	"slices"
	"testing"
)

// A file that declares a node twice is refused, as by the command that stores it.
func TestSpec_ThatDeclaresANodeTwiceIsRefused(t *testing.T) {
	play(t, 3, func(s *stage) {
		c := s.Store().Spec().Cluster
		if len(c.Nodes) != 3 {
			t.Fatalf("the first one is refused: %v", verified(s.cluster(s.Nodes())))
		}
		c.Nodes = append(slices.Clone(c.Nodes), c.Nodes[0])
		s.Store().SetSpec(c)
		if got := len(s.Store().Spec().Cluster.Nodes); got != 3 {
			t.Errorf("%d nodes are declared", got)
		}
	})
}
