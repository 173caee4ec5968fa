package strategy_test

import (
	"strings"
	"testing"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// marked lets marks on nodes say that the memberships of these ended: the store is from before.
func (s *scene) marked(nodes ...int) *scene {
	for _, i := range nodes {
		s.node(i).Over = append(s.node(i).Over, string(s.join(i).ID))
	}
	return s
}

// judged lets an operator have lifted what is found.
func (s *scene) judged() *scene {
	f, _ := strategy.Decide(s.Input).Operation.(op.Freeze)
	s.Identity.Freeze = &cke.Freeze{ID: "f1", Kind: f.Kind, Finding: f.Finding, Problem: f.Problem, At: noon, LiftedAt: noon}
	return s
}

// A membership whose node could not be marked when it ended is marked once its node answers, unless it never voted.
func TestDecide_MarksMembershipsThatEnded(t *testing.T) {
	unmarked := func() *scene { return formed(3).ended(2, nil).with(func(s *scene) { s.node(2).Over = nil }) }
	check(t, []row{
		{"its node answers", unmarked(), op.MarkEnded{Join: unmarked().Identity.Ended[0]}, "a mark on n2 is missing", nil},
		{"its node is silent", unmarked().silent(2), nil, "waiting for n2", []string{"CKE201 n2"}},
		{"it is marked", formed(3).ended(2, nil), nil, "", nil},
		{"it never voted", unmarked().with(func(s *scene) { s.Identity.Ended[0].NeverVoted = true }), nil, "", nil},
		{"a restore ended it with its incarnation", unmarked().with(func(s *scene) { s.Identity.Ended[0].Incarnation = "before" }), nil, "", nil},
	})
}

// A member that was put aside is marked, too: a store from before the lift does not start it again, and it is replaced.
func TestDecide_MarksWhoWasPutAside(t *testing.T) {
	aside := func() *scene {
		return formed(3).running().stopped(3).frozenBy("two-quorums c1", true).with(func(s *scene) { s.Identity.Joins[2].Apart, s.container(3).KeptDown = true, true })
	}
	before := func() *scene { return formed(3).stopped(3).marked(3) }
	replaced := before().judged().asked(cke.TaskReplace, "n3", "join3")
	check(t, []row{
		{"it is stopped", aside(), op.MarkEnded{Join: aside().join(3)}, "a mark on n3 is missing", nil},
		{"it is marked", aside().marked(3), nil, "waiting for n3", []string{"CKE302 n3"}},
	})
	if f, frozen := strategy.Decide(before().Input).Operation.(op.Freeze); !frozen || f.Kind != cke.FreezeOlderStore {
		t.Errorf("a store from before: %+v", strategy.Decide(before().Input))
	}
	if d := strategy.Decide(before().judged().Input); d.Operation != nil {
		t.Errorf("judged: %+v", d)
	}
	if d := strategy.Decide(replaced.Input); d.Operation == nil || d.Operation.Name() != "remove-member" {
		t.Errorf("replaced: %+v", d)
	}
}

// A membership on record that a mark names shows that the store is older, with a quorum and without one.
func TestDecide_FreezesWhereAMarkNamesACurrentMembership(t *testing.T) {
	for name, s := range map[string]*scene{
		"one left":           formed(3).marked(3),
		"all are stopped":    formed(3).stopped(1, 2, 3).marked(1, 2, 3).unseen(),
		"their data is gone": formed(3).wiped(1, 2, 3).marked(1, 2, 3).unseen(),
		"a deletion":         formed(3).stopped(1, 2, 3).marked(1, 2, 3).unseen().with(func(s *scene) { s.Deleting, s.DeletionAt = true, noon }),
	} {
		d := strategy.Decide(s.Input)
		if f, frozen := d.Operation.(op.Freeze); !frozen || f.Kind != cke.FreezeOlderStore || f.Ended == nil || !strings.Contains(f.Problem.Remedy, "ckecli cluster reclaim") {
			t.Errorf("%s: %+v", name, d)
		}
		for _, p := range strategy.Report(s.Input, d, cke.Status{}).Problems {
			if strings.Contains(p.Remedy, "ckecli restore") || strings.Contains(p.Remedy, "ckecli recover") || strings.Contains(p.Remedy, "ckecli cluster delete") {
				t.Errorf("%s: it is advised: %s", name, p.Remedy)
			}
		}
		for _, o := range []cke.RestoreOrder{{Target: "file:///b"}, {Survivor: "n1", Named: true}} {
			if why := strategy.RestoreRefusal(s.Input, o); codeOf(why) != cke.CodeOlderStore {
				t.Errorf("%s: %s is not refused for that: %v", name, o.Describe(), why)
			}
		}
	}
}

// An operator who lifts the freeze decides that what came after the copy is gone: nothing that ended is started, and a restore is allowed. A
// deletion waits for that decision.
func TestDecide_AfterAnOperatorJudgedMarks(t *testing.T) {
	s := formed(3).stopped(1, 2, 3).marked(1, 2, 3).unseen().judged()
	if d := strategy.Decide(s.Input); d.Operation != nil || d.Frozen != nil {
		t.Errorf("%+v", d)
	}
	if why := strategy.RestoreRefusal(s.Input, cke.RestoreOrder{Target: "file:///b"}); why != nil {
		t.Error(why)
	}
	s.Deleting = true
	if d := strategy.Decide(s.Input); d.Operation == nil || d.Operation.Name() != "delete-cluster" {
		t.Errorf("%+v", d)
	}
	s.Identity.Freeze.LiftedAt = cke.Freeze{}.LiftedAt
	if d := strategy.Decide(s.Input); d.Operation != nil || d.Frozen == nil {
		t.Errorf("not judged: %+v", d)
	}
	if d := strategy.Decide(formed(3).stopped(3).marked(3).with(func(s *scene) { s.Seen.Etcd.Members = s.Seen.Etcd.Members[:2] }).judged().Input); d.Operation == nil || d.Operation.Name() != "end-membership" {
		t.Errorf("a member that left while a quorum serves: %+v", d)
	}
}

// Nodes that could not be marked: etcd itself says that a member was removed, and the newest list that is known has it.
func TestRestoreRefusal_WhereEtcdSaysThatAMemberWasRemoved(t *testing.T) {
	removed := func() *scene {
		s := formed(3).stopped(1, 2, 3).unseen()
		for i := 1; i <= 3; i++ {
			s.container(i).State, s.container(i).LastWords = cke.ContainerRestarting, "server error: the member has been permanently removed from the cluster"
		}
		return s
	}
	for name, c := range map[string]struct {
		scene *scene
		order cke.RestoreOrder
		code  cke.Code
	}{
		"no list is known":                    {removed(), cke.RestoreOrder{Target: "file:///b"}, cke.CodeOlderStore},
		"the copy's list has it":              {removed().with(listedBefore(1, 2, 3)), cke.RestoreOrder{Survivor: "n1"}, cke.CodeOlderStore},
		"an operator removed it: it is known": {removed().with(listedBefore(2, 3)).with(func(s *scene) { s.container(2).LastWords, s.container(3).LastWords = "", "" }), cke.RestoreOrder{Survivor: "n2"}, ""},
		"what may serve is known to be gone":  {removed().with(func(s *scene) { s.container(2).LastWords, s.container(3).LastWords = "", "" }), cke.RestoreOrder{Target: "file:///b", Destroyed: []string{"n1"}}, ""},
		"a quorum says that it is a member":   {formed(3).stopped(3).with(func(s *scene) { s.container(3).LastWords = "the member has been permanently removed from the cluster" }), cke.RestoreOrder{Target: "file:///b"}, ""},
	} {
		if why := strategy.RestoreRefusal(c.scene.Input, c.order); codeOf(why) != c.code {
			t.Errorf("%s: %v", name, why)
		}
	}
	s := removed()
	st := strategy.Report(s.Input, strategy.Decide(s.Input), cke.Status{})
	if st.Health != cke.HealthUnknown {
		t.Errorf("%s: %s", st.Health, st.Summary)
	}
}

// listedBefore lets the status have a list with the members of these nodes.
func listedBefore(nodes ...int) func(*scene) {
	return func(s *scene) {
		s.Before.Incarnation = s.Identity.Incarnation.ID
		for _, i := range nodes {
			s.Before.Etcd.Members = append(s.Before.Etcd.Members, cke.Member{ID: s.join(i).MemberID, Name: s.join(i).Member, PeerURLs: []string{s.join(i).PeerURL()}})
		}
	}
}
