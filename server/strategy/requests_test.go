package strategy_test

import (
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// asked lets a person have asked for a task.
func (s *scene) asked(kind cke.TaskKind, node, subject string) *scene {
	s.Requests.Tasks = append(s.Requests.Tasks, cke.Task{ID: "t1", Kind: kind, Node: node, Subject: subject, By: "ann@boot-1", For: cke.Duration(time.Hour), At: noon})
	return s
}

// orders lets a person want a user changed.
func orders(o cke.UserOrder) func(*scene) {
	return func(s *scene) {
		s.asked(cke.TaskUser, "", "")
		s.Requests.Tasks[0].User = &o
	}
}

// accepted lets the person want it although the cluster does not serve meanwhile.
func (s *scene) accepted() *scene {
	s.Requests.Tasks[0].Accepted = true
	return s
}

// drained lets a node have a lease, and its member be stopped for it.
func (s *scene) drained(i int) *scene {
	s.Requests.Drains = []cke.Drain{{Node: s.Spec.Nodes[i-1].Hostname, By: "ann@boot-1", Reason: "new kernel", Since: noon, Until: noon.Add(time.Hour)}}
	return s.stopped(i)
}

func (s *scene) hibernated() *scene {
	s.Requests.Hibernation = &cke.Hibernation{By: "ann@boot-1", Since: noon}
	return s
}

// gaveUp lets a membership have ended as a removal leaves it.
func (s *scene) gaveUp(i int) *scene {
	j := s.join(i)
	j.EndedAt = noon
	s.end(j)
	return s.unjoined(i)
}

// refusal is the decision to refuse the task of the scene.
func refusal(code cke.Code, what string) func(strategy.Decision) bool {
	return func(d strategy.Decision) bool {
		r, is := d.Operation.(op.Refuse)
		return is && r.Why.Code == code && r.Why.Unchanged && strings.Contains(r.Why.Error(), what) && d.Task == "t1"
	}
}

// does is the decision to run an operation of this name; part: the task goes on after it.
func does(name string, part bool) func(strategy.Decision) bool {
	return func(d strategy.Decision) bool {
		return d.Operation != nil && d.Operation.Name() == name && d.Part == part && d.Task == "t1"
	}
}

// notFor is the decision to do something that is not for the task.
func notFor(reason string) func(strategy.Decision) bool {
	return func(d strategy.Decision) bool { return d.Task == "" && strings.Contains(d.Reason, reason) }
}

type askedRow struct {
	name  string
	scene *scene
	want  func(strategy.Decision) bool
}

func checkAsked(t *testing.T, rows []askedRow) {
	t.Helper()
	for _, r := range rows {
		if d := strategy.Decide(r.scene.Input); !r.want(d) {
			t.Errorf("%s: %#v, task %q, part %v, %s", r.name, d.Operation, d.Task, d.Part, d.Reason)
		}
	}
}

// Requirements A7, A10, C7, C8, C9, N9: a dead member is removed by the arithmetic, one that serves only while all is well; the
// task goes on where it was, whatever daemon leads, and never gives the fresh membership up.
func TestDecide_ReplacesTheMembershipThatWasNamed(t *testing.T) {
	replace := func(s *scene) *scene { return s.running().asked(cke.TaskReplace, "n3", "join3") }
	gone := func() *scene { return formed(3).running().gaveUp(3) }
	fresh := func(learner bool) *scene {
		s := formed(3).running()
		old := s.join(3)
		old.EndedAt = noon
		s.end(old)
		s.Identity.Joins[2].ID, s.Seen.Etcd.Endpoints[2].Join = "fresh", "fresh"
		s.container(3).Join, s.node(3).Volumes[0].Join = "fresh", "fresh"
		if learner {
			s.learner(3, true)
		}
		return s
	}
	checkAsked(t, []askedRow{
		{"one that serves", replace(formed(3)), does("remove-member", true)},
		{"a dead one", replace(formed(3).silent(3)), does("remove-member", true)},
		{"one whose data is gone, with replace: manual", replace(formed(3).wiped(3).with(func(s *scene) { s.Spec.Policies.Replace.Mode = cke.ReplaceManual })), does("remove-member", true)},
		{"one that serves, while another one is dead", replace(formed(3).silent(2)), refusal(cke.CodeQuorum, "replacing the member of n3 would lose quorum; 2 of 3 voters are healthy")},
		{"a dead one, without the others", replace(formed(3).silent(2, 3)), refusal(cke.CodeQuorum, "now 3 voters, 1 healthy; after 2 voters, 1 healthy, 2 needed")},
		{"the only one", formed(1).running().asked(cke.TaskReplace, "n1", "join1"), refusal(cke.CodeQuorum, "after 0 voters")},
		{"while another node is drained", replace(formed(3).drained(2)), refusal(cke.CodeQuorum, "n2 is drained by ann@boot-1 (new kernel)")},
		{"of a node that is no longer declared", replace(formed(3).undeclared(3)), refusal(cke.CodeCannot, "n3 is not a control-plane node")},
		{"that nobody knows", formed(3).asked(cke.TaskReplace, "n3", "other"), refusal(cke.CodeCannot, "n3 has no membership other")},
		{"removed: the node gets a fresh one", replace(gone()), does("add-member", true)},
		{"removed: whatever the reconcile policy", replace(gone().with(func(s *scene) { s.Spec.Policies.Reconcile = cke.ReconcileManual })), does("add-member", true)},
		{"removed, and the node is silent", replace(gone().with(func(s *scene) { s.node(3).Problem = &cke.Problem{Node: "n3", Message: "no answer"} })), does("replace", false)},
		{"added and not started", replace(fresh(false).learner(3, false)), does("add-member", true)},
		{"catching up", replace(fresh(true)).with(func(s *scene) { s.endpoint(3).RaftApplied = 10 }), notFor("the learner on n3 is catching up")},
		{"caught up", replace(fresh(true)), does("promote-member", false)},
		{"done", replace(fresh(false)), does("replace", false)},
		{"somebody removed it, and its end is not on record", replace(formed(3)).with(removedByHand), notFor("the member of n3 is no longer in the member list")},
	})
}

// Requirements A9, C10, C11: control_plane moved to another node of the file: the fresh member first while the old one
// serves, the old one first when it is dead.
// Requirement C4: a dead one is removed first, for a healthy one a learner is added first.
func TestDecide_MovesAMembershipLearnerFirstOrRemoveFirst(t *testing.T) {
	moved := func(change func(*scene)) *scene {
		s := formed(4).running().unjoined(4).undeclared(3)
		change(s)
		return s
	}
	f := formed(3).running()
	check(t, []row{
		{"it serves", moved(func(*scene) {}), op.AddMember{Node: spec(4).Nodes[3], Etcd: f.Spec.Options.Etcd}, "n4 is a control-plane node and carries no member", nil},
		{"it is dead", moved(func(s *scene) { s.silent(3) }), silently(remove(f, 3)), "n3 is no longer a control-plane node", nil},
		{"it serves, and the fresh one votes", formed(4).running().undeclared(3), remove(formed(4).running(), 3), "n3 is no longer a control-plane node", nil},
		{"it serves, and the fresh one does not answer", moved(func(s *scene) { s.silent(4) }), nil, "n3 is no longer a control-plane node, and its member stays until there is one on n4", []string{"CKE201 n4"}},
		{"it serves, and the fresh one is drained", moved(func(s *scene) { s.Requests.Drains = []cke.Drain{{Node: "n4", Since: noon, Until: noon.Add(time.Hour)}} }), nil, "n4 is drained until", []string{"CKE104 n3"}},
		{"it serves, and adding the fresh one failed just now", moved(func(s *scene) { s.failed(op.AddMember{Node: spec(4).Nodes[3]}, 3, time.Second) }), nil, "add-member failed 3 times in a row", []string{"CKE207 n1", "CKE305 n4"}},
		{"all are swapped, and no fresh one answers", formed(6).running().unjoined(6).unjoined(5).unjoined(4).undeclared(1, 2, 3).with(func(s *scene) { s.silent(4, 5, 6) }), nil,
			"stays until there is one on n4, n5, n6", []string{"CKE201 n4", "CKE201 n5", "CKE201 n6"}},
		{"fewer are declared, one of which does not answer", formed(5).running().undeclared(4, 5).with(func(s *scene) { s.Spec.Nodes = append(s.Spec.Nodes, spec(6).Nodes[5]) }), remove(formed(5).running(), 4), "n4 is no longer a control-plane node", nil},
		{"one of seven, the most there may be", formed(8).running().unjoined(8).undeclared(7), remove(formed(8).running(), 7), "n7 is no longer a control-plane node", nil},
		{"a stranger stands where the fresh one is to be", foreignOn4(), op.RemoveMember{Member: foreignOn4().Seen.Etcd.Members[3]}, "has no membership on record", nil},
	})
}

// Requirements N6, I14: leadership is moved, alarms are cleared and databases rewritten only as the gate allows.
func TestDecide_MaintainsEtcdWhenAsked(t *testing.T) {
	checkAsked(t, []askedRow{
		{"move the leader", formed(3).asked(cke.TaskMoveLeader, "n2", ""), does("move-leader", false)},
		{"to a learner", formed(3).learner(3, true).asked(cke.TaskMoveLeader, "n3", ""), refusal(cke.CodeCannot, "is a learner")},
		{"to a dead one", formed(3).silent(3).asked(cke.TaskMoveLeader, "n3", ""), refusal(cke.CodeCannot, "does not serve")},
		{"to an unknown node", formed(3).asked(cke.TaskMoveLeader, "n9", ""), refusal(cke.CodeCannot, "its nodes are n1, n2 and n3")},
		{"to a node without member", formed(3).unjoined(3).asked(cke.TaskMoveLeader, "n3", ""), refusal(cke.CodeCannot, "n3 carries no member")},
		{"defragment all", formed(3).asked(cke.TaskDefragment, "", ""), func(d strategy.Decision) bool {
			o, is := d.Operation.(op.Defragment)
			return is && len(o.Joins) == 3 && o.Joins[2].Node.Name() == "n1" // the leader last
		}},
		{"defragment one", formed(3).asked(cke.TaskDefragment, "n2", ""), func(d strategy.Decision) bool {
			o, is := d.Operation.(op.Defragment)
			return is && len(o.Joins) == 1 && o.Joins[0].Node.Name() == "n2"
		}},
		{"not while one is dead", formed(3).silent(3).asked(cke.TaskDefragment, "n2", ""), refusal(cke.CodeQuorum, "2 of 3 voters are healthy")},
		{"not while a node is drained", formed(3).drained(3).asked(cke.TaskDefragment, "n2", ""), refusal(cke.CodeQuorum, "n3 is drained")},
		{"the only one", formed(1).asked(cke.TaskDefragment, "", ""), does("defragment", false)},
		{"an alarm", formed(3).asked(cke.TaskDisarm, "", "").with(func(s *scene) { s.Seen.Etcd.Alarms = []cke.Alarm{{Kind: "NOSPACE", MemberID: "m1"}} }), does("disarm", false)},
		{"no alarm", formed(3).asked(cke.TaskDisarm, "", ""), func(d strategy.Decision) bool { _, is := d.Operation.(op.Settled); return is }},
		{"authentication", formed(3).asked(cke.TaskAuth, "", cke.AuthOn), does("enable-authentication", false)},
		{"no authentication", formed(3).asked(cke.TaskAuth, "", cke.AuthOff), does("disable-authentication", false)},
		{"some authentication", formed(3).asked(cke.TaskAuth, "", "perhaps"), refusal(cke.CodeCannot, "want enable or disable")},
		{"a user", formed(3).with(orders(cke.UserOrder{Action: cke.UserAdd, Name: "app", Prefix: "/app/"})), does("change-user", false)},
		{"a reserved user", formed(3).with(orders(cke.UserOrder{Action: cke.UserRemove, Name: "root"})), refusal(cke.CodeCannot, "reserved")},
		{"a user without a name", formed(3).asked(cke.TaskUser, "", ""), refusal(cke.CodeCannot, "which user")},
		{"no user while authentication refuses cke", formed(3).denied().with(orders(cke.UserOrder{Action: cke.UserRemove, Name: "app"})), refusal(cke.CodeAuth, "does not have the role root")},
		{"nothing while authentication refuses cke", formed(3).denied().asked(cke.TaskCompare, "", ""), refusal(cke.CodeAuth, "does not have the role root")},
		{"what nobody knows", formed(3).asked("dance", "", ""), refusal(cke.CodeCannot, "does not support")},
		{"no quorum: it waits", formed(3).silent(2, 3).lost().asked(cke.TaskMoveLeader, "n2", ""), notFor("n2 and n3 do not answer")},
		{"paused: it waits", formed(3).asked(cke.TaskMoveLeader, "n2", "").held(), notFor("paused")},
	})
}

// Requirements A1, A22, I11: one node at a time, never below quorum, and a gap only where a person wants it.
func TestDecide_DrainsOneNodeAtATime(t *testing.T) {
	checkAsked(t, []askedRow{
		{"a follower", formed(3).asked(cke.TaskDrain, "n2", ""), does("drain-node", false)},
		{"the leader", formed(3).asked(cke.TaskDrain, "n1", ""), does("drain-node", false)},
		{"one that is dead already", formed(3).stopped(2).drained(2).asked(cke.TaskDrain, "n2", ""), does("drain-node", false)},
		{"a second node", formed(3).drained(3).asked(cke.TaskDrain, "n2", ""), refusal(cke.CodeDrain, "n2 cannot be drained: n3 is drained by ann@boot-1 (new kernel) until 2026-05-01T13:00:00Z")},
		{"after the other one's time", formed(3).asked(cke.TaskDrain, "n2", "").with(func(s *scene) {
			s.Requests.Drains = []cke.Drain{{Node: "n3", Until: noon}}
		}), does("drain-node", false)},
		{"while another one is dead", formed(3).silent(3).asked(cke.TaskDrain, "n2", ""), refusal(cke.CodeQuorum, "draining n2 would lose quorum; 2 of 3 voters are healthy")},
		{"of five, while another one is dead", formed(5).silent(3).asked(cke.TaskDrain, "n2", ""), refusal(cke.CodeQuorum, "4 of 5 voters are healthy")},
		{"of two", formed(2).asked(cke.TaskDrain, "n2", ""), refusal(cke.CodeQuorum, "now 2 voters, 2 healthy; meanwhile 1 healthy, 2 needed")},
		{"of two, which the person accepts", formed(2).asked(cke.TaskDrain, "n2", "").accepted(), does("drain-node", false)},
		{"of three, which the person accepts in vain", formed(3).silent(3).asked(cke.TaskDrain, "n2", "").accepted(), refusal(cke.CodeQuorum, "2 of 3")},
		{"a silent node", formed(3).silent(2).asked(cke.TaskDrain, "n2", ""), refusal(cke.CodeCannot, "n2 does not answer")},
		{"a node without member", formed(3).unjoined(3).asked(cke.TaskDrain, "n3", ""), does("drain-node", false)},
		{"an unknown node", formed(3).asked(cke.TaskDrain, "n9", ""), refusal(cke.CodeCannot, "its nodes are")},
	})
}

// While a node is down for maintenance its member is not started, and no other one that serves is taken away. What keeps
// data safe goes on.
func TestDecide_LeavesADrainedNodeAlone(t *testing.T) {
	edited := func(s *scene) { s.Spec.Options.Etcd.ExtraArgs = []string{"--x"} }
	f := formed(5).running()
	check(t, []row{
		{"it is not started", formed(3).running().drained(2), nil, "waiting for n2", []string{"CKE112 n2"}},
		{"nor when it is silent", formed(3).running().drained(2).silent(2), nil, "waiting for n2", []string{"CKE112 n2"}},
		{"until its time is over", formed(3).running().drained(2).with(func(s *scene) { s.Requests.Drains[0].Until = noon }),
			op.StartMembers{Joins: f.Identity.Joins[1:2], AwaitServing: true}, "n2 stopped", nil},
		{"others are started", formed(5).running().drained(2).stopped(3), op.StartMembers{Joins: f.Identity.Joins[2:3], AwaitServing: true}, "n3 stopped", nil},
		{"no restart", formed(5).running().with(edited).with(func(s *scene) { s.drained(2); s.endpoint(2).Version = "3.6.16" }), nil, "restarting it waits: 4 of 5 voters are healthy", []string{"CKE104 n2", "CKE112 n2"}},
		{"no removal of one that serves", formed(5).running().drained(2).undeclared(3), nil, "n2 is drained by ann@boot-1 (new kernel) until 2026-05-01T13:00:00Z; no other healthy voter is taken away meanwhile", []string{"CKE104 n3"}},
		{"provably lost data is replaced", formed(5).running().drained(2).wiped(3).with(func(s *scene) {
			s.Spec.Policies.Replace.Mode = cke.ReplaceAuto
			s.Before.Members = []cke.MemberStatus{{Name: "n3", Join: s.join(3).ID, State: "missing", Watched: cke.Duration(time.Hour)}}
		}), repairing(remove(f, 3)), "the data of n3 is gone", nil},
		{"no member is added there", formed(4).running().unjoined(3).with(func(s *scene) {
			s.Requests.Drains = []cke.Drain{{Node: "n3", Until: noon.Add(time.Hour)}}
		}), nil, "n3 is drained until 2026-05-01T13:00:00Z; it gets a member after that", []string{"CKE112 n3"}},
	})
}

// Nothing wakes the loop when a lease runs out but the clock.
func TestDecide_LooksAgainWhenALeaseRunsOut(t *testing.T) {
	left := noon.Add(time.Hour).Sub(formed(3).Seen.ObservedAt)
	if d := strategy.Decide(formed(3).running().drained(2).Input); d.Operation != nil || d.Again != left {
		t.Errorf("%v, again in %s, want %s", d.Operation, d.Again, left)
	}
}

// Requirements A15, A16, A17, I6: scaled to zero, every member keeps its data, and nothing starts one.
func TestDecide_HibernatesACluster(t *testing.T) {
	f := formed(3)
	stop := func(leader cke.JoinID, i ...int) op.Hibernate {
		h := op.Hibernate{Leader: leader, Backup: leader != ""}
		for _, n := range i {
			h.Joins = append(h.Joins, f.join(n))
		}
		return h
	}
	asleep := func() *scene { return formed(3).stopped(1, 2, 3).lost().hibernated() }
	check(t, []row{
		{"all run", formed(3).hibernated(), stop("join1", 2, 3, 1), "hibernated by ann@boot-1; no member may run", nil},
		{"one runs, and nobody leads", formed(3).stopped(1, 2).lost().hibernated(), stop("", 3), "no member may run", nil},
		{"none runs", asleep(), nil, "all 3 members are stopped, all data is kept", nil},
		{"one starts by itself", asleep().with(func(s *scene) { s.container(2).State = cke.ContainerRestarting }), stop("", 2), "no member may run", nil},
		{"a node is silent", asleep().silent(2), nil, "2 of 3 members are known to be stopped, all data is kept; members on nodes that do not answer are stopped once those do: n2", []string{"CKE201 n2"}},
		{"no change of options", asleep().with(func(s *scene) { s.Spec.Options.Etcd.ExtraArgs = []string{"--x"} }), nil, "all 3 members are stopped", nil},
		{"a pause goes first", formed(3).hibernated().held(), nil, "paused", nil},
		{"resumed", formed(3).stopped(1, 2, 3).lost(), op.StartMembers{Joins: f.Identity.Joins, AwaitServing: true}, "quorum is lost, 0 of 3 members run", nil},
		{"the only member of a cluster", formed(1).stopped(1).lost(), op.StartMembers{Joins: formed(1).Identity.Joins, AwaitServing: true}, "n1 stopped", nil},
	})
	checkAsked(t, []askedRow{
		{"a task is refused", asleep().asked(cke.TaskMoveLeader, "n2", ""), refusal(cke.CodeCannot, "cluster demo is hibernated")},
	})
}

func TestReport_TellsOfHibernationAndLeases(t *testing.T) {
	s := formed(3).stopped(1, 2, 3).lost().hibernated().report()
	asleep, _ := s.Condition(cke.CondHibernated)
	if s.Health != cke.HealthHibernated || s.Summary != "all 3 members are stopped, all data is kept" || asleep.Status != cke.True || len(s.Problems) > 0 {
		t.Errorf("%s %s %+v %v", s.Health, s.Summary, asleep, s.Problems)
	}
	for _, m := range s.Members {
		if m.State != "hibernated" || !m.CanStop || m.Ready {
			t.Errorf("%+v", m)
		}
	}
	s = formed(3).stopped(1, 2, 3).lost().hibernated().silent(2).report()
	if asleep, _ = s.Condition(cke.CondHibernated); asleep.Status != cke.Unknown || s.Members[1].State != "unreachable" {
		t.Errorf("%+v %+v", asleep, s.Members[1])
	}
	s = formed(3).hibernated().report()
	if asleep, _ = s.Condition(cke.CondHibernated); asleep.Status != cke.False || s.Health != cke.HealthHibernated {
		t.Errorf("%s %+v", s.Health, asleep)
	}
	s = formed(3).drained(2).report()
	leased, _ := s.Condition(cke.CondDrained)
	if s.Health != cke.HealthDegraded || s.Members[1].State != "drained" || leased.Status != cke.True || len(s.Drains) != 1 {
		t.Errorf("%s %+v %+v %v", s.Health, s.Members[1], leased, s.Drains)
	}
}

// Requirements A1, A22, I11: `can-stop`, as one read of the status.
func TestReport_TellsWhichNodesMayGoDown(t *testing.T) {
	for name, row := range map[string]struct {
		scene *scene
		yes   string // members that may stop
		why   string // of the first that may not
	}{
		"all is well":             {formed(3), "n1 n2 n3", ""},
		"one is dead":             {formed(3).silent(3), "n3", "2 of 3 voters are healthy"},
		"one of two":              {formed(2), "", "now 2 voters, 2 healthy; meanwhile 1 healthy, 2 needed"},
		"one of one":              {formed(1), "", "now 1 voter, 1 healthy; meanwhile 0 healthy, 1 needed"},
		"a learner is under way":  {formed(3).running().learner(3, true).with(func(s *scene) { s.endpoint(3).RaftApplied = 1 }), "n3", "a member was added"},
		"a node is drained":       {formed(5).drained(2), "n2", "n2 is drained by ann@boot-1"},
		"a change is in flight":   {formed(3).running().with(func(s *scene) { s.Spec.Options.Etcd.ExtraArgs = []string{"--x"} }), "", "restart-member is under way"},
		"no quorum":               {formed(3).silent(2, 3).lost(), "", "no member list could be read through a quorum"},
		"a node without a member": {formed(3).unjoined(3).with(func(s *scene) { s.Requests.Hold = &cke.Hold{Reason: "x"} }), "n3", "now 2 voters"},
		"frozen":                  {formed(3).with(func(s *scene) { s.endpoint(3).ClusterID = "c2" }), "", "the cluster is frozen"},
		"not formed":              {forming(3, true), "", "is under way"},
	} {
		var yes []string
		why := ""
		for _, m := range row.scene.report().Members {
			switch {
			case m.CanStop != (m.CannotStopBecause == ""):
				t.Errorf("%s: %+v", name, m)
			case m.CanStop:
				yes = append(yes, m.Name)
			case why == "":
				why = m.CannotStopBecause
			}
		}
		if strings.Join(yes, " ") != row.yes || !strings.Contains(why, row.why) {
			t.Errorf("%s: %v may stop, else %q", name, yes, why)
		}
	}
}

// A part of a task that failed is tried again, after a pause; the rules below have their turn meanwhile.
func TestDecide_HoldsAPartOfATaskBackThatFailed(t *testing.T) {
	s := formed(5).running().gaveUp(3).asked(cke.TaskReplace, "n3", "join3")
	d := strategy.Decide(s.Input)
	s.failed(d.Operation, 5, 0)
	if d = strategy.Decide(s.Input); d.Operation != nil || !strings.Contains(d.Reason, "tried again") {
		t.Errorf("%v %s", d.Operation, d.Reason)
	}
	if d = strategy.Decide(s.undeclared(2, 4).Input); d.Operation == nil || d.Task != "" {
		t.Errorf("%v %s", d.Operation, d.Reason)
	}
}
