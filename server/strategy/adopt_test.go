package strategy_test

import (
	"strings"
	"testing"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// handURL is where the member that the operator runs on n4 reaches its peers.
const handURL = "https://10.0.0.4:2390"

// byHand is a cluster of three on four declared nodes; on the fourth the operator runs a member.
func byHand() *scene {
	s := formed(4).running().unjoined(4)
	m := cke.Member{ID: "s1", Name: "hand", PeerURLs: []string{handURL}, ClientURLs: []string{"https://10.0.0.4:2379"}}
	s.Seen.Etcd.Members = append(s.Seen.Etcd.Members, m)
	s.Seen.Etcd.Endpoints = append(s.Seen.Etcd.Endpoints, cke.EndpointStatus{URL: m.ClientURLs[0], Serializable: true, Linearizable: true, ClusterID: "c1", MemberID: "s1", LeaderID: "m1",
		Version: "3.6.16", RaftIndex: 5000, RaftApplied: 5000})
	n := s.node(4)
	n.Volumes, n.ClientPort, n.PeerPort = nil, cke.PortOpen, cke.PortClosed
	n.Containers = []cke.Container{{ID: "c0ffee", Name: "hand", Image: "etcd:3.6.16", State: cke.ContainerRunning, PeerURLs: []string{handURL}, Mounts: []string{"/srv/hand"}}}
	return s
}

// adopting asks for it, as ckecli saw it.
func (s *scene) adopting(container string) *scene {
	m := cke.Member{ID: "s1", Name: "hand", PeerURLs: []string{handURL}}
	s.Requests.Tasks = append(s.Requests.Tasks, cke.Task{ID: "t1", Kind: cke.TaskAdopt, Node: "n4", Subject: "s1", Adopt: &cke.Adoption{Member: m, Container: container}, By: "ann@boot-1", At: noon})
	return s
}

// handGone lets the person's member have left the list; down: its container is stopped for good.
func (s *scene) handGone(down bool) *scene {
	list := &s.Seen.Etcd.Members
	*list = (*list)[:len(*list)-1]
	s.Seen.Etcd.Endpoints = s.Seen.Etcd.Endpoints[:len(s.Seen.Etcd.Endpoints)-1]
	n := s.node(4)
	n.ClientPort = cke.PortClosed
	n.Containers[0].State, n.Containers[0].KeptDown = cke.ContainerRestarting, down
	if down {
		n.Containers[0].State = cke.ContainerExited
	}
	return s
}

func (s *scene) handDead() *scene {
	e := &s.Seen.Etcd.Endpoints[len(s.Seen.Etcd.Endpoints)-1]
	*e = cke.EndpointStatus{URL: e.URL, Problem: "connection refused"}
	s.node(4).ClientPort, s.node(4).Containers[0].State = cke.PortClosed, cke.ContainerExited
	return s
}

// adopts is the decision to take the person's member away, with what carries it.
func adopts(container string) func(strategy.Decision) bool {
	return func(d strategy.Decision) bool {
		o, is := d.Operation.(op.AdoptMember)
		return is && d.Part && d.Task == "t1" && o.Container == container && o.Member.ID == "s1" && o.Node.Name() == "n4"
	}
}

// Requirements A6, I15: a stranger on a declared node gives its place to a member of cke's, as the gate allows; its
// container is stopped only where it is known, and no other one is.
func TestDecide_AdoptsAStrangerByReplacingIt(t *testing.T) {
	on := func(change func(n *cke.NodeStatus)) *scene {
		return byHand().with(func(s *scene) { change(s.node(4)) }).adopting("c0ffee")
	}
	two := cke.Container{ID: "beef", Name: "two", State: cke.ContainerRunning, PeerURLs: []string{handURL}}
	other := cke.Container{ID: "beef", Name: "theirs", Image: "etcd:3.5.9", State: cke.ContainerRunning, PeerURLs: []string{"https://10.0.0.4:9999"}}
	checkAsked(t, []askedRow{
		{"one that serves", byHand().adopting("c0ffee"), adopts("c0ffee")},
		{"whatever the policies say", byHand().adopting("c0ffee").with(func(s *scene) {
			s.Spec.Policies.Foreign, s.Spec.Policies.Reconcile = cke.ForeignHold, cke.ReconcileManual
		}), adopts("c0ffee")},
		{"a dead one", byHand().handDead().adopting("c0ffee"), adopts("c0ffee")},
		{"a dead one that ran in no container", byHand().handDead().with(func(s *scene) { s.node(4).Containers = nil }).adopting(""), adopts("")},
		{"one that serves, while one of ours is dead", byHand().silent(3).adopting("c0ffee"), refusal(cke.CodeQuorum, "adopting the member of n4 would lose quorum; 3 of 4 voters are healthy")},
		{"a dead one, while one of ours is, too", byHand().handDead().silent(3).adopting("c0ffee"), adopts("c0ffee")},
		{"while another node is drained", byHand().drained(2).adopting("c0ffee"), refusal(cke.CodeQuorum, "n2 is drained")},
		{"on a drained node", byHand().adopting("c0ffee").with(func(s *scene) {
			s.Requests.Drains = []cke.Drain{{Node: "n4", Until: noon.Add(1e12)}}
		}), refusal(cke.CodeDrain, "n4 is drained")},
		{"on a node that is no control-plane node", byHand().adopting("c0ffee").undeclared(4), refusal(cke.CodeCannot, "n4 is not a control-plane node")},
		{"on a silent node", on(func(n *cke.NodeStatus) { n.Problem = &cke.Problem{Message: "no answer"} }), refusal(cke.CodeCannot, "n4 does not answer")},
		{"one of ours", byHand().asked(cke.TaskAdopt, "n3", "m3").with(func(s *scene) {
			s.Requests.Tasks[0].Adopt = &cke.Adoption{Member: cke.Member{ID: "m3"}}
		}), refusal(cke.CodeCannot, "member n3 of n3 is not a foreign member: it is on record")},
		{"nobody knows which", byHand().asked(cke.TaskAdopt, "n4", ""), refusal(cke.CodeCannot, "does not name the member to adopt")},
		{"one that leads and does not answer", byHand().handDead().adopting("c0ffee").with(func(s *scene) { s.endpoint(2).LeaderID = "s1" }), refusal(cke.CodeCannot, "cannot move its leadership away")},
		{"in a container that was made since", on(func(n *cke.NodeStatus) { n.Containers[0].ID = "beef" }), refusal(cke.CodeCannot, "not in what ran it when this was requested")},
		{"in one of two containers", on(func(n *cke.NodeStatus) { n.Containers = append(n.Containers, two) }), refusal(cke.CodeCannot, "containers hand and two on n4 all name https://10.0.0.4:2390")},
		{"one of the two does not run", on(func(n *cke.NodeStatus) {
			n.Containers = append(n.Containers, cke.Container{ID: "beef", Name: "two", State: cke.ContainerExited, KeptDown: true, PeerURLs: []string{handURL}})
		}), adopts("c0ffee")},
		{"in no container that is known", on(func(n *cke.NodeStatus) { n.Containers = nil }), refusal(cke.CodeCannot, "on 10.0.0.4: ss -ltnp sport = :2390 shows the process; stop it there")},
		{"it serves, and what would carry it does not run", on(func(n *cke.NodeStatus) { n.Containers[0].State = cke.ContainerExited }), refusal(cke.CodeCannot, "cke cannot determine what runs it")},
		{"in a container that would vanish", on(func(n *cke.NodeStatus) { n.Containers[0].AutoRemove = true }), refusal(cke.CodeCannot, "was started with --rm")},
		{"beside somebody else's etcd", on(func(n *cke.NodeStatus) { n.Containers = append(n.Containers, other) }), refusal(cke.CodeCannot, "n4 cannot take a new member; container theirs (etcd:3.5.9, running) was not made by cke")},
		{"beside one that is down for good", on(func(n *cke.NodeStatus) {
			other := other
			other.State, other.KeptDown = cke.ContainerExited, true
			n.Containers = append(n.Containers, other)
		}), adopts("c0ffee")},
		{"where our ports are taken by something else", on(func(n *cke.NodeStatus) { n.PeerPort = cke.PortOpen }), refusal(cke.CodeCannot, "something listens on port 2380")},
		{"two of them on one node", byHand().adopting("c0ffee").with(func(s *scene) {
			s.Seen.Etcd.Members = append(s.Seen.Etcd.Members, cke.Member{ID: "s2", Name: "hand2", PeerURLs: []string{"https://10.0.0.4:2391"}})
		}), refusal(cke.CodeCannot, "hand and hand2; remove all but one")},

		{"removed, and its engine starts it again and again", byHand().handGone(false).adopting("c0ffee"), adopts("c0ffee")},
		{"removed and stopped, and its engine would start it after a reboot", byHand().handGone(true).adopting("c0ffee").with(func(s *scene) { s.node(4).Containers[0].KeptDown = false }), adopts("c0ffee")},
		{"removed, and its node is silent", byHand().handGone(false).adopting("c0ffee").with(func(s *scene) { s.node(4).Problem = &cke.Problem{Node: "n4", Message: "no answer"} }), notFor("")},
		{"removed and down: the node gets a member", byHand().handGone(true).adopting("c0ffee"), does("add-member", true)},
		{"removed, its container gone", byHand().handGone(true).adopting("c0ffee").with(func(s *scene) { s.node(4).Containers = nil }), does("add-member", true)},
		{"removed, and another container has its peer URL: it is let alone", byHand().handGone(false).adopting("c0ffee").with(func(s *scene) { s.node(4).Containers[0].ID = "beef" }), notFor("n4 cannot take a member: n4: container hand")},
		{"removed, and the node is declared no more", byHand().handGone(false).adopting("c0ffee").undeclared(4), does("adopt", false)},
		{"the fresh member catches up", formed(4).running().learner(4, true).adopting("c0ffee"), does("promote-member", false)},
		{"done", formed(4).running().adopting("c0ffee"), does("adopt", false)},
	})
}

// Requirement A6: beside a member that it does not know cke adds none. With its peer URL it would be taken for it, and
// be started under its id without its data.
func TestDecide_AddsNoMemberWhereAStrangerStands(t *testing.T) {
	gone := func(s *scene) { s.node(4).Containers = nil }
	add := op.AddMember{Node: spec(4).Nodes[3], Etcd: formed(4).Spec.Options.Etcd}
	check(t, []row{
		{"it serves", byHand(), nil, "n4 cannot take a member: n4: foreign member hand is on this node", []string{"CKE307 n4", "CKE209 n4", "CKE208 n4"}},
		{"nothing of it is on the node", byHand().handDead().with(gone), nil, "n4 cannot take a member: n4: foreign member hand is on this node", []string{"CKE307 n4"}},
		{"it has left the list, and could come back", byHand().handGone(true).with(func(s *scene) { s.node(4).Containers[0].KeptDown = false }), nil, "and its engine may start it again", []string{"CKE209 n4"}},
		{"it has left the list, and is down for good", byHand().handGone(true), add, "n4 is a control-plane node and carries no member", nil},
	})
}

// Requirement A6.
func TestReport_SaysHowAStrangerIsAdopted(t *testing.T) {
	s := byHand().report()
	for _, p := range s.Problems {
		if p.Code == cke.CodeStranger && strings.Contains(p.Remedy, "ckecli etcd adopt n4") {
			return
		}
	}
	t.Errorf("%+v", s.Problems)
}
