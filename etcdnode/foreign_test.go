package etcdnode

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
)

// Which peer URL an etcd takes for its own, as its settings say: never guessed.
func TestOwnPeerURLs_AreWhatTheSettingsSay(t *testing.T) {
	const own = "https://10.0.0.4:2380"
	for _, row := range []struct {
		name  string
		words []string
		env   []string
		want  []string
	}{
		{"told to others", []string{"etcd", "--name=hand", "--initial-advertise-peer-urls=" + own, "--listen-peer-urls=https://0.0.0.0:2380"}, nil, []string{own}},
		{"in two words, with one dash", []string{"etcd", "-initial-advertise-peer-urls", own}, nil, []string{own}},
		{"in a shell's line", []string{"sh", "-c", "exec etcd --initial-advertise-peer-urls='" + own + "' --name x"}, nil, []string{own}},
		{"several", []string{"--initial-advertise-peer-urls=" + own + "/,https://10.1.0.4:2380"}, nil, []string{own, "https://10.1.0.4:2380"}},
		{"in the environment", nil, []string{"PATH=/bin", "ETCD_INITIAL_ADVERTISE_PEER_URLS=" + own}, []string{own}},
		{"a flag goes before the environment", []string{"--initial-advertise-peer-urls=" + own}, []string{"ETCD_INITIAL_ADVERTISE_PEER_URLS=https://10.9.9.9:2380"}, []string{own}},
		{"its entry in the first member list", []string{"--name=hand", "--initial-cluster=a=https://10.0.0.1:2380,hand=" + own, "--listen-peer-urls=https://0.0.0.0:2380"}, nil, []string{own}},
		{"not another one's entry", []string{"--name=hand", "--initial-cluster=a=" + own}, nil, nil},
		{"where it listens", []string{"--listen-peer-urls=" + own}, nil, []string{own}},
		{"in a file of settings: unknown", []string{"--config-file=/etc/etcd.yml", "--initial-advertise-peer-urls=" + own}, nil, nil},
		{"a mere mention", []string{"--endpoints=" + own}, []string{"PEERS=" + own}, nil},
		{"a proxy's", []string{"grpc-proxy", "--resolver-prefix=--initial-advertise-peer-urls"}, nil, nil},
		{"nothing after the flag", []string{"--initial-advertise-peer-urls"}, nil, nil},
	} {
		if got := ownPeerURLs(row.words, row.env); !slices.Equal(got, row.want) {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
	}
}

// foreignNode is a node whose engine runs a container that cke did not make.
func foreignNode(t *testing.T, labels, hostConfig string) (*fakeNode, cke.Machine) {
	t.Helper()
	n := newFakeNode(t, "127.0.0.1", "ed25519", "ed25519")
	n.engine.answer("GET /containers/json", fmt.Sprintf(`[{"Id":"c0ffee","Names":["/hand"],"Image":"coreos/etcd:v3.6.16","State":"running","Labels":{%s}}]`, labels))
	n.engine.answer("GET /containers/c0ffee/json", fmt.Sprintf(`{"Id":"c0ffee","Name":"/hand","State":{"Status":"running"},"HostConfig":%s,
		"Mounts":[{"Type":"volume","Name":"precious"},{"Type":"bind","Source":"/srv/hand"}],
		"Config":{"Image":"coreos/etcd:v3.6.16","Labels":{%s},"Entrypoint":["etcd"],"Cmd":["--initial-advertise-peer-urls=https://10.0.0.4:2380"]}}`, hostConfig, labels))
	for _, call := range []string{"POST /containers/c0ffee/update", "POST /containers/c0ffee/stop"} {
		n.engine.answer(call, "{}")
	}
	f := fleetOf(t, newMemoryHostKeys(), nil, n)
	f.Update(clusterOf(n), cke.Identity{})
	awaitProblem(t, f, "", patience)
	return n, f.Machine(n.node)
}

// changes are the requests that changed something.
func (f *fakeNode) changes() (all []string) {
	for _, r := range f.engine.calls() {
		if strings.HasPrefix(r, "POST") {
			all = append(all, r)
		}
	}
	return all
}

func TestStopForeign_EndsTheEnginesRestartsFirstAndKeepsTheContainer(t *testing.T) {
	n, m := foreignNode(t, "", `{"RestartPolicy":{"Name":"always"}}`)
	c, err := m.Foreign(t.Context(), "c0ffee")
	if err != nil || !c.Carries([]string{"https://10.0.0.4:2380"}) || c.Down() || c.KeptDown || !slices.Equal(c.Mounts, []string{"/srv/hand", "precious"}) {
		t.Errorf("%+v, %v", c, err)
	}
	if err := m.StopForeign(t.Context(), "c0ffee", []string{"https://10.0.0.4:2380"}, time.Second); err != nil {
		t.Fatal(err)
	}
	if got := n.changes(); len(got) != 2 || !strings.Contains(got[0], "/update") || !strings.Contains(got[1], "/stop") {
		t.Errorf("%v", got)
	}
}

// Nothing is done to what carries another member, to what another cluster of cke's made, or to what would not be kept.
func TestStopForeign_TouchesNothingElse(t *testing.T) {
	for _, row := range []struct{ name, labels, host, url string }{
		{"another member's", "", `{}`, "https://10.0.0.4:2390"},
		{"another cluster's", `"cke.cluster":"other"`, `{}`, "https://10.0.0.4:2380"},
		{"one that vanishes", "", `{"AutoRemove":true}`, "https://10.0.0.4:2380"},
	} {
		n, m := foreignNode(t, row.labels, row.host)
		if err := m.StopForeign(t.Context(), "c0ffee", []string{row.url}, time.Second); !errors.Is(err, cke.ErrConflict) {
			t.Errorf("%s: %v", row.name, err)
		}
		if got := n.changes(); got != nil {
			t.Errorf("%s: %v", row.name, got)
		}
	}
}

// A job that runs etcdctl in a container left 3,000 of them on a node: an observation inspects a few, first those that run, and the
// others in later ones.
func TestObserve_ManyForeignContainersDoNotHoldItUp(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.61.2", "ed25519", "ed25519")
	const n = 3000
	var list []string
	for i := range n {
		id, state := fmt.Sprintf("%064x", i), "exited"
		if i == n-1 {
			state = "running"
		}
		list = append(list, fmt.Sprintf(`{"Id":%q,"Names":["/job%d"],"Image":"quay.io/coreos/etcd:v3.5.9","State":%q}`, id, i, state))
		node.engine.answer("GET /containers/"+id+"/json", fmt.Sprintf(`{"Id":%q,"Name":"/job%d","State":{"Status":%q},"Config":{"Image":"quay.io/coreos/etcd:v3.5.9"},"HostConfig":{},"Mounts":[{"Name":"data"}]}`, id, i, state))
	}
	node.engine.answer("GET /containers/json", "["+strings.Join(list, ",")+"]")
	fleet := fleetOf(t, newMemoryHostKeys(), nil, node)
	fleet.Update(clusterOf(node), cke.Identity{})
	asked := 0
	for looks := 1; asked < 3*foreignsPerLook-2; looks++ {
		seen := fleet.Observe(t.Context()).Nodes[0]
		if !seen.Answered() {
			continue // the first one is under way
		}
		if len(seen.Containers) != foreignsShown+1 { // the status has to fit into a request of the store
			t.Fatalf("%d of them are shown", len(seen.Containers))
		}
		known := 0
		for _, c := range seen.Containers {
			if len(c.Mounts) > 0 {
				known++
			} else if c.Running() {
				t.Fatal("the one that runs is not inspected")
			}
		}
		if asked = node.engine.asked("GET /containers/0"); known > asked || known == 0 || asked >= n {
			t.Fatalf("%d of %d inspected, %d requests, %d looks", known, n, asked, looks)
		}
	}
}
