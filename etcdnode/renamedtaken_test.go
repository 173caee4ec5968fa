package etcdnode

import (
	"fmt"
	"testing"

	"cke"
)

// A container was renamed, and another one has its name: it is not removed, since it could not be made anew.
func TestEnsureContainer_RemovesNothingThatItCannotMakeAnew(t *testing.T) {
	node := newFakeNode(t, "127.0.61.77", "ed25519", "ed25519")
	fleet := fleetOf(t, newMemoryHostKeys(), nil, node)
	j, labels := testJoin(node)
	node.engine.answer("GET /volumes/etcd-cke.j1", `{"Name":"etcd-cke.j1","Driver":"local","Labels":{`+labels+`}}`)
	node.engine.answer("GET /containers/json", fmt.Sprintf(`[{"Id":"c1","Names":["/c1-old"],"Image":"etcd","State":"exited","Labels":{%s}}]`, labels))
	node.engine.answer("GET /containers/c1/json", `{"Id":"c1","Name":"/c1-old","State":{"Status":"exited","StartedAt":"2026-01-01T00:00:00Z"},"Config":{"Image":"etcd","Labels":{`+labels+`}},"HostConfig":{"RestartPolicy":{"Name":"always"}}}`)
	node.engine.answer("GET /containers/etcd-cke.j1/json", `{"Id":"x","Name":"/etcd-cke.j1","State":{"Status":"running"},"Config":{"Image":"theirs","Labels":{}},"HostConfig":{}}`)
	node.engine.answer("DELETE /containers/c1", "")
	_ = fleet.Machine(node.node).EnsureContainer(t.Context(), cke.MemberSpec{Cluster: "demo", Join: j, Mode: cke.StartOwnData})
	if n := node.engine.asked("DELETE /containers/c1"); n > 0 {
		t.Errorf("the member's container is removed, and its name is another one's")
	}
}
