package etcdnode

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"cke"
)

// testJoin is a membership on a fake node, its labels as the engine shows them, and the request for its container by name.
func testJoin(node *fakeNode) (j cke.Join, labels string) {
	j = cke.Join{ID: "j1", Incarnation: "inc", Node: node.node, Member: "n1", Volume: "etcd-cke.j1", ClientPort: 2379, PeerPort: 2380, StartedAt: time.Now()}
	return j, `"cke.cluster":"demo","cke.incarnation":"inc","cke.join":"j1"`
}

// An operator has renamed the container of a member. It is found by its labels, also where another one has its name.
func TestMachine_FindsAContainerThatWasRenamed(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.61.6", "ed25519", "ed25519")
	fleet := fleetOf(t, newMemoryHostKeys(), nil, node)
	j, labels := testJoin(node)
	listed := func(id string) string {
		return fmt.Sprintf(`{"Id":%q,"Names":["/%s-old"],"Image":"etcd","State":"running","Labels":{%s}}`, id, id, labels)
	}
	node.engine.answer("GET /containers/json", "["+listed("c1")+"]")
	node.engine.answer("GET /containers/c1/json", `{"Id":"c1","Name":"/c1-old","State":{"Status":"running","StartedAt":"2026-01-01T00:00:00Z"},"Config":{"Image":"etcd","Labels":{`+labels+`}},"HostConfig":{"RestartPolicy":{"Name":"always"}}}`)
	node.engine.answer("POST /containers/c1/update", "{}")
	node.engine.answer("POST /containers/c1/stop", "")
	m := fleet.Machine(node.node)
	if err := m.StopContainer(t.Context(), j, time.Second); err != nil || node.engine.asked("POST /containers/c1/stop") != 1 {
		t.Errorf("it runs: %v", err)
	}
	node.engine.answer("GET /containers/etcd-cke.j1/json", `{"Id":"x","Name":"/etcd-cke.j1","State":{"Status":"running"},"Config":{"Image":"theirs","Labels":{}},"HostConfig":{}}`)
	if err := m.StopContainer(t.Context(), j, time.Second); err != nil || node.engine.asked("POST /containers/c1/stop") != 2 {
		t.Errorf("it runs beside one of its name: %v", err)
	}
	node.engine.answer("GET /containers/json", "["+listed("c1")+","+listed("c2")+"]")
	if err := m.StopContainer(t.Context(), j, time.Second); !errors.Is(err, cke.ErrConflict) {
		t.Errorf("two with its labels: %v", err)
	}
	node.engine.answer("GET /containers/json", "[]")
	if err := m.StopContainer(t.Context(), j, time.Second); !errors.Is(err, cke.ErrConflict) {
		t.Errorf("another one of its name: %v", err)
	}
}

// An engine has lost the labels of a volume: by its name it is the member's, with its container or without.
func TestEnsureContainer_TakesAVolumeThatLostItsLabels(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.61.5", "ed25519", "ed25519")
	fleet := fleetOf(t, newMemoryHostKeys(), nil, node)
	j, labels := testJoin(node)
	spec := cke.MemberSpec{Cluster: "demo", Join: j, Mode: cke.StartOwnData}
	d := Describe(spec)
	m := fleet.Machine(node.node)
	node.engine.answer("GET /volumes/etcd-cke.j1", `{"Name":"etcd-cke.j1","Driver":"local","Labels":null}`)
	node.engine.answer("POST /containers/create", `{"Id":"c1"}`)
	if err := m.EnsureContainer(t.Context(), spec); err != nil {
		t.Errorf("without a container: %v", err)
	}
	node.engine.answer("GET /containers/etcd-cke.j1/json", fmt.Sprintf(`{"Id":"c1","Name":"/etcd-cke.j1","State":{"Status":"exited","StartedAt":"2026-01-01T00:00:00Z","FinishedAt":"2026-01-01T00:00:01Z"},
		"Config":{"Image":"etcd","Labels":{%s,"cke.description":%q,"cke.options":%q}},"HostConfig":{"RestartPolicy":{"Name":"always"}}}`, labels, d.Digest(), d.Options))
	if err := m.EnsureContainer(t.Context(), spec); err != nil {
		t.Errorf("with its container: %v", err)
	}
	node.engine.answer("GET /volumes/etcd-cke.j1", `{"Name":"etcd-cke.j1","Driver":"local","Labels":{"cke.cluster":"demo","cke.incarnation":"inc","cke.join":"j2"}}`)
	if err := m.EnsureContainer(t.Context(), spec); !errors.Is(err, cke.ErrConflict) {
		t.Errorf("with other labels: %v", err)
	}
}

// A volume is removed while its container is made: the engine makes an empty one, without labels.
func TestEnsureContainer_LeavesNoContainerOnAVolumeThatTheEngineMade(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.61.8", "ed25519", "ed25519")
	fleet := fleetOf(t, newMemoryHostKeys(), nil, node)
	j, labels := testJoin(node)
	node.engine.answer("GET /volumes/etcd-cke.j1", `{"Name":"etcd-cke.j1","Driver":"local","Labels":{`+labels+`}}`)
	node.engine.answer("POST /containers/create", `{"Id":"c1"}`)
	node.engine.answer("DELETE /containers/c1", "")
	node.engine.mu.Lock()
	node.engine.heard = func(request string) {
		if request == "POST /containers/create" {
			node.engine.answer("GET /volumes/etcd-cke.j1", `{"Name":"etcd-cke.j1","Driver":"local","Labels":null}`)
		}
	}
	node.engine.mu.Unlock()
	err := fleet.Machine(node.node).EnsureContainer(t.Context(), cke.MemberSpec{Cluster: "demo", Join: j, Mode: cke.StartOwnData})
	if !errors.Is(err, cke.ErrDataMissing) || node.engine.asked("DELETE /containers/c1") != 1 {
		t.Errorf("it is left: %v", err)
	}
}

// A container without cke's label has the name of a helper: it is left alone.
func TestEnsureVolume_LeavesAContainerThatIsNoHelper(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.61.3", "ed25519", "ed25519")
	fleet := fleetOf(t, newMemoryHostKeys(), nil, node)
	j, _ := testJoin(node)
	j.Etcd.VolumeRoot = "/srv/etcd"
	node.engine.answer("GET /containers/etcd-cke.j1.helper/json", `{"Id":"c9","Name":"/etcd-cke.j1.helper","State":{"Status":"exited"},"Config":{"Image":"theirs","Labels":{}},"HostConfig":{}}`)
	node.engine.answer("DELETE /containers/c9", "")
	err := fleet.Machine(node.node).EnsureVolume(t.Context(), cke.MemberSpec{Cluster: "demo", Join: j})
	if !errors.Is(err, cke.ErrConflict) || node.engine.asked("DELETE /containers/c9") > 0 {
		t.Errorf("it is removed: %v", err)
	}
}
