package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/clusterfile"
	"cke/preflight/probe"
)

const hostKeyLine = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGlJt4IUeDs4rnqWGHrTHkIEgYjKAmDDkNE8Fyj3Ez3c"

// lookedAt is a cluster of three nodes, each of which is sound.
func lookedAt(t *testing.T) (cke.Cluster, cke.Observation, *seenKeys, map[string]visit) {
	t.Helper()
	c, _, err := clusterfile.ParseCluster("cluster.yml", []byte(clusterFile))
	if err != nil {
		t.Fatal(err)
	}
	c = c.WithDefaults()
	now := time.Date(2026, 5, 2, 3, 10, 44, 0, time.UTC)
	keys := &seenKeys{pinned: map[string]string{}, shown: map[string]string{}}
	seen, visits := cke.Observation{}, map[string]visit{}
	for _, n := range c.Nodes {
		keys.pinned[n.Address] = hostKeyLine
		seen.Nodes = append(seen.Nodes, cke.NodeStatus{Node: n, SeenAt: now, Clock: now, EngineVersion: "28.1.1", ClientPort: cke.PortClosed, PeerPort: cke.PortClosed})
		v := visit{Result: probe.Result{Listened: map[string]string{}, Dialled: map[string]string{}, Sync: &probe.Sync{Writes: 500, Median: 0.0004, P99: 0.0012}}}
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
		own    *members
		st     *cke.NodeStatus
		keys   *seenKeys
		visits map[string]visit
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
		}, []string{"ssh warn: not checked: nobody logs in to a node with another host key", "host-key fail: the host key of cp1 has changed",
			"engine warn: not checked: the node did not answer in full"}},
		"first sight": {func(g given) { delete(g.keys.pinned, cp1); g.keys.shown[cp1] = hostKeyLine },
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
		}, []string{"client-port warn: our member runs, and does not listen on 2379", "reach-client fail: ", "peer-port ok: 2380: our member listens"}},
		"our member, and nobody else was there to ask": {func(g given) {
			g.st.Containers = []cke.Container{{Name: "etcd-cke.1", Cluster: "prod", Incarnation: "this", State: cke.ContainerRunning}}
			g.own.identity = &cke.Identity{Incarnation: &cke.Incarnation{ID: "this"}}
			delete(g.visits, "10.0.0.12")
			delete(g.visits, "10.0.0.13")
		}, []string{"client-port ok: 2379: our member runs", "reach-client warn: not checked: "}},
		"taken by another life": {func(g given) {
			g.st.Containers = []cke.Container{{Name: "etcd-cke.1", Cluster: "prod", Incarnation: "that", State: cke.ContainerRunning, Place: "https://10.0.0.11:2379 https://10.0.0.11:3380"}}
			g.own.identity = &cke.Identity{}
			g.st.ClientPort, g.st.PeerPort = cke.PortUnknown, cke.PortUnknown
			clear(g.visits[cp1].Listened)
		}, []string{"client-port fail: 2379 is taken by another incarnation of cluster prod, by the label of container etcd-cke.1",
			"peer-port warn: not checked: container etcd-cke.1 of another incarnation runs here and may use 2380"}},
		"another life, on other ports": {func(g given) {
			g.st.Containers = []cke.Container{{Name: "etcd-cke.1", Cluster: "prod", Incarnation: "that", State: cke.ContainerRunning}}
			g.own.identity = &cke.Identity{}
		}, nil},
		"without a store": {func(g given) { delete(g.keys.pinned, cp1); g.keys.shown[cp1], g.keys.blind = hostKeyLine, true },
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
		}, []string{"client-port fail: 2379 is taken, it is not known by what", "peer-port fail: 2380 is taken by container their-etcd, by its settings"}},
		"taken meanwhile": {func(g given) { g.visits[cp1].Listened[peer] = probe.Taken }, []string{"peer-port fail: 2380 is taken, it is not known by what"}},
		"not its address": {func(g given) { g.visits[cp1].Listened[client] = "cannot assign requested address" },
			[]string{"client-port fail: 10.0.0.11:2379 cannot be listened on: cannot assign requested address"}},
		"a firewall rejects": {func(g given) { g.visits["10.0.0.12"].Dialled[peer] = probe.Refused },
			[]string{"reach-peer fail: 10.0.0.11:2380 is not reached from cp2: connection refused"}},
		"no image": {func(g given) {
			err := &cke.Error{Code: cke.CodeImage, What: "image etcd:v3 is not on cp1"}
			g.visits[cp1] = visit{err: err}
			g.visits["10.0.0.12"].Dialled[client], g.visits["10.0.0.12"].Dialled[peer] = probe.Refused, probe.Refused
			g.visits["10.0.0.13"] = visit{err: err}
		}, []string{"reach-client warn: not checked: from cp3: image etcd:v3 is not on cp1", "reach-peer warn: not checked: from cp3: image etcd:v3 is not on cp1",
			"disk warn: not checked: image etcd:v3 is not on cp1"}},
		"no image here alone": {func(g given) {
			g.visits[cp1] = visit{err: &cke.Error{Code: cke.CodeImage, What: "image etcd:v3 is not on cp1"}}
			for _, from := range []string{"10.0.0.12", "10.0.0.13"} {
				g.visits[from].Dialled[client], g.visits[from].Dialled[peer] = probe.Refused, probe.Refused
			}
		}, []string{"reach-client warn: not checked: nothing listens on 10.0.0.11:2379, and cp2, cp3 got that answer",
			"reach-peer warn: not checked: nothing listens on 10.0.0.11:2380, and cp2, cp3 got that answer", "disk warn: not checked: image etcd:v3 is not on cp1"}},
		"slow now and then": {func(g given) { g.visits[cp1].Sync.P99 = 0.03 }, []string{"disk warn: 99 of 100 small writes are synced within 30.0ms"}},
		"slow":              {func(g given) { g.visits[cp1].Sync.P99, g.visits[cp1].Sync.Median = 0.03, 0.02 }, []string{"disk fail: 99 of 100 small writes are synced within 30.0ms"}},
		"no directory": {func(g given) {
			g.c.Options.Etcd.VolumeRoot = "/mnt/etcd"
			v := g.visits[cp1]
			v.noDir = true
			g.visits[cp1] = v
		}, []string{"disk warn: not checked: /mnt/etcd is not there; cke makes it"}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, seen, keys, visits := lookedAt(t)
			own := members{cluster: cluster.Name}
			c.change(given{&cluster, &own, &seen.Nodes[0], keys, visits})
			said := map[string]string{}
			for _, check := range judge(cluster, own, seen, keys, visits) {
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

// Three nodes that refuse the login are three failed checks, each once; what follows from them is counted beside them.
func TestPreflight_ReportsACauseOnce(t *testing.T) {
	c, seen, keys, visits := lookedAt(t)
	for i := range seen.Nodes {
		st := &seen.Nodes[i]
		st.Problem = &cke.Problem{Code: cke.CodeSSHAuth, Message: st.Node.Name() + " refuses the key", Remedy: "put the key into authorized_keys"}
	}
	all := func(change func()) (string, string) {
		change()
		r := preflightResult{Checks: judge(c, members{cluster: c.Name}, seen, keys, visits)}
		for _, k := range r.Checks {
			if cause := k.Because; cause != "" && !slices.ContainsFunc(r.Checks, func(c check) bool { return c.Node+"/"+c.Check == cause && c.Because == "" }) {
				t.Errorf("%s/%s is because of %q, which is not there", k.Node, k.Check, cause)
			}
		}
		var short, wide strings.Builder
		if err := errors.Join(r.table(&short, false, false), r.table(&wide, false, true)); err != nil {
			t.Fatal(err)
		}
		return short.String(), wide.String()
	}
	short, wide := all(func() { clear(visits) })
	if strings.Count(short, "\n") != 7 || strings.Count(wide, "\n") != 31 {
		t.Errorf("rows:\n%s\n%s", short, wide)
	}
	contains(t, short, "cp1   ssh    fail    cp1 refuses the key; 8 more checks wait for this [CKE202]\n", "cp1, cp2, cp3: put the key into authorized_keys\n", "3 checks failed.\n")

	c, seen, keys, visits = lookedAt(t)
	short, _ = all(func() {
		seen.Nodes[0].Problem = &cke.Problem{Code: cke.CodeUnreachable, Message: "cp1 cannot be reached"}
		delete(visits, "10.0.0.11")
		for _, from := range []string{"10.0.0.12", "10.0.0.13"} {
			for _, address := range portsOf(c.Options.Etcd, c.Nodes[0]) {
				visits[from].Dialled[address] = "no route to host"
			}
			for _, n := range c.Nodes[1:] {
				for _, address := range portsOf(c.Options.Etcd, n) {
					delete(visits["10.0.0.11"].Dialled, address)
				}
			}
		}
	})
	contains(t, short, "cp1 cannot be reached; 12 more checks wait for this", "1 check failed.\n")
}

// A node that carries no member is not asked for what members need.
func TestJudge_AsksLittleOfANodeWithoutAMember(t *testing.T) {
	c, seen, keys, visits := lookedAt(t)
	seen.Nodes[0].Node.ControlPlane = false
	var names []string
	for _, check := range judge(c, members{cluster: c.Name}, seen, keys, visits) {
		if check.Node == "cp1" {
			names = append(names, check.Check)
		}
	}
	if got := strings.Join(names, " "); got != "ssh host-key engine clock" {
		t.Errorf("asked %s", got)
	}
}

// Before cke runs anywhere, a file and a key are enough; what cannot be reached is a row.
func TestPreflight_NeedsNoStoreForAFileAndAKey(t *testing.T) {
	h := newHouse(t)
	file := h.write("c.yml", "name: prod\nnodes:\n  - {address: 127.0.0.1, hostname: cp1, user: cke, control_plane: true, ssh: {port: 1}}\n")
	stdout, _ := h.run(exitFailed, "preflight", file) // of a cluster that nobody has declared
	contains(t, stdout, "cp1   ssh           fail    there is no SSH key to log in to cp1 with; 6 more checks wait for this [CKE214]\n")
	h.embedded.Close()
	_, stderr := h.run(exitStore, "preflight", file)
	contains(t, stderr, "error[CKE102]: ")
	stdout, stderr = h.run(exitFailed, "preflight", file, "--ssh-key", h.write("key", "no key"))
	contains(t, stderr, "The store does not answer: host keys that it knows are not compared.\n")
	contains(t, stdout, "NODE  CHECK         RESULT  DETAIL\n", "cp1   ssh           fail    ", "1 check failed.\n")
	stdout, _ = h.run(exitFailed, "preflight", file, "--ssh-key", h.dir+"/key", "-o", "wide")
	contains(t, stdout, "cp1   disk          warn    not checked: ")
	stdout, _ = h.run(exitFailed, "preflight", file, "--ssh-key", h.dir+"/key", "-o", "json")
	contains(t, stdout, `"passed": false`, `"check": "ssh"`, `"result": "fail"`)
	h.run(exitFailed, "preflight", h.dir+"/none.yml")
}
