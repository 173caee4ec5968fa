package preflight

import (
	"maps"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/clusterfile"
	"cke/preflight/probe"
)

const clusterFile = `name: prod
nodes:
  - {address: 10.0.0.11, hostname: cp1, user: cke, control_plane: true}
  - {address: 10.0.0.12, hostname: cp2, user: cke, control_plane: true}
  - {address: 10.0.0.13, hostname: cp3, user: cke, control_plane: true}
`

const hostKeyLine = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGlJt4IUeDs4rnqWGHrTHkIEgYjKAmDDkNE8Fyj3Ez3c"

// lookedAt is a cluster of three nodes, each of which is sound.
func lookedAt(t *testing.T) (cke.Cluster, cke.Observation, Keys, map[string]Visit) {
	t.Helper()
	c, _, err := clusterfile.ParseCluster("cluster.yml", []byte(clusterFile))
	if err != nil {
		t.Fatal(err)
	}
	c = c.WithDefaults()
	now := time.Date(2026, 5, 2, 3, 10, 44, 0, time.UTC)
	keys := Keys{Known: map[string]string{}, Shown: map[string]string{}}
	seen, visits := cke.Observation{}, map[string]Visit{}
	for _, n := range c.Nodes {
		keys.Known[n.Address] = hostKeyLine
		seen.Nodes = append(seen.Nodes, cke.NodeStatus{Node: n, SeenAt: now, Clock: now, EngineVersion: "28.1.1", ClientPort: cke.PortClosed, PeerPort: cke.PortClosed})
		v := Visit{Result: probe.Result{Listened: map[string]string{}, Dialled: map[string]string{}, Sync: &probe.Sync{Writes: 500, Median: 0.0004, P99: 0.0012}}}
		for _, other := range c.Nodes {
			for _, address := range portsOf(c.Options.Etcd, other) {
				if other.Address == n.Address {
					v.Listened[address] = ""
				} else {
					v.Dialled[address] = ""
				}
			}
		}
		visits[n.Address] = v
	}
	return c, seen, keys, visits
}

func TestJudge_TellsOfEachNode(t *testing.T) {
	const cp1, client, peer = "10.0.0.11", "10.0.0.11:2379", "10.0.0.11:2380"
	type given struct {
		c      *cke.Cluster
		own    *Members
		st     *cke.NodeStatus
		keys   *Keys
		visits map[string]Visit
	}
	sound := []string{"ssh ok: user cke at 10.0.0.11:22", "host-key ok: the one that cke knows", "engine ok: Docker 28.1.1", "clock ok: within 2s of this host",
		"client-port ok: 2379 is free", "reach-client ok: reached from cp2, cp3", "peer-port ok: 2380 is free", "reach-peer ok: reached from cp2, cp3",
		"disk ok: 99 of 100 small writes are synced within 1.2ms, half of them within 0.4ms (500 writes, the engine's directory for volumes)"}
	for name, c := range map[string]struct {
		change func(given)
		want   []string // what it then says; nil: all is sound
	}{
		"sound": {func(given) {}, nil},
		"unreachable": {func(g given) {
			g.st.Problem = &cke.Problem{Code: cke.CodeUnreachable, Message: "sshd at 10.0.0.11:22 cannot be reached: no route to host"}
			delete(g.visits, cp1)
			for _, from := range []string{"10.0.0.12", "10.0.0.13"} {
				g.visits[from].Dialled[client], g.visits[from].Dialled[peer] = "no route to host", probe.NoAnswer
			}
		}, []string{"ssh fail: sshd at 10.0.0.11:22 cannot be reached: no route to host", "host-key warn: not checked: the node did not answer in full",
			"engine warn: not checked: the node did not answer in full", "clock warn: not checked: the node did not answer in full",
			"client-port warn: not checked: the node did not answer in full", "reach-client fail: 10.0.0.11:2379 is not reached from cp2: no route to host, cp3: no route to host",
			"peer-port warn: not checked: the node did not answer in full", "reach-peer fail: 10.0.0.11:2380 is not reached from cp2: no answer, cp3: no answer",
			"disk warn: not checked: the node did not answer in full"}},
		"another host key": {func(g given) {
			g.st.Problem = &cke.Problem{Code: cke.CodeHostKey, Message: "the host key of cp1 has changed"}
		}, []string{"ssh warn: not checked: there is no login to a node with another host key", "host-key fail: the host key of cp1 has changed",
			"engine warn: not checked: the node did not answer in full"}},
		"first sight": {func(g given) { delete(g.keys.Known, cp1); g.keys.Shown[cp1] = hostKeyLine },
			[]string{"host-key warn: none is known yet; cke will trust SHA256:"}},
		"pinned in the file": {func(g given) { g.st.Node.SSH.HostKey = hostKeyLine }, []string{"host-key ok: as the file says"}},
		"engine hangs": {func(g given) {
			g.st.Problem = &cke.Problem{Code: cke.CodeEngine, Message: "the engine does not answer"}
		}, []string{"engine fail: the engine does not answer"}},
		"clock": {func(g given) { g.st.Clock = g.st.Clock.Add(-time.Minute) }, []string{"clock warn: 59s behind this host"}},
		"clock of last year": {func(g given) { g.st.Clock = g.st.Clock.Add(9000 * time.Hour) },
			[]string{"clock fail: "}},
		"our member": {func(g given) {
			g.st.Containers = []cke.Container{{Name: "etcd-cke.1", Cluster: "prod", State: cke.ContainerRunning}}
			clear(g.visits[cp1].Listened)
		}, []string{"client-port ok: 2379: our member listens", "peer-port ok: 2380: our member listens"}},
		"our member, on other ports than the file's": {func(g given) {
			g.st.Containers = []cke.Container{{Name: "etcd-cke.1", Cluster: "prod", State: cke.ContainerRunning}}
			g.visits["10.0.0.12"].Dialled[client], g.visits["10.0.0.13"].Dialled[client] = probe.Refused, probe.Refused
		}, []string{"client-port fail: our member runs, but does not listen on 2379", "reach-client fail: ", "peer-port ok: 2380: our member listens"}},
		"our member, and nobody else was there to ask": {func(g given) {
			g.st.Containers = []cke.Container{{Name: "etcd-cke.1", Cluster: "prod", Incarnation: "this", State: cke.ContainerRunning}}
			g.own.Identity = &cke.Identity{Incarnation: &cke.Incarnation{ID: "this"}}
			delete(g.visits, "10.0.0.12")
			delete(g.visits, "10.0.0.13")
		}, []string{"client-port ok: 2379: our member runs", "reach-client warn: not checked: "}},
		"taken by another life": {func(g given) {
			g.st.Containers = []cke.Container{{Name: "etcd-cke.1", Cluster: "prod", Incarnation: "that", State: cke.ContainerRunning, Place: "https://10.0.0.11:2379 https://10.0.0.11:3380"}}
			g.own.Identity = &cke.Identity{}
			g.st.ClientPort, g.st.PeerPort = cke.PortUnknown, cke.PortUnknown
			clear(g.visits[cp1].Listened)
		}, []string{"client-port fail: 2379 is taken by another incarnation of cluster prod, by the label of container etcd-cke.1",
			"peer-port warn: not checked: container etcd-cke.1 of another incarnation runs here and may use 2380"}},
		"another life, on other ports": {func(g given) {
			g.st.Containers = []cke.Container{{Name: "etcd-cke.1", Cluster: "prod", Incarnation: "that", State: cke.ContainerRunning}}
			g.own.Identity = &cke.Identity{}
		}, nil},
		"without a store": {func(g given) { delete(g.keys.Known, cp1); g.keys.Shown[cp1], g.keys.Blind = hostKeyLine, true },
			[]string{"host-key warn: the file has none, and the store could not be asked for the one that cke knows; the node showed SHA256:"}},
		"taken by another cluster": {func(g given) {
			g.st.Neighbors = []cke.Neighbor{{Cluster: "other", Ports: []int{3379}}, {Cluster: "test", Ports: []int{2380}}}
			g.st.PeerPort = cke.PortOpen
		}, []string{"peer-port fail: 2380 is taken by cluster test, by the label of its container"}},
		"of another cluster that is stopped": {func(g given) {
			g.st.Neighbors = []cke.Neighbor{{Cluster: "test", Ports: []int{2380}}}
		}, []string{"peer-port fail: 2380 is taken by cluster test, by the label of its container"}},
		"taken by something else than the etcd that runs here": {func(g given) {
			g.st.Containers = []cke.Container{{Name: "their-etcd", State: cke.ContainerRunning, PeerURLs: []string{"http://10.0.0.11:2380"}}}
			g.st.ClientPort, g.st.PeerPort = cke.PortOpen, cke.PortOpen
		}, []string{"client-port fail: 2379 is taken; it is not known by which process", "peer-port fail: 2380 is taken by container their-etcd, by its settings"}},
		"taken meanwhile": {func(g given) { g.visits[cp1].Listened[peer] = probe.Taken }, []string{"peer-port fail: 2380 is taken; it is not known by which process"}},
		"not its address": {func(g given) { g.visits[cp1].Listened[client] = "cannot assign requested address" },
			[]string{"client-port fail: cannot listen on 10.0.0.11:2379: cannot assign requested address"}},
		"a firewall rejects": {func(g given) { g.visits["10.0.0.12"].Dialled[peer] = probe.Refused },
			[]string{"reach-peer fail: 10.0.0.11:2380 is not reached from cp2: connection refused"}},
		"no image": {func(g given) {
			err := &cke.Error{Code: cke.CodeImage, What: "image etcd:v3 is not on cp1"}
			g.visits[cp1] = Visit{Err: err}
			g.visits["10.0.0.12"].Dialled[client], g.visits["10.0.0.12"].Dialled[peer] = probe.Refused, probe.Refused
			g.visits["10.0.0.13"] = Visit{Err: err}
		}, []string{"reach-client warn: not checked: from cp3: image etcd:v3 is not on cp1", "reach-peer warn: not checked: from cp3: image etcd:v3 is not on cp1",
			"disk warn: not checked: image etcd:v3 is not on cp1"}},
		"no image here alone": {func(g given) {
			g.visits[cp1] = Visit{Err: &cke.Error{Code: cke.CodeImage, What: "image etcd:v3 is not on cp1"}}
			for _, from := range []string{"10.0.0.12", "10.0.0.13"} {
				g.visits[from].Dialled[client], g.visits[from].Dialled[peer] = probe.Refused, probe.Refused
			}
		}, []string{"reach-client warn: not checked: nothing listens on 10.0.0.11:2379, as cp2, cp3 found",
			"reach-peer warn: not checked: nothing listens on 10.0.0.11:2380, as cp2, cp3 found", "disk warn: not checked: image etcd:v3 is not on cp1"}},
		"slow now and then": {func(g given) { g.visits[cp1].Sync.P99 = 0.03 }, []string{"disk warn: 99 of 100 small writes are synced within 30.0ms"}},
		"slow":              {func(g given) { g.visits[cp1].Sync.P99, g.visits[cp1].Sync.Median = 0.03, 0.02 }, []string{"disk fail: 99 of 100 small writes are synced within 30.0ms"}},
		"no directory": {func(g given) {
			g.c.Options.Etcd.VolumeRoot = "/mnt/etcd"
			v := g.visits[cp1]
			v.NoDir = true
			g.visits[cp1] = v
		}, []string{"disk warn: not checked: /mnt/etcd does not exist; cke creates it"}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, seen, keys, visits := lookedAt(t)
			own := Members{Cluster: cluster.Name}
			c.change(given{&cluster, &own, &seen.Nodes[0], &keys, visits})
			said := map[string]string{}
			for _, check := range Judge(cluster, own, seen, keys, visits) {
				if check.Node == "cp1" {
					said[check.Check] = check.Check + " " + string(check.Result) + ": " + check.Detail
				}
			}
			if len(said) != len(sound) {
				t.Errorf("not every check is told: %q", said)
			}
			want := c.want
			if want == nil {
				want = sound
			}
			for _, line := range want {
				name, _, _ := strings.Cut(line, " ")
				if !strings.HasPrefix(said[name], line) {
					t.Errorf("it says %q, want %q", said[name], line)
				}
			}
		})
	}
}

// Three nodes that refuse the login are three failed checks, each once; all others follow from them.
func TestJudge_ReportsACauseOnce(t *testing.T) {
	c, seen, keys, visits := lookedAt(t)
	for i := range seen.Nodes {
		st := &seen.Nodes[i]
		st.Problem = &cke.Problem{Code: cke.CodeSSHAuth, Message: st.Node.Name() + " refuses the key"}
	}
	clear(visits)
	if got := causes(t, Judge(c, Members{Cluster: c.Name}, seen, keys, visits)); !maps.Equal(got, map[string]int{"cp1/ssh": 8, "cp2/ssh": 8, "cp3/ssh": 8}) {
		t.Errorf("refused at each: %v", got)
	}

	c, seen, keys, visits = lookedAt(t)
	seen.Nodes[0].Problem = &cke.Problem{Code: cke.CodeUnreachable, Message: "cp1 cannot be reached"}
	delete(visits, "10.0.0.11")
	for _, from := range []string{"10.0.0.12", "10.0.0.13"} {
		for _, address := range portsOf(c.Options.Etcd, c.Nodes[0]) {
			visits[from].Dialled[address] = "no route to host"
		}
	}
	if got := causes(t, Judge(c, Members{Cluster: c.Name}, seen, keys, visits)); !maps.Equal(got, map[string]int{"cp1/ssh": 12}) {
		t.Errorf("one is unreachable: %v", got)
	}
}

// causes are the checks that failed by themselves, with how many others follow from each.
func causes(t *testing.T, all []Check) map[string]int {
	t.Helper()
	follow := map[string]int{}
	for _, c := range all {
		if c.Result == Fail && c.Because == "" {
			follow[c.Node+"/"+c.Check] = 0
		}
	}
	for _, c := range all {
		if c.Because == "" {
			continue
		}
		if _, there := follow[c.Because]; !there {
			t.Errorf("%s/%s is because of %q, which is not there", c.Node, c.Check, c.Because)
		}
		follow[c.Because]++
	}
	return follow
}

// A node that carries no member is not asked for what members need.
func TestJudge_AsksLittleOfANodeWithoutAMember(t *testing.T) {
	c, seen, keys, visits := lookedAt(t)
	seen.Nodes[0].Node.ControlPlane = false
	var names []string
	for _, check := range Judge(c, Members{Cluster: c.Name}, seen, keys, visits) {
		if check.Node == "cp1" {
			names = append(names, check.Check)
		}
	}
	if got := strings.Join(names, " "); got != "ssh host-key engine clock" {
		t.Errorf("asked %s", got)
	}
}
