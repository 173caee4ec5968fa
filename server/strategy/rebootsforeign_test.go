package strategy_test

import (
	"testing"
	"time"

	"cke"
)

// foreignAs lets that voter be known to the others by another host than the address of its node.
func (s *scene) foreignAs(i int, host string) *scene {
	s.foreign(i)
	m := &s.Seen.Etcd.Members[len(s.Seen.Etcd.Members)-1]
	m.PeerURLs = []string{"https://" + host + ":2380"}
	return s
}

// carries lets the engine of a node run a container for a member that cke did not add, or show one that exited.
func (s *scene) carries(i int, host string, state cke.ContainerState) *scene {
	n := s.node(i)
	n.Containers = append(n.Containers, cke.Container{Name: "etcd", State: state, PeerURLs: []string{"https://" + host + ":2380"}})
	return s
}

// A foreign voter that is known by a host name, or by another address of its machine, may be on any node without a member: none of them goes
// down, unless the voter is seen on another one.
func TestReboots_AForeignVoterThatMayBeOnANode(t *testing.T) {
	checkReboots(t, []rebootRow{
		{"a host name", rebootable(3, 4).queued(4).foreignAs(4, "n4.example.com"), "", "foreign member theirs may be on it"},
		{"another address of the machine", rebootable(3, 4).queued(4).foreignAs(4, "10.9.0.4"), "", "foreign member theirs may be on it"},
		{"and the address of the node for clients", rebootable(3, 4).queued(4).foreignAs(4, "10.9.0.4").with(func(s *scene) {
			s.Seen.Etcd.Members[3].ClientURLs = []string{"https://10.0.0.4:2379"}
		}), "", "foreign member theirs is on it"},
		{"and its container runs on the node", rebootable(3, 4).queued(4).foreignAs(4, "n4.example.com").carries(4, "n4.example.com", cke.ContainerRunning), "", "foreign member theirs is on it"},
		{"or on another one", rebootable(3, 5).queued(4, 5).foreignAs(4, "n4.example.com").carries(4, "n4.example.com", cke.ContainerRunning), "drain n5", ""},
		{"or on another one, where it does not run", rebootable(3, 5).queued(5).foreignAs(4, "n4.example.com").carries(4, "n4.example.com", cke.ContainerExited), "", "foreign member theirs may be on it"},
		{"a learner has no vote", rebootable(3, 4).queued(4).foreignAs(4, "n4.example.com").with(func(s *scene) { s.Seen.Etcd.Members[3].Learner = true }), "drain n4", ""},
		{"it keeps no node with a member waiting", rebootable(3, 4).queued(2, 4).foreignAs(4, "10.9.0.4").with(func(s *scene) {
			one := s.endpoint(1)
			s.Seen.Etcd.Endpoints = append(s.Seen.Etcd.Endpoints, cke.EndpointStatus{MemberID: "f00", ClusterID: one.ClusterID, LeaderID: one.LeaderID, Serializable: true, Linearizable: true, RaftIndex: 100, RaftApplied: 100, Revision: one.Revision})
		}), "drain n2", ""},
		{"the node is leased already", rebootable(3, 4).in(4, cke.EntryLeased, time.Second).foreignAs(4, "n4.example.com"), "note n4 queued, released", "foreign member theirs may be on it"},
	})
}
