package etcdnode

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cke"
)

// A volume whose directory somebody uses, as to rescue data of an ended membership, is not emptied before the engine refuses to remove it.
func TestRemoveVolume_LeavesADirectoryInUse(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.38.1", "ed25519", "ed25519")
	fleet := fleetOf(t, newMemoryHostKeys(), nil, node)
	j := cke.Join{ID: "j1", Incarnation: "life", Volume: "etcd-cke.j1", Node: node.node, Etcd: cke.EtcdOptions{Image: "etcd:v3", VolumeRoot: "/srv/etcd"}}
	for request, answer := range map[string]string{
		"GET /volumes/etcd-cke.j1":                   volumeIn("/srv/etcd/etcd-cke.j1"),
		"POST /containers/create":                    `{"Id":"h1"}`,
		"PUT /containers/etcd-cke.j1.helper/archive": "",
		"DELETE /containers/etcd-cke.j1.helper":      "",
		"DELETE /volumes/etcd-cke.j1":                "",
		"GET /containers/json":                       `[{"Id":"x1","Names":["/rescue"],"Image":"etcd:v3","State":"running"}]`,
	} {
		node.engine.answer(request, answer)
	}
	if err := fleet.Machine(node.node).RemoveVolume(t.Context(), j); !errors.Is(err, cke.ErrConflict) {
		t.Errorf("in use: %v", err)
	}
	if n := node.engine.asked("PUT"); n != 0 {
		t.Errorf("it was emptied all the same: %d writes", n)
	}
	node.engine.answer("GET /containers/json", `[{"Id":"h0","Names":["/etcd-cke.j1.helper"],"Image":"etcd:v3","State":"created"}]`)
	if err := fleet.Machine(node.node).RemoveVolume(t.Context(), j); err != nil {
		t.Errorf("a helper that a crash left: %v", err)
	}
}

// What a canceled restore brought to a node does not stay on its disk, and an image that is gone, as after an upgrade, is fetched.
func TestRemoveVolume_EmptiesItsDirectory(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.38.9", "ed25519", "ed25519")
	fleet := fleetOf(t, newMemoryHostKeys(), nil, node)
	j := cke.Join{ID: "j1", Incarnation: "life", Volume: "etcd-cke.j1", Node: node.node, Etcd: cke.EtcdOptions{Image: "etcd:v3", VolumeRoot: "/srv/etcd"}}
	for request, answer := range map[string]string{
		"GET /volumes/etcd-cke.j1":                   volumeIn("/srv/etcd/etcd-cke.j1"),
		"POST /images/create":                        "{}",
		"PUT /containers/etcd-cke.j1.helper/archive": "",
		"DELETE /containers/etcd-cke.j1.helper":      "",
		"DELETE /volumes/etcd-cke.j1":                "",
	} {
		node.engine.answer(request, answer)
	}
	node.engine.heard = func(request string) {
		if request == "POST /images/create" {
			node.engine.answer("POST /containers/create", `{"Id":"h1"}`)
		}
	}
	if err := fleet.Machine(node.node).RemoveVolume(t.Context(), j); err != nil {
		t.Fatalf("without its image: %v; %q", err, node.engine.calls())
	}
	for _, name := range []string{dataDir, pkiDir, incomingDir, restoreDir} {
		if !slices.Contains(node.engine.files, name) {
			t.Errorf("%s stays on the node's disk; emptied: %q", name, node.engine.files)
		}
	}
}

// A daemon that ends while it renews a mark leaves the mark before beside the new one, and the engine names volumes in any order: what ended
// last stays last, and only one mark is left.
func TestMarkOver_AMarkThatWasRenewedHalfway(t *testing.T) {
	t.Parallel()
	many := make([]string, 101)
	for i := range many {
		many[i] = fmt.Sprint("m", i)
	}
	for i, row := range []struct {
		marks []string
		over  string
	}{
		{[]string{"x", "x y"}, "x y"},
		{[]string{"v", "w x", "v w x y"}, "v w x y"},
		{[]string{"x y", "x y x z"}, "x y z"}, // as an earlier cke continued from two marks
		{[]string{"x y x z", "x y z w"}, "x y z w"},
		{[]string{"w x", "x y z"}, "w x y z"},
		{[]string{strings.Join(many[:100], " "), strings.Join(many[1:], " ")}, strings.Join(many, " ")}, // as many as a mark names
	} {
		node := newFakeNode(t, fmt.Sprintf("127.0.38.%d", 20+i), "ed25519", "ed25519")
		want := strings.Fields(row.over)
		kept := strings.Join(want[max(0, len(want)-100):], " ")
		sum := sha256.Sum256([]byte(kept))
		name := fmt.Sprintf("cke-over.demo.%x", sum[:8])
		node.engine.answer("POST /volumes/create", fmt.Sprintf(`{"Name":%q,"Labels":{"cke.cluster":"demo","cke.over":%q}}`, name, kept))
		for range 2 {
			slices.Reverse(row.marks)
			var volumes []string
			gone := 0
			for n, ids := range row.marks {
				is := name
				if ids != kept {
					is, gone = fmt.Sprint("cke-over.demo.", n), gone+1
					node.engine.answer("DELETE /volumes/"+is, "")
				}
				volumes = append(volumes, fmt.Sprintf(`{"Name":%q,"Labels":{"cke.cluster":"demo","cke.over":%q}}`, is, ids))
			}
			volumes = append(volumes, `{"Name":"cke-over.other.1","Labels":{"cke.cluster":"other","cke.over":"o"}}`)
			node.engine.answer("GET /volumes", `{"Volumes":[`+strings.Join(volumes, ",")+`]}`)
			fleet := fleetOf(t, newMemoryHostKeys(), nil, node)
			fleet.Update(clusterOf(node), cke.Identity{})
			awaitProblem(t, fleet, "", patience)
			if n := fleet.Observe(t.Context()).Nodes[0]; !slices.Equal(n.Over, want) {
				t.Errorf("%q: over are %q, %v", row.marks, n.Over, n.Problem)
			}
			deleted := node.engine.asked("DELETE")
			if err := fleet.Machine(node.node).MarkOver(t.Context(), "demo", want[1:]); err != nil {
				t.Errorf("%q: %v", row.marks, err)
			}
			if n := node.engine.asked("DELETE") - deleted; n != gone || node.engine.asked("DELETE /volumes/"+name) > 0 {
				t.Errorf("%q: %d of %d marks were removed: %q", row.marks, n, gone, node.engine.calls())
			}
		}
	}
}
