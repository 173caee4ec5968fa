package etcdnode_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/docker/docker/api/types/volume"

	"cke"
	"cke/cketest"
	"cke/etcdnode"
	"cke/mtest/lab"
)

// A real node and its engine keep every sentence of the port, as the simulated one does: see sim.
func TestMachine_KeepsThePortsSentences(t *testing.T) {
	r := newRig(t, 1, nil)
	node := r.cluster.Nodes[0]
	m := r.Machine(node)
	ensureImage(t, m, testImage)
	was := r.bootstrap(t)
	r.write(t, was.Founders[0])
	must(t, m.StopContainer(t.Context(), was.Founders[0], 10*time.Second))
	file, snapshot := r.save(t, was.Founders[0])
	content, err := os.ReadFile(file)
	must(t, err)
	must(t, m.RemoveContainer(t.Context(), was.Founders[0]))
	cketest.Machine(t, func(t *testing.T, scene func(*testing.T, cketest.Node)) {
		scene(t, cketest.Node{
			Machine: m, NoImage: "example/etcd:none",
			Member: func() (cke.MemberSpec, []cke.File) {
				inc := r.found()
				return r.spec(inc, inc.Founders[0], cke.StartPrepared), r.ca.MemberFiles(node.Address, time.Now().Add(time.Hour))
			},
			Serves: func(j cke.Join) bool { return r.Endpoint(t.Context(), j.ClientURL()).Linearizable },
			Over:   func() []string { return r.Observe(t.Context()).Nodes[0].Over },
			Rename: func(from, to string) {
				must(t, etcdnode.EngineOf(t, r.Fleet, node).ContainerRename(t.Context(), from, to))
			},
			AddVolume: func(name string) {
				_, err := etcdnode.EngineOf(t, r.Fleet, node).VolumeCreate(t.Context(), volume.CreateOptions{Name: name})
				must(t, err)
			},
			Snapshot: func() (cke.Snapshot, []byte) { return snapshot, content },
		})
	})
}

// Real members keep every sentence of the port, as the simulated ones do: see sim.
func TestEtcd_KeepsThePortsSentences(t *testing.T) {
	r := newRig(t, 3, nil)
	inc := r.bootstrap(t)
	m := cketest.Members{Etcd: r.Fleet, NoMember: "https://127.0.0.1:9", Free: fmt.Sprintf("https://%s:12380", inc.Founders[0].Node.Address)}
	m.Joins = r.ident.Joins
	for _, j := range inc.Founders {
		m.URLs = append(m.URLs, j.ClientURL())
	}
	m.Observe = func(id cke.Identity) cke.EtcdStatus {
		defer r.update()
		r.Update(r.cluster, id)
		return r.Fleet.Observe(t.Context()).Etcd
	}
	m.Restart = func(url string) {
		for _, j := range inc.Founders {
			if j.ClientURL() == url {
				must(t, r.Machine(j.Node).StopContainer(t.Context(), j, 10*time.Second))
				must(t, r.Machine(j.Node).StartContainer(t.Context(), j))
			}
		}
	}
	m.Join = func(t *testing.T) string {
		j := inc.Founders[0]
		other := cke.NewJoin(r.cluster, j.Node, inc.ID)
		other.Member, other.ClientPort, other.PeerPort = "learner", 12379, 12380
		other.Etcd.ClientPort, other.Etcd.PeerPort = 12379, 12380
		spec := r.spec(inc, other, cke.StartJoin)
		spec.Peers = append(spec.Peers, cke.Peer{Name: other.Member, URL: other.PeerURL()})
		machine := r.Machine(j.Node)
		must(t, machine.EnsureVolume(t.Context(), spec))
		must(t, machine.EnsureContainer(t.Context(), spec))
		must(t, machine.PutFiles(t.Context(), other, r.ca.MemberFiles(j.Node.Address, time.Now().Add(time.Hour))))
		must(t, machine.StartContainer(t.Context(), other))
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			must(t, machine.StopContainer(ctx, other, 10*time.Second))
			must(t, machine.RemoveContainer(ctx, other))
			must(t, machine.RemoveVolume(ctx, other))
		})
		return other.ClientURL()
	}
	node := func(url string) string {
		for _, j := range inc.Founders {
			if j.ClientURL() == url {
				return j.Node.Name()
			}
		}
		return ""
	}
	m.Cut = func(url, other string, off bool) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if !off {
			must(t, r.lab.Heal(ctx, node(url)))
			return
		}
		must(t, r.lab.Cut(ctx, node(url), lab.Cut{From: node(other)}))
	}
	c, written := r.kv(t, inc.Founders[0]), 0
	m.Write = func(n int) {
		for range n {
			written++
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			_, err := c.Put(ctx, fmt.Sprint("key ", written), "value")
			cancel()
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	cketest.Etcd(t, func(t *testing.T, scene func(*testing.T, cketest.Members)) { scene(t, m) })
}
