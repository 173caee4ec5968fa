package strategy_test

import (
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// ledBy lets members answer that one leads.
func (s *scene) ledBy(leader string, members ...int) *scene {
	for _, i := range members {
		s.endpoint(i).LeaderID = leader
	}
	return s
}

// The look before showed the same.
func (s *scene) twice() *scene {
	s.Before.Incarnation, s.Before.Etcd = s.Identity.Incarnation.ID, s.Seen.Etcd
	return s
}

// A disk that was put back to when its member was alone serves by itself, under the id of the cluster that goes on without it.
func TestDecide_FreezesTwoClustersOfOneID(t *testing.T) {
	finding := func(s *scene, one, other, node string) op.Freeze {
		return found(s, cke.FreezeTwoQuorums, "two-quorums c1", node, cke.CodeSplitBrain, "the members at https://10.0.0."+one+":2379 and https://10.0.0."+other+":2379 serve separately: two clusters have the id c1",
			"keep all data directories, and find out which data is right with `ckecli cluster evidence`; name the nodes with the wrong data: `ckecli cluster unfreeze --wrong NODE`; then `ckecli replace` them")
	}
	split := func() *scene { return formed(3).ledBy("m1", 1, 2).ledBy("m3", 3) }
	alone := func() *scene {
		s := formed(3).ledBy("m3", 1, 2, 3)
		s.Seen.Etcd.Members = s.Seen.Etcd.Members[2:]
		return s
	}
	named := func() *scene {
		s := split().twice().running().frozenBy("two-quorums c1", true)
		s.Identity.Joins[2].Apart = true
		return s
	}
	refound := finding(split(), "1", "3", "n3")
	refound.Finding += " f1"
	check(t, []row{
		{"led by two", split().twice(), finding(split(), "1", "3", "n3"), "frozen", []string{"CKE302 n3"}},
		{"an election between two answers", split(), nil, "nothing to do", nil},
		{"one has stopped serving", split().with(func(s *scene) { s.endpoint(3).Linearizable = false }).twice(), nil, "", []string{"CKE215 n3"}},
		{"the list is that of one of them", alone().twice(), finding(alone(), "1", "3", "n3"), "frozen", []string{"CKE302 n3"}},
		{"a removal between two answers", alone(), nil, "not in the member list that was read, but serves", []string{"CKE302 n1"}},
		{"a person lifted it, and named n3", named(), op.StopApart{Join: named().join(3)}, "was put aside", nil},
		{"others serve apart after that", split().twice().frozenBy("two-quorums c1", true), refound, "frozen", []string{"CKE302 n3"}},
	})
}

// One answer that is missing does not make the list of the member that is alone a fact: another one that serves contradicts it.
func TestDecide_EndsNobodyByAListThatServingMembersContradict(t *testing.T) {
	s := formed(3).running().ledBy("m1", 1).ledBy("m3", 2, 3)
	s.Seen.Etcd.Members = s.Seen.Etcd.Members[:1]
	s.endpoint(2).Linearizable, s.endpoint(2).Serializable, s.endpoint(2).Problem = false, false, "no answer"
	d := strategy.Decide(s.Input)
	if o, ends := d.Operation.(op.EndMembership); ends {
		t.Errorf("ends the membership of %s: %s", o.Join.Node.Name(), d.Reason)
	}
}

// Also where a person has lifted the freeze.
func TestDecide_WhoServesApartIsNoVoterThatOthersMayCountOn(t *testing.T) {
	s := formed(3).running().ledBy("m1", 1, 2).ledBy("m3", 3).twice().frozenBy("two-quorums c1", true)
	s.Spec.Options.Etcd.ExtraArgs = []string{"--max-txn-ops=256"}
	if r, restarts := strategy.Decide(s.Input).Operation.(op.RestartMember); restarts {
		t.Errorf("restarts %s", r.Join.Node.Name())
	}
}

// n3 served apart, and a person judged that n1 and n2 have the right data: it is not started again, whether they serve just now or not.
func TestDecide_DoesNotStartTheOtherClusterAgain(t *testing.T) {
	apart := func() *scene {
		s := formed(3).running().frozenBy("two-quorums c1", true).stopped(3)
		s.Identity.Joins[2].Apart, s.container(3).KeptDown = true, true
		return s
	}
	for _, s := range []*scene{apart(), apart().silent(1), apart().with(func(s *scene) { s.Seen.Partial = true })} {
		if d := strategy.Decide(s.Input); d.Operation != nil && strings.HasPrefix(d.Operation.Name(), "start") {
			t.Errorf("%v, %s", d.Operation, d.Reason)
		}
	}
	check(t, []row{{"the others are", apart().marked(3).stopped(2), op.StartMembers{Joins: []cke.Join{apart().join(2)}, AwaitServing: true}, "n2 stopped", nil}})
}

// The list is that of n3 alone, whose disk was put back to when it was. n2's machine is off, so that n1 serves nobody.
func TestDecide_AListOfFewerThanAQuorumEndsNoMembership(t *testing.T) {
	alone := func() *scene {
		s := formed(3).running().ledBy("m3", 3).silent(2).frozenBy("two-quorums c1", true)
		s.Seen.Etcd.Members = s.Seen.Etcd.Members[2:]
		s.endpoint(1).Linearizable = false
		return s
	}
	left := alone()
	end := op.EndMembership{Join: left.join(1), Agreed: []cke.JoinID{"join1", "join2"}}
	check(t, []row{
		{"nobody has it leave", alone(), nil, "lacks n1 and n2, and has no quorum of the members on record", []string{"CKE302 n1", "CKE302 n2"}},
		{"a person replaces one of them", alone().asked(cke.TaskReplace, "n1", "join1"), nil, "lacks n2, and has no quorum of the members on record", []string{"CKE302 n2"}},
		{"a person replaces both", alone().asked(cke.TaskReplace, "n1", "join1").asked(cke.TaskReplace, "n2", "join2"), end, "no longer in the member list", nil},
	})
}

// electing is a list of n3 alone, while n1 and n2 run, have no leader, and are to be replaced: they are the right quorum, and may elect one.
func electing() *scene {
	s := formed(3).running().ledBy("m3", 3).frozenBy("two-quorums c1", true)
	s.Seen.Etcd.Members = s.Seen.Etcd.Members[2:]
	for _, i := range []int{1, 2} {
		s.endpoint(i).Linearizable, s.endpoint(i).LeaderID = false, ""
	}
	return s.asked(cke.TaskReplace, "n1", "join1").asked(cke.TaskReplace, "n2", "join2")
}

// They get a minute for it, from when they were seen so, and while they are observed.
func TestDecide_WaitsWhileMembersThatTheListLacksMayElectALeader(t *testing.T) {
	since := func(ago, observed time.Duration) func(*scene) {
		return func(s *scene) {
			s.Before.ObservedAt = noon.Add(-observed)
			s.Before.Electing = &cke.Electing{Members: []cke.JoinID{"join1", "join2"}, Since: noon.Add(-ago)}
		}
	}
	starting := func(s *scene) {
		for _, i := range []int{1, 2} {
			*s.endpoint(i) = cke.EndpointStatus{Join: s.join(i).ID, URL: s.join(i).ClientURL(), Problem: "connection refused"}
		}
	}
	learner := func(s *scene) {
		j := s.join(3)
		j.ID, j.MemberID, j.StartedAt, j.Volume = "join4", "", time.Time{}, "etcd.join4"
		j.Node = cke.Node{Address: "10.0.0.14", ControlPlane: true}
		s.Spec.Nodes, s.Seen.Nodes = append(s.Spec.Nodes, j.Node), append(s.Seen.Nodes, cke.NodeStatus{Node: j.Node})
		s.Identity.Joins = append(s.Identity.Joins, j)
	}
	aside := formed(5).running().ledBy("m3", 3).frozenBy("two-quorums c1", true).marked(4, 5)
	aside.Seen.Etcd.Members = aside.Seen.Etcd.Members[2:3]
	for i, n := range map[int]string{1: "1", 2: "2", 4: "4", 5: "5"} {
		aside.endpoint(i).Linearizable, aside.endpoint(i).LeaderID = false, ""
		aside.asked(cke.TaskReplace, "n"+n, "join"+n)
	}
	for _, i := range []int{4, 5} {
		aside.stopped(i)
		aside.Identity.Joins[i-1].Apart, aside.container(i).KeptDown = true, true
	}
	end := op.EndMembership{Join: electing().join(1), Agreed: []cke.JoinID{"join1", "join2"}, Leaderless: []cke.JoinID{"join1", "join2"}}
	down := end
	down.Leaderless = nil
	waits, blockers := "may elect a leader", []string{"CKE302 n1"}
	check(t, []row{
		{"it was just seen", electing(), nil, waits, blockers},
		{"a moment later", electing().with(since(30*time.Second, time.Second)), nil, waits, blockers},
		{"they elect none", electing().with(since(time.Minute, time.Second)), end, "no longer in the member list", nil},
		{"another one has come", electing().with(since(time.Minute, time.Second)).with(func(s *scene) { s.Before.Electing.Members = s.Before.Electing.Members[:1] }), nil, waits, blockers},
		{"nobody observed them meanwhile", electing().with(since(2*time.Minute, 2*time.Minute)), nil, waits, blockers},
		{"the clock was set back", electing().with(since(-time.Second, -time.Second)), nil, waits, blockers},
		{"their etcd starts", electing().with(starting), nil, waits, blockers},
		{"their etcd does not answer for a minute", electing().with(starting).with(since(time.Minute, time.Second)), end, "no longer in the member list", nil},
		{"one of them is stopped", electing().stopped(2), down, "no longer in the member list", nil},
		{"who was just recorded does not vote", electing().with(learner), nil, waits, blockers},
		{"who is put aside does not vote", aside, nil, waits, blockers},
	})
}

// The status has CKE302 of n1 for an hour, and the operator follows its remedy.
func TestReport_TheMinuteOfAnElectionIsNotThatOfAnotherProblem(t *testing.T) {
	var before cke.Status
	for _, ago := range []time.Duration{time.Hour, time.Second} {
		s := electing()
		s.Requests.Tasks, s.Seen.ObservedAt = nil, noon.Add(-ago)
		before = strategy.Report(s.Input, strategy.Decide(s.Input), before)
	}
	for at := time.Duration(0); ; at += 10 * time.Second {
		n := electing()
		n.Before, n.Seen.ObservedAt = before, noon.Add(at)
		d := strategy.Decide(n.Input)
		if _, ends := d.Operation.(op.EndMembership); ends != (at >= time.Minute) {
			t.Fatalf("after %s: %v, %s", at, d.Operation, d.Reason)
		}
		if at >= time.Minute {
			return
		}
		before = strategy.Report(n.Input, d, before)
	}
}

// Its machine is on again, and its engine started it; or would start it after the next reboot. Nobody moves it either.
func TestDecide_StopsWhoWasPutAside(t *testing.T) {
	aside := func() *scene {
		s := formed(3).running().ledBy("m1", 1, 2).ledBy("m3", 3).frozenBy("two-quorums c1", true)
		s.Identity.Joins[2].Apart = true
		return s
	}
	stop := op.StopApart{Join: aside().join(3)}
	two := aside().silent(1).with(func(s *scene) { s.Identity.Joins[1].Apart = true })
	silent := func() *scene {
		return aside().with(func(s *scene) {
			*s.endpoint(3) = cke.EndpointStatus{Join: "join3", URL: s.endpoint(3).URL, Problem: "no answer within 1s"}
		})
	}
	down := func(kept bool) *scene {
		return aside().stopped(3).marked(3).with(func(s *scene) { s.container(3).KeptDown = kept })
	}
	check(t, []row{
		{"it runs", aside(), stop, "was put aside", nil},
		{"its engine would start it", down(false), stop, "was put aside", nil},
		{"it is down for good", down(true), nil, "waiting for n3", []string{"CKE302 n3"}},
		{"it is down for good, and other ports are declared", down(true).with(func(s *scene) { s.Spec.Options.Etcd.ClientPort = 3379 }), nil, "", []string{"CKE104 n2", "CKE302 n3"}},
		{"it serves with the others", aside().ledBy("m1", 3).twice(), stop, "was put aside", nil},
		{"it leads them, and n2 is down", aside().ledBy("m3", 1, 3).silent(2), stop, "was put aside", nil},
		{"it does not answer, and n2 is down", silent().silent(2), stop, "was put aside", nil},
		{"two of three, and the third does not answer", two, op.StopApart{Join: two.join(2)}, "was put aside", nil},
	})
}

// n1 to n3 were chosen. n4 and n5 were put aside while their machines were off; they boot, and serve with each other.
func TestDecide_StopsTwoThatServeTogether(t *testing.T) {
	aside := func() *scene {
		s := formed(5).running().ledBy("m1", 1, 2, 3).ledBy("m5", 4, 5).frozenBy("two-quorums c1", true)
		s.Identity.Joins[3].Apart, s.Identity.Joins[4].Apart = true, true
		return s
	}
	s := aside().twice()
	check(t, []row{{"they run", s, op.StopApart{Join: s.join(4)}, "was put aside", nil}})

	// Their nodes are silent, the others have lost their quorum, and their list, which lacks n1 and n2, was read.
	s = aside().silent(1).twice()
	for _, i := range []int{4, 5} {
		s.Seen.Nodes[i-1].Problem = &cke.Problem{Code: cke.CodeUnreachable, Node: s.Seen.Nodes[i-1].Node.Name(), Message: "ssh: no answer"}
	}
	for _, i := range []int{2, 3} {
		s.endpoint(i).Linearizable, s.endpoint(i).LeaderID = false, ""
	}
	s.Seen.Etcd.Members = s.Seen.Etcd.Members[2:]
	if d := strategy.Decide(s.Input); d.Operation != nil {
		t.Errorf("%#v: %s", d.Operation, d.Reason)
	}
}

// What is put aside is on record: its container is none that the store does not know.
func TestNoBackups_NotForAMemberPutAside(t *testing.T) {
	s := formed(3).running().ledBy("m1", 1, 2).ledBy("m3", 3).frozenBy("two-quorums c1", true)
	s.Identity.Joins[2].Apart = true
	in := s.Input
	in.Identity = in.Identity.BackedUp()
	if why := strategy.NoBackups(&in); why != "" {
		t.Error(why)
	}
}

// n1 is what is left of the cluster; n3 was put aside, or is of another cluster, and has applied more.
func TestRestoreRefusal_NoSurvivorThatIsApart(t *testing.T) {
	lost := func(change func(s *scene)) *scene { return formed(3).running().silent(2).lost().with(change) }
	for name, s := range map[string]*scene{
		"put aside":          lost(func(s *scene) { s.Identity.Joins[2].Apart = true }),
		"of another cluster": lost(func(s *scene) { s.endpoint(3).ClusterID = "c2" }),
	} {
		for i := range s.Seen.Nodes {
			s.container(i + 1).Data = cke.DataPresent
		}
		order := cke.RestoreOrder{Survivor: "n3", Destroyed: []string{"n2"}}
		if err := strategy.RestoreRefusal(s.Input, order); err == nil || err.Code != cke.CodeSplitBrain {
			t.Errorf("%s: %v", name, err)
		}
		order.Named = true
		if err := strategy.RestoreRefusal(s.Input, order); err != nil {
			t.Errorf("%s, and named: %v", name, err)
		}
	}
}
