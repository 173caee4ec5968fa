package strategy_test

import (
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// joinedBy puts a member into the list that cke does not know; a healthy one answers.
func (s *scene) joinedBy(healthy bool) *scene {
	m := stranger()
	s.Seen.Etcd.Members = append(s.Seen.Etcd.Members, m)
	e := cke.EndpointStatus{URL: "https://10.9.9.9:2379", Problem: "no answer in 1s"}
	if healthy {
		e = cke.EndpointStatus{URL: e.URL, Serializable: true, Linearizable: true, ClusterID: "c1", MemberID: m.ID, LeaderID: "m1", Version: "3.6.16", RaftIndex: 5000, RaftApplied: 5000}
	}
	s.Seen.Etcd.Endpoints = append(s.Seen.Etcd.Endpoints, e)
	return s
}

func stranger() cke.Member {
	return cke.Member{ID: "s1", Name: "stranger", PeerURLs: []string{"https://10.9.9.9:2380"}, ClientURLs: []string{"https://10.9.9.9:2379"}}
}

// strangerOn lets the member that cke does not know stand on a declared node.
func strangerOn(i int) func(*scene) {
	return func(s *scene) {
		m := &s.Seen.Etcd.Members[len(s.Seen.Etcd.Members)-1]
		m.PeerURLs = []string{"https://" + s.Spec.Nodes[i-1].Address + ":2380"}
	}
}

func removing(s *scene) { s.Spec.Policies.Foreign = cke.ForeignRemove }

// Requirements A6, I15, C7, C11: unhealthy strangers go before anything is added, healthy ones after it.
// Requirement N8: members that cke does not know, by policy.
func TestDecide_RemovesStrangersInTheOrderOfTheirHealth(t *testing.T) {
	gone := op.RemoveMember{Member: stranger()}
	add := op.AddMember{Node: formed(4).Spec.Nodes[3], Etcd: formed(4).Spec.Options.Etcd}
	once := func(s *scene) { s.Identity.Ended = []cke.Join{{ID: "old", MemberID: "s1", EndedAt: noon}} }
	at := func(memberID string, started, learner bool) func(*scene) { // where one of ours stood, under its id if that is known
		return func(s *scene) {
			s.Identity.Ended = []cke.Join{{ID: "old", MemberID: memberID, Node: cke.Node{Address: "10.9.9.9"}, PeerPort: 2380, EndedAt: noon}}
			m := &s.Seen.Etcd.Members[len(s.Seen.Etcd.Members)-1]
			if m.Learner = learner; !started {
				m.Name, m.ClientURLs = "", nil
			}
		}
	}
	late := op.RemoveMember{Member: cke.Member{ID: "s1", Learner: true, PeerURLs: stranger().PeerURLs}}
	lacking := func(healthy bool) *scene { return formed(4).running().unjoined(4).joinedBy(healthy) }
	dark := func(s *scene) {
		s.node(4).Problem = &cke.Problem{Code: cke.CodeUnreachable, Node: "n4", Message: "no answer"}
	}
	learns := func(s *scene) {
		s.Seen.Etcd.Members[3].Learner, s.endpoint(4).Learner, s.endpoint(4).Linearizable = true, true, false
	}
	learner := op.RemoveMember{Member: stranger()}
	learner.Member.Learner = true
	second := func(s *scene) {
		m, e := stranger(), *s.endpoint(4)
		m.ID, m.Name, m.PeerURLs, e.MemberID = "s2", "second", []string{"https://10.0.0.4:2380"}, "s2"
		s.Seen.Etcd.Members, s.Seen.Etcd.Endpoints = append(s.Seen.Etcd.Members, m), append(s.Seen.Etcd.Endpoints, e)
	}
	check(t, []row{
		{"held by default, healthy", formed(3).running().joinedBy(true), nil, "nothing to do", nil},
		{"held by default, unhealthy", formed(3).running().joinedBy(false), nil, "nothing to do", nil},
		{"unhealthy, by policy", formed(3).running().joinedBy(false).with(removing), gone, "foreign member stranger has no membership on record", nil},
		{"unhealthy, before one is added", lacking(false).with(removing), gone, "has no membership on record", nil},
		{"healthy, after one is added", lacking(true).with(removing), add, "n4 is a control-plane node", nil},
		{"healthy, while the node that lacks one is silent", lacking(true).with(removing).with(dark), nil, "foreign member stranger stays until there is a member on n4", []string{"CKE201 n4"}},
		{"unhealthy, while the node that lacks one is silent", lacking(false).with(removing).with(dark), gone, "has no membership on record", nil},
		{"a learner that answers, while the node that lacks one is silent", lacking(true).with(removing).with(dark).with(learns), learner, "has no membership on record", nil},
		{"healthy, while another foreign member is on the node that lacks one", lacking(true).with(removing).with(second), gone, "has no membership on record", nil},
		{"healthy, by policy", formed(3).running().joinedBy(true).with(removing), gone, "has no membership on record", nil},
		{"healthy, not while one of ours is away", formed(3).running().joinedBy(true).with(removing).silent(3), nil, "foreign member stranger cannot be removed: 3 of 4 voters are healthy", []string{"CKE104"}},
		{"once ours, whatever the policy", formed(3).running().joinedBy(true).with(once), gone, "has no membership on record", nil},
		{"a person's, where one of ours stood", formed(3).running().joinedBy(true).with(at("m9", true, false)), nil, "nothing to do", nil},
		{"a person's, where one of ours stood whose id was never known", formed(3).running().joinedBy(true).with(at("", true, false)), nil, "nothing to do", nil},
		{"a person's that does not serve, where one of ours stood", formed(3).running().joinedBy(false).with(at("m9", true, false)), nil, "nothing to do", nil},
		{"a person's voter that never started, where one of ours stood", formed(3).running().joinedBy(false).with(at("m9", false, false)), nil, "nothing to do", nil},
		{"a learner that never started, where one of ours stood: added late", formed(3).running().joinedBy(false).with(at("m9", false, true)), late, "has no membership on record", nil},
		{"a healthy one counts as healthy: another may be removed", formed(3).running().joinedBy(true).undeclared(3), remove(formed(3).running(), 3), "n3 is no longer a control-plane node", nil},
		{"but does not stand in for one of ours", formed(2).running().unjoined(2).joinedBy(true).undeclared(1).with(strangerOn(2)), nil, "its member stays until there is one on n2", []string{"CKE307 n2", "CKE305 n2"}},
		{"an unhealthy one does not", formed(3).running().joinedBy(false).undeclared(3), nil, "3 of 4 voters are healthy", []string{"CKE104 n3"}},
	})
}

// Requirement A6: a held stranger is told.
func TestReport_TellsOfStrangers(t *testing.T) {
	s := formed(3).running().joinedBy(true).report()
	if s.Health != cke.HealthReady || s.Tolerance != 1 {
		t.Errorf("%s, tolerance %d", s.Health, s.Tolerance)
	}
	m := s.Members[len(s.Members)-1]
	if m.State != "stranger" || m.Name != "stranger" || m.Address != "10.9.9.9" || m.Role != "follower" || m.Ready || m.Join != "" {
		t.Errorf("%+v", m)
	}
	p := s.Problems[len(s.Problems)-1]
	if p.Code != cke.CodeStranger || !strings.Contains(p.Message, "at 10.9.9.9 serves") {
		t.Errorf("%+v", p)
	}
	s = formed(3).running().joinedBy(false).report()
	if s.Tolerance != 0 || !strings.Contains(s.Problems[0].Message, "does not serve, and counts in the quorum") {
		t.Errorf("tolerance %d %+v", s.Tolerance, s.Problems)
	}
}

// What a remedy offers is not refused: a node that has a membership takes no second one.
func TestReport_OffersToAdoptOnlyWhereThatCanBe(t *testing.T) {
	for host, want := range map[string]string{"10.0.0.4": "`ckecli etcd adopt n4`", "10.0.0.2": "remove it with etcdctl, or", "10.9.9.9": "remove it with etcdctl, or"} {
		s := formed(4).running().unjoined(4).joinedBy(true)
		s.Seen.Etcd.Members[len(s.Seen.Etcd.Members)-1].PeerURLs = []string{"https://" + host + ":3380"}
		got := ""
		for _, p := range s.report().Problems {
			if p.Code == cke.CodeStranger {
				got = p.Remedy
			}
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("at %s: %q", host, got)
		}
	}
}

// A foreign member that serves stays while another member serves from removed files, and no member can be added on its node before it is gone.
// So the one on removed files goes first, where each quorum of the others has a member on record with its data.
func TestDecide_ReplacesWhatRunsOnRemovedFilesBesideAForeignMember(t *testing.T) {
	auto := func(s *scene) {
		s.Spec.Policies.Replace = cke.ReplacePolicy{Mode: cke.ReplaceAuto, Grace: cke.Duration(time.Minute)}
	}
	beside := func(n int, hollow ...int) *scene {
		return formed(n).running().unjoined(n).joinedBy(true).with(strangerOn(n)).hollow(time.Hour, hollow...).with(auto)
	}
	repair := func(s *scene, i int) op.RemoveMember {
		r := remove(s, i)
		r.Repair = true
		return r
	}
	dark := func(s *scene) {
		s.node(4).Problem = &cke.Problem{Code: cke.CodeUnreachable, Node: "n4", Message: "no answer"}
	}
	down := formed(3).running().unjoined(3).joinedBy(false).with(strangerOn(3)).hollow(time.Hour, 2).with(auto)
	hung := func(s *scene) {
		s.node(1).Problem = &cke.Problem{Code: cke.CodeEngine, Node: "n1", Message: "the engine hangs"}
	}
	unread := func(s *scene) { s.container(1).Data = cke.DataUnknown }
	another := formed(5).running().unjoined(5).unjoined(4).joinedBy(true).with(strangerOn(5)).with(dark).hollow(time.Hour, 2).with(auto)
	check(t, []row{
		{"one of five", beside(5, 2), repair(beside(5, 2), 2), "the data of n2 is gone; a new member takes its place", nil},
		{"it is to be removed by policy", beside(5, 2).with(removing), repair(beside(5, 2), 2), "the data of n2 is gone; a new member takes its place", nil},
		{"two of five", beside(5, 2, 3), repair(beside(5, 2, 3), 2), "the data of n2 is gone; a new member takes its place", nil},
		{"three of five: the others could agree without the only one that has its data", beside(5, 2, 3, 4), nil, "n2 stays until there is a member on n5, or `ckecli replace n2` is requested", []string{"CKE213 n2", "CKE213 n3", "CKE213 n4", "CKE307 n5"}},
		{"one of three: what the other two agree to is on a member on record", beside(3, 2), repair(beside(3, 2), 2), "the data of n2 is gone; a new member takes its place", nil},
		{"both of three: only the foreign one has its data", beside(3, 2, 1), nil, "n2 stays until there is a member on n3, or `ckecli replace n2` is requested", []string{"CKE213 n2", "CKE213 n1", "CKE307 n3"}},
		{"one of three, and the other one's engine hangs", beside(3, 2).with(hung), nil, "n2 stays until there is a member on n3, or `ckecli replace n2` is requested", []string{"CKE213 n2", "CKE307 n3", "CKE204 n1"}},
		{"one of three, and the other one's data is not known", beside(3, 2).with(unread), nil, "n2 stays until there is a member on n3, or `ckecli replace n2` is requested", []string{"CKE213 n2", "CKE307 n3"}},
		{"it does not serve", down, nil, "2 of 3 voters are healthy", []string{"CKE213 n2", "CKE307 n3"}},
		{"another node lacks its member, too", another, nil, "n2 stays until there is a member on n4, or", []string{"CKE213 n2", "CKE307 n5"}},
		{"it is no longer declared", beside(5, 2).undeclared(2), remove(beside(5, 2), 2), "the data of n2 is gone", nil},
	})
}

// The store has one record, and members that it does not know vote: without that one cke would reach no member, and the removal would be
// refused again and again.
func TestDecide_KeepsTheOnlyVoterOnRecordBesideStrangers(t *testing.T) {
	beside := func() *scene {
		s := formed(3).running().unjoined(3).unjoined(2).joinedBy(true).joinedBy(true)
		m, e := &s.Seen.Etcd.Members[2], &s.Seen.Etcd.Endpoints[2]
		m.ID, m.Name, m.PeerURLs, m.ClientURLs = "s2", "other", []string{"https://10.9.9.8:2380"}, []string{"https://10.9.9.8:2379"}
		e.URL, e.MemberID, e.LeaderID = m.ClientURLs[0], "s2", "s1"
		s.Seen.Etcd.Endpoints[1].LeaderID = "s1"
		return s
	}
	for name, c := range map[string]struct {
		scene *scene
		says  string
	}{
		"its node is not declared": {beside().undeclared(1, 2, 3).silent(1), "its member stays: no other membership on record votes"},
		"its data is gone": {beside().undeclared(2, 3).hollow(time.Hour, 1).with(func(s *scene) {
			s.Spec.Policies.Replace = cke.ReplacePolicy{Mode: cke.ReplaceAuto, Grace: cke.Duration(time.Minute)}
		}), "n1 is not replaced: no other membership on record votes"},
	} {
		d := strategy.Decide(c.scene.Input)
		if o, removes := d.Operation.(op.RemoveMember); removes && o.Join != nil || !strings.Contains(d.Reason, c.says) {
			t.Errorf("%s: %+v %s", name, d.Operation, d.Reason)
		}
	}
}
