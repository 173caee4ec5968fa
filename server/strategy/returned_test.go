package strategy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// A node that the order calls destroyed and that answers with its member is stopped like any other: what prepares the restore starts
// again with it, and once that is on record the node is waited for.
func TestDestroyed_ANodeThatIsBackIsFencedAndWaitedFor(t *testing.T) {
	order := cke.RestoreOrder{Target: "file:///b", Source: "demo", Destroyed: []string{"n3"}}
	begun := func(change func(*scene)) *scene {
		s := formed(3).running()
		s.begunAt(noon, order)
		s.Identity.Joins = slices.DeleteFunc(s.Identity.Joins, func(j cke.Join) bool { return j.Node.Name() == "n3" })
		change(s)
		return s
	}
	away := strategy.Decide(begun(func(s *scene) { s.silent(3) }).Input)
	before, is := away.Operation.(op.Restore)
	if !is || len(before.Fence) != 2 || len(before.Gone) != 1 {
		t.Fatalf("while it is away: %#v, %s", away.Operation, away.Reason)
	}
	note := func(what string, change func(*scene)) op.Operation {
		t.Helper()
		d := strategy.Decide(begun(change).Input)
		n, is := d.Operation.(op.NoteReturned)
		if !is || !slices.Equal(n.Nodes, []string{"n3"}) {
			t.Fatalf("%s: %#v, %s", what, d.Operation, d.Reason)
		}
		return n
	}
	back := note("once it is back", func(*scene) {})
	note("while the restore waits for another node", func(s *scene) { s.silentNode(1) })
	note("while it is paused", func(s *scene) { s.Requests.Hold = &cke.Hold{Reason: "a look"} })
	note("while only its member answers", func(s *scene) { s.silent(3).answersBeside(3) })
	note("while a deletion is requested", func(s *scene) { s.Deleting = true })
	note("while the cluster is frozen", func(s *scene) { s.Identity.Freeze = &cke.Freeze{ID: "f", Kind: cke.FreezeUnequalData} })
	note("while another order waits", func(s *scene) { s.restored() })
	note("once the start of the restored members is on record", func(s *scene) { s.Identity.Joins[0].StartedAt = noon })
	if strategy.Superseded(before, back, nil, false) == nil || strategy.Superseded(before, before, nil, false) != nil {
		t.Error("what runs without it has to end, and no other one")
	}
	another := func(s *scene) {
		s.silent(3).answersBeside(3)
		s.Seen.Etcd.Superseded[2].MemberID = "another"
	}
	note("while a member of its cluster answers there that is not on record", another)
	if d := strategy.Decide(begun(func(s *scene) {
		another(s)
		n1 := slices.IndexFunc(s.Identity.Ended, func(j cke.Join) bool { return j.Node.Name() == "n1" })
		n3 := slices.IndexFunc(s.Identity.Ended, func(j cke.Join) bool { return j.Node.Name() == "n3" })
		s.Identity.Ended[n1].MemberID, s.Identity.Ended[n1].Node.Address = "another", s.Identity.Ended[n3].Node.Address
	}).Input); d.Operation != nil && d.Operation.Name() == back.Name() {
		t.Errorf("a member on record has its address: %#v, %s", d.Operation, d.Reason)
	}
	recorded := func(s *scene) { s.Identity.Incarnation.Restore.Returned = []string{"n3"} }
	if d := strategy.Decide(begun(recorded).Input); d.Operation == nil || len(d.Operation.(op.Restore).Fence) != 3 {
		t.Errorf("once that is on record: %#v", d.Operation)
	}
	recovery := strategy.Decide(begun(func(s *scene) {
		s.Identity.Incarnation.Restore.Order = cke.RestoreOrder{Survivor: "n1", Destroyed: []string{"n3"}}
		recorded(s)
		s.silent(3)
	}).Input)
	if _, is := recovery.Operation.(op.CancelRestore); !is {
		t.Errorf("silent again, in a recovery: %#v, %s", recovery.Operation, recovery.Reason)
	}
	if d := strategy.Decide(begun(func(s *scene) { recorded(s); s.silent(3) }).Input); d.Operation != nil || len(d.Blockers) != 1 {
		t.Errorf("silent again: %#v %v", d.Operation, d.Blockers)
	}
}

// Before a restore is on record, what is seen of nodes that its order calls destroyed would be forgotten: an order that waits is refused.
func TestDestroyed_AnOrderThatWaitsIsRefusedOnceTheyAreSeen(t *testing.T) {
	asked := func(changes ...func(*scene)) *scene {
		s := formed(3).running().silent(2).lost().restored("n2", "n3").destroyed()
		for _, change := range changes {
			change(s)
		}
		return s
	}
	seen := refusal(cke.CodeFence, "while the order waited")
	away := func(s *scene) { s.silent(3) }
	for name, wait := range map[string]func(*scene){
		"a pause":                  func(s *scene) { s.Requests.Hold = &cke.Hold{Reason: "an observation"} },
		"a deletion":               func(s *scene) { s.Deleting = true },
		"another revision is read": func(s *scene) { s.Requests.Tasks[0].Restore.ShownGeneration = s.Generation + 1 },
	} {
		if d := strategy.Decide(asked(wait).Input); !seen(d) || d.Task == "" {
			t.Errorf("%s: %#v, %s", name, d.Operation, d.Reason)
		}
		if d := strategy.Decide(asked(wait, away).Input); seen(d) {
			t.Errorf("%s, and they are away: %s", name, d.Reason)
		}
	}
	if d := strategy.Decide(asked(away).Input); d.Operation == nil || d.Operation.Name() != "begin-restore" {
		t.Fatalf("%#v, %s", d.Operation, d.Reason)
	} else if strategy.Outrun(d.Operation, &asked(away).Input) != nil || strategy.Outrun(d.Operation, &formed(3).running().Input) == nil {
		t.Error("what reads the backups has to end once they are back, and only then")
	}
}

// answersBeside lets the member on the ith node answer that a restore under way replaces, if such members are asked.
func (s *scene) answersBeside(i int) {
	for k, f := range s.Identity.AskedBeside() {
		e := cke.EndpointStatus{Join: f.Join.ID, URL: f.URL, Problem: "no answer"}
		if k == i-1 {
			e.Problem, e.MemberID, e.ClusterID = "", f.ID, "before"
		}
		s.Seen.Etcd.Superseded = append(s.Seen.Etcd.Superseded, e)
	}
}

// Once the start is on record, a node that was seen with its member is waited for until a quorum of the restored members runs.
func TestDestroyed_ANodeThatWasSeenIsWaitedForUntilRestoredMembersRun(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*scene)
		waits  bool
	}{
		"it was not seen":             {func(s *scene) { s.Identity.Incarnation.Restore.Returned = nil; s.stopRestored(1, 2) }, false},
		"none runs":                   {func(s *scene) { s.stopRestored(1, 2) }, true},
		"one of two ran, and no more": {func(s *scene) { s.stopRestored(2) }, true},
		"both run":                    {func(*scene) {}, false},
	} {
		s := startedRestore().silent(3)
		s.Identity.Joins = s.Identity.Joins[:2]
		r := s.Identity.Incarnation.Restore
		r.Order.Destroyed, r.Returned = []string{"n3"}, []string{"n3"}
		c.change(s)
		if d := strategy.Decide(s.Input); c.waits != (d.Operation == nil && slices.ContainsFunc(d.Blockers, func(p cke.Problem) bool { return p.Node == "n3" && strings.Contains(p.Remedy, "is lost then") })) {
			t.Errorf("%s: %#v, %v", name, d.Operation, d.Blockers)
		}
	}
}

// stopRestored lets restored members have exited.
func (s *scene) stopRestored(nodes ...int) {
	for _, i := range nodes {
		s.container(i).State, s.container(i).Data = cke.ContainerExited, cke.DataPresent
		*s.endpoint(i) = cke.EndpointStatus{Join: s.join(i).ID, URL: s.join(i).ClientURL(), Problem: "connection refused"}
	}
}

// A node that was fenced once the start was on record is not waited for if it dies again, unless it was seen with a member since. One that was
// never fenced is, and so is a node of an earlier record, which does not say.
func TestDestroyed_AFencedNodeThatDiesIsNotWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*scene, *cke.Restoration)
		waits  bool
	}{
		"it was fenced":                    {func(s *scene, r *cke.Restoration) { r.Fenced = []cke.JoinID{r.Fence[2]} }, false},
		"another one was fenced":           {func(s *scene, r *cke.Restoration) { r.Fenced = []cke.JoinID{r.Fence[1]} }, true},
		"it was fenced, and was seen then": {func(s *scene, r *cke.Restoration) { r.Fenced, r.Reappeared = []cke.JoinID{r.Fence[2]}, []string{"n3"} }, true},
		"an earlier cke recorded it":       {func(*scene, *cke.Restoration) {}, true},
	} {
		s := startedRestore().silent(3)
		s.Identity.Joins = s.Identity.Joins[:2]
		r := s.Identity.Incarnation.Restore
		r.Order.Destroyed, r.Returned = []string{"n3"}, []string{"n3"}
		s.stopRestored(1, 2)
		c.change(s, r)
		d := strategy.Decide(s.Input)
		if _, restores := d.Operation.(op.Restore); restores == c.waits || c.waits != (len(d.Blockers) == 1) {
			t.Errorf("%s: %#v, %s", name, d.Operation, d.Reason)
		}
	}
	s := startedRestore().silent(3)
	s.Identity.Joins = s.Identity.Joins[:2]
	r := s.Identity.Incarnation.Restore
	r.Order.Destroyed, r.Returned, r.Fenced = []string{"n3"}, []string{"n3"}, []cke.JoinID{r.Fence[2]}
	s.answersBeside(3)
	if n, is := strategy.Decide(s.Input).Operation.(op.NoteReturned); !is || !slices.Equal(n.Nodes, []string{"n3"}) || !slices.Equal(r.Noted("n3").Reappeared, []string{"n3"}) {
		t.Error("it is seen again, and that is not put on record")
	}
}

// The start of a recovery is on record, and nodes that its order calls destroyed were seen with members: it is withdrawn as long as no restored
// member can have served.
func TestDestroyed_TheStartOfARecoveryIsWithdrawn(t *testing.T) {
	for name, c := range map[string]struct {
		change    func(*scene)
		withdraws bool
	}{
		"none ran":                       {func(*scene) {}, true},
		"one of three does not answer":   {func(s *scene) { s.silentNode(1) }, true},
		"two of three do not answer":     {func(s *scene) { s.silentNode(1); s.silentNode(2) }, false},
		"one ran":                        {func(s *scene) { s.container(2).StartedAt = noon }, false},
		"one was made again":             {func(s *scene) { s.container(2).ID = "later" }, false},
		"one is gone":                    {func(s *scene) { s.node(2).Containers = nil }, false},
		"an earlier cke recorded it":     {func(s *scene) { s.Identity.Incarnation.Restore.Prepared = nil }, false},
		"no member was seen":             {func(s *scene) { s.Identity.Incarnation.Restore.Returned = nil }, false},
		"it is a restore from backups":   {func(s *scene) { s.Identity.Incarnation.Restore.Order.Survivor = "" }, false},
		"one that answers is not silent": {func(s *scene) { s.silentNode(1); s.endpoint(1).ClusterID = s.Identity.Incarnation.ClusterID }, false},
	} {
		s := startedRestore()
		r := s.Identity.Incarnation.Restore
		r.Order.Survivor, r.Order.Destroyed, r.Returned, r.Prepared = "n1", []string{"n9"}, []string{"n9"}, map[cke.JoinID]string{}
		for i := range s.Identity.Joins {
			box := s.container(i + 1)
			box.ID, box.State, box.StartedAt = "box"+string(box.Join), cke.ContainerCreated, time.Time{}
			r.Prepared[box.Join] = box.ID
			*s.endpoint(i + 1) = cke.EndpointStatus{Join: box.Join, Problem: "connection refused"}
		}
		c.change(s)
		d := strategy.Decide(s.Input)
		o, is := d.Operation.(op.WithdrawStart)
		if is != c.withdraws || is && len(o.Founders)+len(unanswered(s)) != 3 {
			t.Errorf("%s: %#v, %s", name, d.Operation, d.Reason)
		}
	}
}

func unanswered(s *scene) (silent []cke.NodeStatus) {
	return slices.DeleteFunc(slices.Clone(s.Seen.Nodes), cke.NodeStatus.Answered)
}

// What was seen while something else ran counts once there is something to decide: the order is refused, or the restore that it led to waits.
func TestDestroyed_WhatWasSeenMeanwhileIsNotForgotten(t *testing.T) {
	s := formed(3).running().silent(2).lost().restored("n2", "n3").destroyed()
	spec := cke.Spec{Cluster: s.Spec, Generation: s.Generation}
	observe := func(s *scene) strategy.Input {
		return strategy.NewInput(spec, s.Identity, s.Requests, s.Seen, s.Backup, cke.Status{})
	}
	during := observe(s)
	seen, _ := during.Sightings()
	if len(seen) != 1 || seen[0].Node != "n3" || seen[0].Order != s.Requests.Tasks[0].ID {
		t.Fatalf("%+v", seen)
	}
	s.Identity.Sighted = seen
	during = observe(s)
	if again, over := during.Sightings(); again != nil || over != nil {
		t.Errorf("seen again: %+v, over: %+v", again, over)
	}
	s.silent(3)
	if d := strategy.Decide(observe(s)); !refusal(cke.CodeFence, "n3 answers, and runs a member, at")(d) {
		t.Errorf("an order: %#v, %s", d.Operation, d.Reason)
	}
	order := *s.Requests.Tasks[0].Restore
	s.Requests.Unread, s.Requests.Tasks = []string{s.Requests.Tasks[0].ID}, nil
	unread := observe(s)
	if _, over := unread.Sightings(); over != nil {
		t.Errorf("an order that cannot be decoded: over: %+v", over)
	}
	s.begunAt(noon, order)
	s.Identity.Sighted = seen
	s.Identity.Incarnation.Restore.ID, s.Requests.Unread = s.Requests.Unread[0], nil
	begun := observe(s)
	n, is := strategy.Decide(begun).Operation.(op.NoteReturned)
	if _, over := begun.Sightings(); !is || !slices.Equal(n.Nodes, []string{"n3"}) || over != nil {
		t.Errorf("a restore: %#v, over: %+v", strategy.Decide(begun).Operation, over)
	}
	s.Identity.Incarnation.Restore.Returned = []string{"n3"}
	noted := observe(s)
	if _, over := noted.Sightings(); len(over) != 1 {
		t.Errorf("it is on record, and remembered: %+v", over)
	}
}

// An order waits that cannot be read, and may name a foreign member by its name or by its id.
func TestSightings_AnOrderThatCannotBeReadMayNameAMemberInEachWay(t *testing.T) {
	s := formed(3).stranger("f1").with(func(s *scene) {
		s.Requests.Unread, s.Seen.Etcd.Members[3].ClientURLs = []string{"t1"}, []string{"https://10.9.9.9:2379"}
		s.Seen.Etcd.Endpoints = append(s.Seen.Etcd.Endpoints, cke.EndpointStatus{URL: "https://10.9.9.9:2379", MemberID: "id-f1", ClusterID: s.endpoint(1).ClusterID})
	})
	seen, _ := s.Input.Sightings()
	for _, name := range []string{"f1", "id-f1"} {
		if !slices.ContainsFunc(seen, func(o cke.Sighting) bool { return o.Node == name && o.Order == "t1" }) {
			t.Errorf("%s: %+v", name, seen)
		}
	}
}
