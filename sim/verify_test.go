package sim_test

import (
	"slices"
	"testing"

	"cke"
	"cke/clusterfile"
)

// verified is what `ckecli cluster set` says of a file, but for how etcd is to run: what cannot work is tried there.
func verified(c cke.Cluster) error {
	c.Options.Etcd = cke.EtcdOptions{}
	text, err := cke.MarshalCluster(c)
	if err == nil {
		_, _, err = clusterfile.ParseCluster("cluster.yml", text)
	}
	return err
}

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
