package sim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"cke"
	"cke/cketest"
	"cke/sim"
)

// The simulated node keeps every sentence of the port, as a real one does: see etcdnode.
func TestMachine_KeepsThePortsSentences(t *testing.T) {
	cketest.Machine(t, func(t *testing.T, scene func(*testing.T, cketest.Node)) {
		synctest.Test(t, func(t *testing.T) {
			w := sim.New(clusterName, time.Now)
			node := w.AddNode("n1", "10.0.0.1").Declared()
			c := cke.Cluster{Name: clusterName, Nodes: []cke.Node{node}}.WithDefaults()
			w.Store().SetSpec(c)
			d := w.NewDaemon()
			m := d.Machines().Machine(node)
			if err := m.EnsureImage(t.Context(), c.Options.Etcd.Image, nil); err != nil {
				t.Fatal(err)
			}
			scene(t, cketest.Node{
				Machine: m, NoImage: "example/etcd:none",
				Member: func() (cke.MemberSpec, []cke.File) {
					inc := cke.NewIncarnation(c, nil, time.Now())
					j := inc.Founders[0]
					if err := d.Term().CreateIncarnation(context.Background(), inc); err != nil { // so that its life may be removed
						t.Fatal(err)
					}
					return cke.MemberSpec{Cluster: clusterName, Join: j, Mode: cke.StartPrepared, Token: inc.Token, Peers: []cke.Peer{{Name: j.Member, URL: j.PeerURL()}}},
						sim.CertificatesOf(time.Now())
				},
				Serves: func(j cke.Join) bool { return d.Etcd().Endpoint(t.Context(), j.ClientURL()).Linearizable },
				Over: func() []string {
					d.Observer().Update(c, cke.Identity{})
					return d.Observer().Observe(t.Context()).Nodes[0].Over
				},
				Rename:    w.Node("n1").Rename,
				AddVolume: func(name string) { w.Node("n1").AddVolume(cke.Volume{Name: name}) },
				Snapshot: func() (cke.Snapshot, []byte) {
					content, _ := json.Marshal([]string{"one", "two"})
					return cke.Snapshot{Revision: 2, Size: int64(len(content)), Digest: "digest"}, content
				},
			})
		})
	})
}

// The simulated term keeps every sentence of the port, as a real one does: see storage.
func TestTerm_KeepsThePortsSentences(t *testing.T) {
	cketest.Ledger(t, func(t *testing.T, scene func(*testing.T, cketest.Store)) {
		synctest.Test(t, func(t *testing.T) {
			w := sim.New(clusterName, time.Now)
			c := cke.Cluster{Name: clusterName}
			for _, name := range []string{"n1", "n2", "n3"} {
				c.Nodes = append(c.Nodes, w.AddNode(name, "10.0.0."+name[1:]).Declared())
			}
			w.Store().SetSpec(c)
			d := w.NewDaemon()
			scene(t, cketest.Store{
				Ledger: d.Term(), Cluster: c.WithDefaults(),
				Ask: func(task cke.Task) {
					w.Store().Ask(string(task.Kind), func(r *cke.Requests) { r.Tasks = append(r.Tasks, task) })
				},
				AskDelete: w.Store().RequestDelete, CancelDelete: w.Store().CancelDelete,
				Hibernate: w.Store().Hibernate, Older: w.Store().LetOlderLead,
				Depose: func() { w.NewDaemon() },
			})
		})
	})
}

// The simulated members keep every sentence of the port, as real ones do: see etcdnode.
func TestEtcd_KeepsThePortsSentences(t *testing.T) {
	cketest.Etcd(t, func(t *testing.T, scene func(*testing.T, cketest.Members)) {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, 3)
			s.daemon()
			s.must("formed", s.settled)
			s.stop()
			s.Unschedule() // every call is made at once from here on
			d := s.NewDaemon()
			m := cketest.Members{Etcd: d.Etcd(), NoMember: "https://10.0.0.9:2379", Free: fmt.Sprintf("https://%s:12380", s.Store().Identity().Joins[0].Node.Address)}
			m.Joins = s.Store().Identity().Joins
			for _, j := range m.Joins {
				m.URLs = append(m.URLs, j.ClientURL())
			}
			m.Observe = func(id cke.Identity) cke.EtcdStatus {
				d.Observer().Update(s.Store().Spec().Cluster, id)
				return d.Observer().Observe(t.Context()).Etcd
			}
			s.MembersSettle()
			m.Restart = func(url string) {
				for _, j := range s.Store().Identity().Joins {
					if j.ClientURL() == url {
						s.Node(j.Node.Name()).StopByHand()
						s.Node(j.Node.Name()).StartByHand()
					}
				}
			}
			m.Join = func(t *testing.T) string {
				id := s.Store().Identity()
				j := id.Joins[0]
				other := cke.NewJoin(s.Store().Spec().Cluster.WithDefaults(), j.Node, id.Incarnation.ID)
				other.Member, other.ClientPort, other.PeerPort = "learner", 12379, 12380
				other.Etcd.ClientPort, other.Etcd.PeerPort = 12379, 12380
				spec := cke.MemberSpec{Cluster: clusterName, Join: other, Mode: cke.StartJoin, Token: id.Incarnation.Token}
				for _, f := range append(slices.Clone(id.Joins), other) {
					spec.Peers = append(spec.Peers, cke.Peer{Name: f.Member, URL: f.PeerURL()})
				}
				machine := d.Machines().Machine(j.Node)
				for _, err := range []error{
					machine.EnsureVolume(t.Context(), spec), machine.EnsureContainer(t.Context(), spec),
					machine.PutFiles(t.Context(), other, sim.CertificatesOf(time.Now())), machine.StartContainer(t.Context(), other),
				} {
					if err != nil {
						t.Fatal(err)
					}
				}
				return other.ClientURL()
			}
			m.Cut = func(url, other string, off bool) {
				if !off {
					s.HealNetwork()
					return
				}
				var nodes []string
				for _, j := range s.Store().Identity().Joins {
					if j.ClientURL() == url || j.ClientURL() == other {
						nodes = append(nodes, j.Node.Name())
					}
				}
				s.Cut(nodes[0], nodes[1])
				s.Cut(nodes[1], nodes[0])
			}
			written := 0
			m.Write = func(n int) {
				for range n {
					written++
					if !s.Write("n1", fmt.Sprint("key ", written)) {
						t.Fatal("not written")
					}
				}
			}
			scene(t, m)
		})
	})
}
