package fleet_test

import (
	"context"
	"crypto/tls"
	"sync"
	"testing"
	"time"

	"cke"
	"cke/cketest"
	"cke/etcdnode"
	"cke/mtest/fleet"
	"cke/pki"
)

// secrets keeps a cluster's keys in memory.
type secrets struct {
	mu     sync.Mutex
	values map[string][]byte
}

func (s *secrets) Secret(_ context.Context, name string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, there := s.values[name]; there {
		return v, nil
	}
	return nil, cke.ErrNotFound
}

func (s *secrets) CreateSecret(_ context.Context, name string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.values[name]; there {
		return cke.ErrConflict
	}
	s.values[name] = value
	return nil
}

// A node of a fleet keeps every sentence of the port, as a real one does: see etcdnode.
func TestMachine_KeepsThePortsSentences(t *testing.T) {
	nodes, err := fleet.New(1)
	if err != nil {
		t.Fatal(err)
	}
	defer nodes.Close()
	node := nodes.Nodes[0]
	c := cke.Cluster{Name: "demo", Nodes: []cke.Node{node.Declared()}}.WithDefaults()
	authority := pki.New(&secrets{values: map[string][]byte{}}, c.Name, time.Now)
	if err := authority.Ensure(t.Context(), cke.Authorities{}); err != nil {
		t.Fatal(err)
	}
	access := etcdnode.New(etcdnode.Config{
		Keys:      func(context.Context, cke.Node) ([]byte, error) { return nodes.KeyPEM, nil },
		ClientTLS: func(ctx context.Context) (*tls.Config, error) { return authority.ClientTLS(ctx, cke.Authorities{}) },
		Program:   func() ([]byte, error) { return []byte("a program"), nil },
	})
	defer access.Close()
	var identity cke.Identity
	cketest.Machine(t, func(t *testing.T, scene func(*testing.T, cketest.Node)) {
		scene(t, cketest.Node{
			Machine: access.Machine(c.Nodes[0]), NoImage: "example/etcd:none",
			Member: func() (cke.MemberSpec, []cke.File) {
				inc := cke.NewIncarnation(c, nil, time.Now())
				identity = cke.Identity{Incarnation: &inc, Joins: inc.Founders}
				access.Update(c, identity)
				j := inc.Founders[0]
				files, err := authority.MemberFiles(t.Context(), j, cke.Authorities{})
				if err != nil {
					t.Fatal(err)
				}
				return cke.MemberSpec{Cluster: c.Name, Join: j, Mode: cke.StartPrepared, Token: inc.Token, Peers: []cke.Peer{{Name: j.Member, URL: j.PeerURL()}}}, files
			},
			Serves: func(j cke.Join) bool { return access.Endpoint(t.Context(), j.ClientURL()).Linearizable },
			Over: func() []string {
				access.Update(c, identity)
				return access.Observe(t.Context()).Nodes[0].Over
			},
			Rename: func(from, to string) {
				if err := node.Rename(from, to); err != nil {
					t.Error(err)
				}
			},
			AddVolume: node.AddVolume,
		})
	})
}
