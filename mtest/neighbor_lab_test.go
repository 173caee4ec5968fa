package mtest_test

import (
	"strings"
	"testing"

	"cke"
	"cke/mtest/rig"
)

// TestLabMatrix_NeighborKeepsItsPortsWhileItIsDown lets a second cluster bootstrap, grow and change its ports on nodes that carry
// members of a hibernated one: ports of a neighbor are taken although nothing listens on them.
func TestLabMatrix_NeighborKeepsItsPortsWhileItIsDown(t *testing.T) {
	rare(t)
	s := newStory(t, 3)
	s.daemon("cke1")
	s.setKey()
	free, shared := s.nodes[0], s.nodes[1:]
	file := s.spec()
	file.Nodes = file.Nodes[1:]
	s.set(file)
	before := s.ready()
	s.do("cluster", "hibernate", s.Cluster, "--confirm", s.Cluster)
	carried := s.carriedBy(shared)

	host := *s.Rig
	host.Cluster = "twin"
	twin := *s
	twin.Rig = &host
	file = twin.spec()
	own := func() *cke.EtcdOptions { return &file.Options.Etcd }
	ports := func(client, peer int) { own().ClientPort, own().PeerPort = client, peer }
	// refused waits until the twin reports who has the ports of a shared node, and checks that nothing there changed.
	refused := func(s *story, carried map[string]string) {
		s.Helper()
		p := s.awaitProblem(shared[0].Name, cke.CodePortTaken)
		if !strings.Contains(p.Message, "cluster "+before.Cluster) {
			s.Errorf("the owner is not named: %s", p.Message)
		}
		for range 3 {
			s.nudge()
		}
		for _, n := range shared {
			if has := s.carried(n); has != carried[n.Name] {
				s.Errorf("%s carried\n%s\nand carries\n%s", n.Name, carried[n.Name], has)
			}
		}
	}

	twin.part("at a bootstrap", func(s *story) {
		s.set(file)
		refused(s, carried)
		if st := s.now(); st.Incarnation != "" || len(s.records()) > 0 {
			s.Errorf("something has begun: incarnation %q, %+v", st.Incarnation, s.records())
		}
		if has := s.carried(free); has != "" {
			s.Errorf("%s carries\n%s", free.Name, has)
		}
	})
	twin.part("at an addition", func(s *story) {
		file.Nodes = twin.spec().Nodes[:1]
		s.set(file)
		s.ready()
		file.Nodes = twin.spec().Nodes[:2]
		s.set(file)
		refused(s, carried)
	})
	twin.part("at a change of ports", func(s *story) {
		ports(3379, 3380)
		file.Nodes = twin.spec().Nodes[:1]
		path, err := s.WriteSpec(file)
		s.must(err)
		s.do("cluster", "set", "--yes", path)
		s.ready()
		file.Nodes = twin.spec().Nodes
		s.set(file)
		s.await("all three members", readyLimit, func(st cke.Status) bool { return rig.Ready(st) && st.Ready == 3 })
		newest, serving := s.records()[0].ID, s.carriedBy(shared)
		ports(cke.DefaultClientPort, cke.DefaultPeerPort)
		path, err = s.WriteSpec(file)
		s.must(err)
		s.do("cluster", "set", "--no-wait", "--yes", path)
		s.awaitProblem(shared[0].Name, cke.CodePortTaken)
		refused(s, serving)
		for _, r := range s.records() {
			if r.ID > newest && r.Operation == "change-address" && r.Targets[0] != free.Name {
				s.Errorf("a member was moved to ports that are taken: %+v", r)
			}
		}
	})
	s.part("the neighbor runs again", func(s *story) {
		s.do("cluster", "resume", s.Cluster)
		if st := s.ready(); st.ClusterID != before.ClusterID || st.Incarnation != before.Incarnation {
			s.Errorf("another cluster: %+v", st)
		}
	})
}
