package etcdnode

import (
	"errors"
	"slices"
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
