package strategy_test

import (
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// readdressed declares the ith node with another address, at which what was seen of it is seen, or something else.
func (s *scene) readdressed(i int, seen func(old cke.NodeStatus) cke.NodeStatus) *scene {
	n := &s.Spec.Nodes[i-1]
	old := *s.node(i)
	old.Problem = &cke.Problem{Code: cke.CodeUnreachable, Node: n.Name(), Message: "no answer"}
	s.quiet(i)
	n.Address = "10.0.1." + n.Address[len("10.0.0."):]
	now := seen(*s.node(i))
	now.Node = *n
	s.Seen.Nodes[i-1] = now
	s.Seen.Nodes = append(s.Seen.Nodes, old)
	return s
}

func sameMachine(old cke.NodeStatus) cke.NodeStatus { return old }

func otherMachine(old cke.NodeStatus) cke.NodeStatus {
	old.Containers, old.Volumes, old.ClientPort, old.PeerPort = nil, nil, cke.PortClosed, cke.PortClosed
	return old
}

func silentMachine(old cke.NodeStatus) cke.NodeStatus {
	old.Problem = &cke.Problem{Code: cke.CodeUnreachable, Node: old.Node.Name(), Message: "no answer"}
	return old
}

// A node of the same name at another address is the same machine if the very volume of its member is on it, and another
// one if it answers without; silence says neither.
func TestDecide_TellsAMachineThatMovedFromANewOne(t *testing.T) {
	f := formed(3).running()
	same := formed(3).running().readdressed(3, sameMachine)
	other := formed(3).running().readdressed(3, otherMachine)
	renamed := formed(3).running().readdressed(3, sameMachine).with(func(s *scene) { s.Spec.Nodes[2].Hostname = "n9" })
	both := formed(3).running().readdressed(3, sameMachine).with(func(s *scene) {
		s.Spec.Nodes = append(s.Spec.Nodes, cke.Node{Hostname: "spare", Address: "10.0.0.3"})
	})
	j := f.join(3)
	gone := op.RemoveMember{Member: f.Seen.Etcd.Members[2], Join: &j, Silent: true}
	check(t, []row{
		{"the volume is there", same, op.ChangeAddress{Join: f.join(3), Node: same.Spec.Nodes[2], ClientPort: 2379, PeerPort: 2380}, "n3 is declared with address 10.0.1.3 instead of 10.0.0.3; its data is there", nil},
		{"it is not", other, gone, "n3 is no longer a control-plane node", nil},
		{"silence", formed(3).running().readdressed(3, silentMachine), nil, "waiting for n3", []string{"CKE201 n3"}},
		{"under another name it is a new node", renamed, gone, "n3 is no longer a control-plane node", nil},
		{"the old address is declared for another node", both, gone, "n3 is no longer a control-plane node", nil},
		{"also while another one is away", formed(5).running().readdressed(3, sameMachine).silent(5), op.ChangeAddress{Join: formed(5).join(3), Node: same.Spec.Nodes[2], ClientPort: 2379, PeerPort: 2380}, "its data is there", nil},
	})
	if m := same.report().Members; len(m) != 3 || m[2].Join != f.join(3).ID || m[2].State != "unreachable" {
		t.Errorf("%+v", m)
	}
	if d := strategy.Decide(formed(3).running().readdressed(3, sameMachine).silent(2).lost().Input); d.Operation != nil {
		t.Errorf("without a quorum: %+v", d)
	}
}

// alone is a cluster of one member that is to give its place to another one, and whose move to other ports was cut off.
func alone() *scene {
	return formed(2).running().unjoined(2).undeclared(1).with(func(s *scene) { s.Seen.Etcd.Members[0].PeerURLs = []string{"https://10.0.0.1:3380"} })
}

// misplacedOfTwo is a cluster of two voters; three are declared, of which two do not answer. The second voter is to go, and its move to other
// ports was cut off.
func misplacedOfTwo() *scene {
	return formed(4).running().unjoined(4).unjoined(3).undeclared(2).with(func(s *scene) {
		s.Seen.Etcd.Members[1].PeerURLs = []string{"https://10.0.0.2:3380"}
		for _, i := range []int{3, 4} {
			s.node(i).Problem = &cke.Problem{Code: cke.CodeUnreachable, Node: s.node(i).Node.Name(), Message: "no answer"}
		}
	})
}

func joinOf(i int) *cke.Join {
	j := formed(3).running().join(i)
	return &j
}

func TestDecide_MovesMembersToOtherPortsOneByOne(t *testing.T) {
	ports := func(s *scene) { s.Spec.Options.Etcd.ClientPort, s.Spec.Options.Etcd.PeerPort = 3379, 3380 }
	move := func(i int) op.ChangeAddress {
		f := formed(3).running()
		return op.ChangeAddress{Join: f.join(i), Node: f.Spec.Nodes[i-1], ClientPort: 3379, PeerPort: 3380}
	}
	done := func(nodes ...int) func(*scene) {
		return func(s *scene) {
			ports(s)
			for _, i := range nodes {
				s.Identity.Joins[i-1].ClientPort, s.Identity.Joins[i-1].PeerPort = 3379, 3380
				s.Identity.Joins[i-1].Etcd.ClientPort, s.Identity.Joins[i-1].Etcd.PeerPort = 3379, 3380
				s.Seen.Etcd.Members[i-1].PeerURLs = []string{s.join(i).PeerURL()}
			}
		}
	}
	check(t, []row{
		{"a follower first", formed(3).running().with(ports), move(2), "n2 is declared with ports 3379 and 3380 instead of 2379 and 2380", nil},
		{"the leader last", formed(3).running().with(done(2, 3)), move(1), "n1 is declared with ports", nil},
		{"one that is away first", formed(3).running().with(ports).with(func(s *scene) { s.endpoint(3).Linearizable = false }), move(3), "n3 is declared with ports", nil},
		{"not while one is away that stays", formed(3).running().with(done(3)).with(func(s *scene) { s.endpoint(3).Linearizable = false }), nil, "moving its member there waits: 2 of 3 voters are healthy", []string{"CKE104 n2", "CKE215 n3"}},
		{"waits for consent", formed(3).running().with(ports).with(func(s *scene) { s.Spec.Policies.Reconcile = cke.ReconcileManual }), nil, "change-address waits", nil},
		{"all done", formed(3).running().with(done(1, 2, 3)), nil, "nothing to do", nil},
		{"a move that was cut off, and taken back in the file", formed(3).running().with(func(s *scene) { s.Seen.Etcd.Members[1].PeerURLs = []string{"https://10.0.0.2:3380"} }),
			op.ChangeAddress{Join: formed(3).running().join(2), Node: formed(3).Spec.Nodes[1], ClientPort: 2379, PeerPort: 2380}, "n2 is declared with peer URL https://10.0.0.2:2380, and etcd's list has https://10.0.0.2:3380", nil},
		{"one that was cut off, of the only member, which is to go", alone(), op.ChangeAddress{Join: alone().join(1), Node: alone().node(1).Node, ClientPort: 2379, PeerPort: 2380, Gap: true}, "etcd's member list has https://10.0.0.1:3380 for n1, where it cannot be reached", nil},
		{"of one that can go, it goes", formed(3).running().undeclared(2).with(func(s *scene) { s.Seen.Etcd.Members[1].PeerURLs = []string{"https://10.0.0.2:3380"} }),
			op.RemoveMember{Member: cke.Member{ID: "m2", Name: "n2", PeerURLs: []string{"https://10.0.0.2:3380"}}, Join: joinOf(2)}, "n2 is no longer a control-plane node", nil},
		{"of one that stays until another one votes", formed(3).running().unjoined(3).undeclared(2).with(func(s *scene) { s.Seen.Etcd.Members[1].PeerURLs = []string{"https://10.0.0.2:3380"} }),
			op.ChangeAddress{Join: *joinOf(2), Node: formed(3).running().join(2).Node, ClientPort: 2379, PeerPort: 2380, Gap: true}, "etcd's member list has https://10.0.0.2:3380 for n2, where it cannot be reached", nil},
		{"of one that stays, while no other voter serves meanwhile", misplacedOfTwo(), nil, "etcd's member list has https://10.0.0.2:3380 for n2, where it cannot be reached, and moving it to its own ports waits: 2 voters, 3 declared", []string{"CKE114 n2", "CKE201 n3", "CKE201 n4"}},
		{"which the operator accepts", misplacedOfTwo().with(func(s *scene) { s.Requests.Interrupt, s.Generation = 1, 1 }),
			op.ChangeAddress{Join: *joinOf(2), Node: formed(3).running().join(2).Node, ClientPort: 2379, PeerPort: 2380, Gap: true}, "etcd's member list has https://10.0.0.2:3380 for n2, where it cannot be reached", nil},
		{"one that was started late with the old ports", formed(3).running().with(done(1, 2, 3)).with(func(s *scene) {
			s.Seen.Etcd.Members[1].ClientURLs = []string{"https://10.0.0.2:2379"}
			s.quiet(2)
		}), op.ChangeAddress{Join: formed(3).with(done(1, 2, 3)).join(2), Node: formed(3).Spec.Nodes[1], ClientPort: 3379, PeerPort: 3380}, "its member still runs elsewhere", nil},
	})
}

// A machine that is reached at both addresses moves its member only once none serves from removed files: that one is replaced first.
func TestDecide_ReplacesWhatRunsOnRemovedFilesBeforeAMachineMoves(t *testing.T) {
	s := formed(3).running()
	s.Spec.Nodes[2].Address = "10.0.1.3"
	now := *s.node(3)
	now.Node = s.Spec.Nodes[2]
	s.Seen.Nodes = append(s.Seen.Nodes, now)
	s.hollow(time.Hour, 2).Spec.Policies.Replace = cke.ReplacePolicy{Mode: cke.ReplaceAuto, Grace: cke.Duration(time.Minute)}
	gone := remove(s, 2)
	gone.Repair = true
	check(t, []row{{"it does not wait for the move", s, gone, "the data of n2 is gone; a new member takes its place", nil}})
}
