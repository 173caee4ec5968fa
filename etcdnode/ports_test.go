package etcdnode

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cke"
)

// No container is made for ports that one of another cluster was made for: neither where there is none of the member, whether that
// ever started or not, nor in place of one at other ports. One that is at those ports already is made anew.
func TestEnsureContainer_TakesNoPortsOfAnotherCluster(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.30.7", "ed25519", "ed25519")
	fleet := fleetOf(t, newMemoryHostKeys(), nil, node)
	m := fleet.Machine(node.node)
	place := func(client, peer int) string {
		return fmt.Sprintf("https://%s:%d https://%s:%d", node.node.Address, client, node.node.Address, peer)
	}
	node.engine.answer("GET /volumes/etcd-cke.j1", volumeIn(""))
	node.engine.answer("DELETE /containers/c1", "")
	node.engine.answer("POST /containers/create", `{"Id":"c2"}`)
	node.engine.answer("GET /containers/json", fmt.Sprintf(`[{"Id":"o1","Names":["/etcd-cke.o"],"Image":"etcd:v3","State":"exited","Labels":{"cke.cluster":"other","cke.join":"o","cke.place":%q}}]`, place(3379, 3380)))
	for name, row := range map[string]struct {
		made    string // the place that its container was made for; empty: it has none
		started time.Time
		port    int
		refused bool
	}{
		"a new member":                       {port: 3379, refused: true},
		"a member without a container":       {port: 3379, started: time.Now(), refused: true},
		"a member that moves":                {made: place(2379, 2380), port: 3379, started: time.Now(), refused: true},
		"a member that is there already":     {made: place(3379, 3380), port: 3379, started: time.Now()},
		"other ports":                        {port: 2379, started: time.Now()},
		"a member that moves to other ports": {made: place(3379, 3380), port: 2379, started: time.Now()},
	} {
		if row.made == "" {
			node.engine.forget(inspectMember)
		} else {
			node.engine.answer(inspectMember, strings.Replace(inspected("exited", "always"), `"cke.join":"j1"`, fmt.Sprintf(`"cke.join":"j1","cke.place":%q`, row.made), 1))
		}
		j := cke.Join{ID: "j1", Incarnation: "life", Volume: "etcd-cke.j1", Member: "n1", Node: node.node, ClientPort: row.port, PeerPort: row.port + 1, StartedAt: row.started, Etcd: cke.EtcdOptions{Image: "etcd:v3"}}
		before := node.engine.asked("POST /containers/create") + node.engine.asked("DELETE /containers/c1")
		err := m.EnsureContainer(t.Context(), cke.MemberSpec{Cluster: "demo", Join: j, Mode: cke.StartOwnData, Token: "token"})
		changed := node.engine.asked("POST /containers/create")+node.engine.asked("DELETE /containers/c1") > before
		if refused := cke.CodeOf(err) == cke.CodePortTaken; refused != row.refused || !refused && err != nil || changed == row.refused {
			t.Errorf("%s: %v, changed %v", name, err, changed)
		}
	}
}

// forget lets the engine not know a request again.
func (e *fakeEngine) forget(request string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.answers, request)
}
