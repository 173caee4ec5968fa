package strategy_test

import (
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// learner turns the ith member into a learner that was added and, with started, runs.
func (s *scene) learner(i int, started bool) *scene {
	m := &s.Seen.Etcd.Members[i-1]
	m.Learner = true
	e := s.endpoint(i)
	e.Learner, e.Linearizable = true, false
	if !started {
		m.Name = ""
		s.Identity.Joins[i-1].StartedAt = time.Time{}
		s.wiped(i)
	}
	return s
}

// undeclared takes nodes out of the control plane.
func (s *scene) undeclared(nodes ...int) *scene {
	for _, i := range nodes {
		s.Spec.Nodes[i-1].ControlPlane = false
	}
	return s
}

// unjoined lets a node have no membership: it is a blank declared control-plane node.
func (s *scene) unjoined(i int) *scene {
	s.wiped(i)
	s.Identity.Joins = append(s.Identity.Joins[:i-1:i-1], s.Identity.Joins[i:]...)
	s.Seen.Etcd.Members = append(s.Seen.Etcd.Members[:i-1:i-1], s.Seen.Etcd.Members[i:]...)
	s.Seen.Etcd.Endpoints = append(s.Seen.Etcd.Endpoints[:i-1:i-1], s.Seen.Etcd.Endpoints[i:]...)
	return s
}

// running lets the leader have told versions and indexes, as a learner is compared with.
func (s *scene) running() *scene {
	for i := range s.Seen.Etcd.Endpoints {
		e := &s.Seen.Etcd.Endpoints[i]
		if e.Problem == "" {
			e.Version, e.RaftIndex, e.RaftApplied = "3.6.16", 5000, 5000
		}
	}
	return s
}

// removedByHand: somebody removed the third of three members.
func removedByHand(s *scene) {
	s.Seen.Etcd.Members = s.Seen.Etcd.Members[:2]
	s.endpoint(3).Linearizable = false
}

func remove(s *scene, i int) op.RemoveMember {
	j := s.join(i)
	return op.RemoveMember{Member: s.Seen.Etcd.Members[i-1], Join: &j}
}

// silently is a removal that waits for nothing on the member's node.
func silently(r op.RemoveMember) op.RemoveMember {
	r.Silent = true
	return r
}

// repairing is a removal that nobody asked for.
func repairing(r op.RemoveMember) op.RemoveMember {
	r.Repair = true
	return r
}

// Requirements A7, A9, C10: one at a time, as a learner first, then promoted.
// Requirements A12, I14, I19, N11: up by one, added before it is started.
func TestDecide_AddsOneMemberAtATime(t *testing.T) {
	add := func(s *scene, i int) op.AddMember {
		return op.AddMember{Node: s.Spec.Nodes[i-1], Etcd: s.Spec.Options.Etcd}
	}
	resume := func(s *scene, i int) op.AddMember {
		return op.AddMember{Node: s.Spec.Nodes[i-1], Etcd: s.join(i).Etcd, Resume: s.join(i).ID}
	}
	f := formed(4).running()
	gone := formed(4).learner(4, false)
	gone.Identity.Joins[3].NeverVoted = true
	check(t, []row{
		{"a declared node without member", formed(4).running().unjoined(4), add(f, 4), "n4 is a control-plane node and carries no member", nil},
		{"begun and not in the list", formed(4).running().learner(4, false).unidentified(4).with(func(s *scene) {
			s.Seen.Etcd.Members = s.Seen.Etcd.Members[:3]
		}), resume(f, 4), "adding the member on n4 is not complete", nil},
		{"in the list no more", formed(4).running().learner(4, false).with(func(s *scene) {
			s.Seen.Etcd.Members = s.Seen.Etcd.Members[:3]
		}), op.EndMembership{Join: gone.join(4)}, "the member of n4 is no longer in the member list", nil},
		{"in the list and not started", formed(4).running().learner(4, false), resume(f, 4), "adding the member on n4 is not complete", nil},
		{"what is in the list goes first", formed(4).running().learner(4, false).unjoined(1), resume(f, 4), "adding the member on n4 is not complete", nil},
		{"and before other options", formed(4).running().learner(4, false).with(func(s *scene) {
			s.Spec.Options.Etcd.ExtraArgs = []string{"--x"}
		}), resume(f, 4), "adding the member on n4 is not complete", nil},
		{"started, and stopped with its data", formed(4).running().learner(4, true).stopped(4), op.StartMembers{Joins: f.Identity.Joins[3:], AwaitServing: true}, "n4 stopped", nil},
		{"started, and its disk is gone", formed(4).running().learner(4, true).wiped(4), repairing(remove(formed(4).running().learner(4, true), 4)), "the learner on n4 lost what it had: its volume is gone", nil},
		{"started, and its volume is empty", formed(4).running().learner(4, true).emptied(4), repairing(remove(formed(4).running().learner(4, true), 4)), "the learner on n4 lost what it had", nil},
		{"caught up", formed(4).running().learner(4, true), op.PromoteMember{Join: f.join(4)}, "the learner on n4 has caught up", nil},
		{"far behind", formed(4).running().learner(4, true).with(func(s *scene) { s.endpoint(4).RaftApplied = 10 }), nil, "the learner on n4 is catching up, 4990 entries behind", nil},
		{"caught up, though a voter is down", formed(4).running().learner(4, true).silent(2), op.PromoteMember{Join: f.join(4)}, "caught up", nil},
		{"of five voters one is dead: etcd takes another one", formed(6).running().unjoined(6).silent(3), op.AddMember{Node: formed(6).Spec.Nodes[5], Etcd: formed(6).Spec.Options.Etcd}, "n6 is a control-plane node", nil},
		{"a version that wants all voters connected", formed(6).running().unjoined(6).silent(3).runs(2, "3.6.10"), nil,
			"now 5 voters, 4 healthy; etcd 3.6.10 requires 5 healthy before one is added", []string{"CKE104 n6", "CKE201 n3"}},
		{"also to go on with one that was begun", formed(6).running().learner(6, false).unidentified(6).silent(3).runs(2, "3.5.29").with(func(s *scene) { s.Seen.Etcd.Members = s.Seen.Etcd.Members[:5] }), nil,
			"adding a member on n6 waits: now 5 voters, 4 healthy; etcd 3.5.29 requires 5", []string{"CKE104 n6", "CKE201 n3", "CKE212 n6"}},
		{"all are", formed(6).running().unjoined(6).runs(2, "3.6.10"), op.AddMember{Node: formed(6).Spec.Nodes[5], Etcd: formed(6).Spec.Options.Etcd}, "n6 is a control-plane node", nil},
		{"too few voters healthy to add one", formed(4).running().unjoined(4).silent(3), nil, "now 3 voters, 2 healthy; etcd requires 3 healthy before one is added", []string{"CKE104 n4", "CKE201 n3"}},
		{"its node has never answered", formed(4).running().unjoined(4).with(func(s *scene) {
			s.Seen.Nodes[3].Problem = &cke.Problem{Code: cke.CodeUnreachable, Node: "n4", Message: "no answer"}
		}), nil, "waiting for n4, which is to carry a member", []string{"CKE201 n4"}},
		{"its port is taken", formed(4).running().unjoined(4).with(func(s *scene) { s.Seen.Nodes[3].PeerPort = cke.PortOpen }), nil, "n4 cannot take a member", []string{"CKE208 n4"}},
	})
}

// Requirements C7, C8, C11, C12, A6: the arithmetic first.
// Requirements A9, N12, D13: the file decides who goes.
func TestDecide_RemovesWhatIsNoLongerDeclared(t *testing.T) {
	stranger := cke.Member{ID: "s1", Name: "stranger", PeerURLs: []string{"https://10.9.9.9:2380"}}
	strange := func(s *scene) { s.Seen.Etcd.Members = append(s.Seen.Etcd.Members, stranger) }
	f := formed(3).running()
	check(t, []row{
		{"a healthy one", formed(3).running().undeclared(3), remove(f, 3), "n3 is no longer a control-plane node", nil},
		{"a dead one, for which nothing is waited", formed(3).running().silent(3).undeclared(3), silently(remove(f, 3)), "n3 is no longer a control-plane node", nil},
		{"followers before the leader", formed(3).running().undeclared(1, 3), remove(f, 3), "n3 is no", nil},
		{"a healthy one waits for a dead one", formed(3).running().silent(2).undeclared(3), nil, "removing its member waits: 2 of 3 voters are healthy; a healthy one is taken away only when all are", []string{"CKE104 n3"}},
		{"not the last one", formed(1).running().undeclared(1).with(func(s *scene) {
			s.Spec.Nodes = append(s.Spec.Nodes, spec(2).Nodes[1])
			s.Seen.Nodes = append(s.Seen.Nodes, cke.NodeStatus{Node: spec(2).Nodes[1], Problem: &cke.Problem{Node: "n2", Message: "no answer"}})
		}), nil, "now 1 voter, 1 healthy; after 0 voters", []string{"CKE104 n1"}},
		{"a stranger is held by default", formed(3).running().with(strange), nil, "nothing to do", nil},
		{"a stranger by policy", formed(3).running().with(strange).with(func(s *scene) { s.Spec.Policies.Foreign = cke.ForeignRemove }), op.RemoveMember{Member: stranger}, "foreign member stranger has no membership on record", nil},
		{"one that once was ours", formed(3).running().with(strange).with(func(s *scene) {
			s.Identity.Ended = []cke.Join{{ID: "old", MemberID: "s1", EndedAt: noon}}
		}), op.RemoveMember{Member: stranger}, "foreign member stranger has no membership on record", nil},
		{"removed by somebody else", formed(3).running().with(removedByHand), op.EndMembership{Join: f.join(3)}, "the member of n3 is no longer in the member list", nil},
		{"not in the list, and serves", formed(3).running().with(removedByHand).with(func(s *scene) { s.endpoint(3).Linearizable = true }), nil, "not in the member list that was read, but serves", []string{"CKE302 n3"}},
	})
}

// Requirements N9, A10: replaced only when its data is provably gone for a while, and the others keep the quorum.
// Requirements N10, N14: a member that does not run is not doomed.
func TestDecide_ReplacesWhatIsProvablyGone(t *testing.T) {
	missing := func(ago time.Duration) func(*scene) {
		return func(s *scene) {
			s.Before.Members = []cke.MemberStatus{{Name: "n3", Join: s.join(3).ID, State: "missing", Watched: cke.Duration(ago)}}
			s.Spec.Policies.Replace.Mode = cke.ReplaceAuto
		}
	}
	f := formed(3).running()
	check(t, []row{
		{"for a moment", formed(3).running().wiped(3).with(missing(time.Minute)), nil, "n3 is replaced in 9m0s unless its data comes back", []string{"CKE213 n3"}},
		{"for longer than the grace", formed(3).running().wiped(3).with(missing(time.Hour)), repairing(remove(f, 3)), "the data of n3 is gone; a new member takes its place", nil},
		{"without the others", formed(3).running().wiped(3).silent(2).with(missing(time.Hour)), nil, "replacing n3 waits: now 3 voters, 1 healthy; after 2 voters, 1 healthy, 2 needed", []string{"CKE213 n3", "CKE201 n2"}},
		{"not when a person is to say so", formed(3).running().wiped(3).with(missing(time.Hour)).with(func(s *scene) { s.Spec.Policies.Replace.Mode = cke.ReplaceManual }), nil, "replace: manual", []string{"CKE213 n3"}},
		{"silence is no proof", formed(3).running().wiped(3).silent(3).with(missing(time.Hour)), nil, "waiting for n3", []string{"CKE201 n3"}},
	})
}

// Requirement N6: one at a time, followers first, never while another one is away.
func TestDecide_RestartsOneMemberAtATimeForOtherOptions(t *testing.T) {
	edited := func(s *scene) { s.Spec.Options.Etcd.ExtraArgs = []string{"--x"} }
	restart := func(i int) op.RestartMember {
		s := formed(3).running().with(edited)
		return op.RestartMember{Join: s.join(i), Etcd: s.Spec.Options.Etcd}
	}
	version := func(v string) func(*scene) { return func(s *scene) { s.Spec.Options.Etcd.Version = v } }
	check(t, []row{
		{"a follower first", formed(3).running().with(edited), restart(2), "n2 runs with other arguments than declared", nil},
		{"the leader last", formed(3).running().with(edited).with(func(s *scene) {
			for i := 1; i < 3; i++ {
				s.Identity.Joins[i].Etcd.ExtraArgs = []string{"--x"}
			}
		}), restart(1), "n1 runs with other arguments", nil},
		{"not while one is away", formed(3).running().with(edited).with(func(s *scene) { s.endpoint(3).Linearizable = false }), nil, "restarting it waits: 2 of 3 voters are healthy", []string{"CKE104 n2", "CKE215 n3"}},
		{"one whose machine does not answer is passed over", formed(3).running().with(edited).with(func(s *scene) {
			s.node(2).Problem = &cke.Problem{Code: cke.CodeSSHAuth, Node: "n2", Message: "refused"}
		}), restart(3), "n3 runs with other arguments", nil},
		{"not two minor versions at once", formed(3).running().with(version("3.8.0")), nil, "upgrades go one minor version at a time", []string{"CKE305 n2"}},
		{"not back", formed(3).running().with(version("3.5.35")), nil, "a member runs 3.6.16, and none runs 3.5 any more; there is no way back", []string{"CKE305 n2"}},
	})
	if d := strategy.Decide(formed(1).running().with(edited).Input); d.Operation == nil {
		t.Errorf("a single member cannot be restarted: %s", d.Reason)
	}
}

// A new member runs as the voters do until none of them has a log that the declared version cannot read.
func TestDecide_AddsWithAVersionThatReadsTheLog(t *testing.T) {
	for _, row := range []struct{ runs, declared, want string }{
		{"3.6.16", "3.7.3", "3.6.16"},
		{"3.7.2", "3.7.3", "3.7.3"},
		{"3.5.35", "3.6.16", "3.6.16"},
	} {
		s := formed(2).unjoined(2)
		s.Identity.Joins[0].Etcd.Version, s.endpoint(1).Version = row.runs, row.runs
		s.Spec.Options.Etcd.Version = row.declared
		s.Spec.Nodes[0].ControlPlane = false
		o, adds := strategy.Decide(s.Input).Operation.(op.AddMember)
		if !adds || o.Etcd.Version != row.want {
			t.Errorf("%s beside %s: %+v", row.declared, row.runs, strategy.Decide(s.Input))
		}
	}
}

// Two members that left the cluster file are missing in the list of the third, which may have continued alone: none is ended because of the
// file. A silent one alone is: cke may have removed it.
func TestDecide_EndsNobodyByAListThatLacksTwoWhoLeaveByTheFile(t *testing.T) {
	for missing, want := range map[int]string{1: "end-membership", 2: ""} {
		s := formed(3).running().undeclared(2, 3)
		s.Seen.Etcd.Members = s.Seen.Etcd.Members[:3-missing]
		for i := 3; i > 3-missing; i-- {
			s.quiet(i)
		}
		d := strategy.Decide(s.Input)
		if name := nameOf(d); name != want && (want != "" || name == "end-membership") {
			t.Errorf("%d are missing: %q: %s", missing, name, d.Reason)
		}
	}
}

func nameOf(d strategy.Decision) string {
	if d.Operation == nil {
		return ""
	}
	return d.Operation.Name()
}
