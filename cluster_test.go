package cke_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"cke"
)

// The control-plane nodes are those of the file, in its order, wherever others stand; to get them changes nothing.
func TestControlPlane_IsInTheOrderOfTheFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c cke.Cluster
		var want []string
		for i := range rapid.IntRange(0, 9).Draw(t, "nodes") {
			n := cke.Node{Address: string(rune('a' + i)), ControlPlane: rapid.Bool().Draw(t, "control plane")}
			c.Nodes = append(c.Nodes, n)
			if n.ControlPlane {
				want = append(want, n.Address)
			}
		}
		before := append([]cke.Node(nil), c.Nodes...)
		var got []string
		for _, n := range c.ControlPlane() {
			got = append(got, n.Address)
		}
		_ = append(c.ControlPlane(), cke.Node{Address: "z"})
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		if d := cmp.Diff(before, c.Nodes); d != "" {
			t.Errorf("changed (-want +got):\n%s", d)
		}
	})
}
