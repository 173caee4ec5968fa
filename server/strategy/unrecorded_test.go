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

// fresh lets members of these nodes have been replaced since the store was copied: their containers, volumes and members are
// not on record.
func (s *scene) fresh(nodes ...int) *scene {
	for _, i := range nodes {
		j := s.join(i)
		id := j.ID + "b"
		c := s.container(i)
		c.Join, c.Name, c.Place, c.StartedAt = id, "etcd-cke."+string(id), j.Place(), noon
		s.node(i).Volumes = append(s.node(i).Volumes, cke.Volume{Name: c.Name, Cluster: "demo", Incarnation: j.Incarnation, Join: id})
		m := &s.Seen.Etcd.Members[i-1]
		m.ID += "b"
		m.ClientURLs = []string{j.ClientURL()}
		s.endpoint(i).MemberID = m.ID
	}
	return s
}

// elsewhere lets members have had other ports since the store was copied: they serve there, and are silent where they are on record.
func (s *scene) elsewhere(nodes ...int) *scene {
	for _, i := range nodes {
		j := s.join(i)
		j.ClientPort, j.PeerPort = 3379, 3380
		m, e, c := &s.Seen.Etcd.Members[i-1], s.endpoint(i), s.container(i)
		m.PeerURLs, m.ClientURLs, c.Place, c.Cluster = []string{j.PeerURL()}, []string{j.ClientURL()}, j.Place(), "demo"
		answer := *e
		answer.URL = j.ClientURL()
		s.Seen.Etcd.Elsewhere = append(s.Seen.Etcd.Elsewhere, cke.Elsewhere{EndpointStatus: answer, Place: j.Place(), Source: cke.MembersLinearizable})
		*e = cke.EndpointStatus{Join: j.ID, URL: e.URL, Problem: "connection refused"}
	}
	for i := range s.Seen.Etcd.Elsewhere {
		s.Seen.Etcd.Elsewhere[i].Members = s.Seen.Etcd.Members
	}
	return s
}

// unseen lets nobody answer where it is on record.
func (s *scene) unseen() *scene {
	s.Seen.Etcd.Quorate, s.Seen.Etcd.Members, s.Seen.Etcd.MembersSource = false, nil, cke.MembersUnknown
	return s
}

// startedLate lets the containers that members had before a change of ports run, where etcd's list has none of them any more.
func (s *scene) startedLate(nodes ...int) *scene {
	before := slices.Clone(s.Seen.Etcd.Members)
	s.elsewhere(nodes...)
	for i := range s.Seen.Etcd.Elsewhere {
		s.Seen.Etcd.Elsewhere[i].Members, s.Seen.Etcd.Elsewhere[i].Source, s.Seen.Etcd.Elsewhere[i].Linearizable = before, cke.MembersLocal, false
	}
	copy(s.Seen.Etcd.Members, before)
	return s
}

// A member that ended by record and lists nobody on record has a history of its own: it shows nothing about the record.
func TestDecide_AnEndedMemberThatServesAloneIsNoOlderStore(t *testing.T) {
	s := formed(3).elsewhere(2)
	s.Identity.Ended, s.Identity.Joins = s.Identity.Joins[1:2], slices.Delete(slices.Clone(s.Identity.Joins), 1, 2)
	e := &s.Seen.Etcd.Elsewhere[0]
	own := slices.DeleteFunc(slices.Clone(e.Members), func(m cke.Member) bool { return m.ID != e.MemberID })
	s.Seen.Etcd.Members = slices.DeleteFunc(slices.Clone(e.Members), func(m cke.Member) bool { return m.ID == e.MemberID })
	if !s.Identity.VotesElsewhere(s.Seen.Etcd) {
		t.Error("one that lists the others votes")
	}
	e.Members = own
	if s.Identity.VotesElsewhere(s.Seen.Etcd) {
		t.Error("one that lists itself alone votes")
	}
	if d := strategy.Decide(s.Input); d.Frozen != nil {
		t.Errorf("%+v", d)
	}
}

// A member that votes where it is not on record is left alone: the store is from before it was moved.
func TestDecide_StopsNobodyWhoVotesElsewhere(t *testing.T) {
	for name, s := range map[string]*scene{
		"one has moved":           formed(3).elsewhere(2),
		"all have":                formed(3).elsewhere(1, 2, 3).unseen(),
		"and a member is stopped": formed(3).elsewhere(1, 2).stopped(3).unseen(),
		"and a node is silent":    formed(3).elsewhere(1, 2).silent(3).unseen(),
		"and it has no quorum": formed(3).elsewhere(1).stopped(2, 3).unseen().with(func(s *scene) {
			s.Seen.Etcd.Elsewhere[0].Linearizable, s.Seen.Etcd.Elsewhere[0].Source = false, cke.MembersLocal
		}),
		"its membership ended by record": formed(3).elsewhere(2).with(func(s *scene) {
			s.Identity.Ended, s.Identity.Joins = s.Identity.Joins[1:2], slices.Delete(slices.Clone(s.Identity.Joins), 1, 2)
		}),
		"it lives, and more is to be done": formed(3).elsewhere(2).with(func(s *scene) { s.Spec.Options.Etcd.Version = "3.6.99" }),
	} {
		d := strategy.Decide(s.Input)
		f, frozen := d.Operation.(op.Freeze)
		if !frozen || f.Kind != cke.FreezeOlderStore || d.Frozen == nil || !strings.Contains(f.Problem.Message, ":3379") {
			t.Errorf("%s: %+v", name, d)
		}
	}
	for name, s := range map[string]*scene{
		"started late": formed(3).startedLate(1, 2, 3).unseen(),
		"of another cluster": formed(3).elsewhere(1, 2, 3).unseen().with(func(s *scene) {
			for i := range s.Seen.Etcd.Elsewhere {
				s.Seen.Etcd.Elsewhere[i].ClusterID = "c2"
			}
		}),
		"nobody answers there": formed(3).elsewhere(1, 2, 3).unseen().with(func(s *scene) {
			for i := range s.Seen.Etcd.Elsewhere {
				s.Seen.Etcd.Elsewhere[i] = cke.Elsewhere{EndpointStatus: cke.EndpointStatus{Join: s.join(i + 1).ID, Problem: "connection refused"}}
			}
		}),
	} {
		if d := strategy.Decide(s.Input); d.Operation == nil || d.Operation.Name() != "start-changed" {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// An operator puts members on record where they are, and those that cannot be matched hold all of it up.
func TestDecide_ReclaimsWhoMoved(t *testing.T) {
	asked := func(s *scene, shown ...cke.JoinID) *scene {
		s.Identity.Freeze = &cke.Freeze{ID: "f1", Kind: cke.FreezeOlderStore, Finding: "older-store join1 join2 join2b", Problem: cke.Problem{Code: cke.CodeOlderStore}, At: noon}
		s.Requests.Tasks = []cke.Task{{ID: "t1", Kind: cke.TaskReclaim, Reclaim: shown}}
		return s
	}
	s := asked(formed(3).elsewhere(1, 2).unseen(), "join1", "join2")
	s.Seen.Etcd.Elsewhere[1].Members = formed(3).elsewhere(1, 2).Seen.Etcd.Members
	o, reclaims := strategy.Decide(s.Input).Operation.(op.Reclaim)
	if !reclaims || len(o.Members) != 2 || len(o.Ends) != 0 || len(o.Archived) != 0 {
		t.Fatalf("%+v", strategy.Decide(s.Input))
	}
	if j, was := o.Members[0], s.join(1); j.ID != was.ID || j.ClientPort != 3379 || j.PeerPort != 3380 || j.Volume != was.Volume || j.MemberID != was.MemberID || j.StartedAt != was.StartedAt {
		t.Errorf("%+v", j)
	}
	matched := asked(formed(3).fresh(2), "join2b") // its container tells no place that the list has
	matched.container(2).Place = "https://10.0.0.2:5379 https://10.0.0.2:5380"
	e := *matched.endpoint(2)
	e.Join = "join2b"
	for name, place := range map[string]string{
		"none": "",
		"one whose port for clients is that of the member for its peers": "https://10.0.0.2:2380 https://10.0.0.2:2381",
	} {
		unmatched := asked(formed(3).fresh(2), "join2b")
		if unmatched.container(2).Place = place; !slices.Contains(unmatched.Seen.Etcd.Members[1].PeerURLs, "https://10.0.0.2:2380") {
			t.Fatalf("%+v", unmatched.Seen.Etcd.Members[1])
		}
		if _, refused := strategy.Decide(unmatched.Input).Operation.(op.Refuse); !refused {
			t.Errorf("%s: a container of an unknown member that runs is put on record: %+v", name, strategy.Decide(unmatched.Input).Operation)
		}
	}
	matched.Seen.Etcd.Elsewhere = []cke.Elsewhere{{EndpointStatus: e, Place: matched.container(2).Place}}
	if o, reclaims := strategy.Decide(matched.Input).Operation.(op.Reclaim); !reclaims || len(o.Members) != 1 || o.Members[0].MemberID != "m2b" {
		t.Errorf("%+v", strategy.Decide(matched.Input).Operation)
	}
}

// What people had asked for when the store was found to be older is not done, also after the freeze was lifted, until they ask again.
func TestDecide_HoldsRequestsOfAnOlderStore(t *testing.T) {
	input := func(s *scene, deletion time.Time, asked cke.Requests) strategy.Input {
		return strategy.NewInput(cke.Spec{Cluster: s.Spec, DeleteRequestedAt: deletion}, s.Identity, asked, s.Seen, nil, s.Before)
	}
	asked := cke.Requests{Hibernation: &cke.Hibernation{Since: noon}, Tasks: []cke.Task{{ID: "t1", Kind: cke.TaskRestore, Restore: &cke.RestoreOrder{Target: "file:///x"}}}}
	s := formed(3).elsewhere(2)
	f, freezes := strategy.Decide(input(s, noon, asked)).Operation.(op.Freeze)
	if !freezes || f.Held == nil || !f.Held.Deletion.Equal(noon) || !f.Held.Hibernation.Equal(noon) || !slices.Equal(f.Held.Tasks, []string{"t1"}) {
		t.Fatalf("%+v", f)
	}
	s = formed(3) // reclaimed
	s.Identity.Freeze = &cke.Freeze{ID: "f1", Kind: f.Kind, Finding: f.Finding, Held: f.Held, At: noon, LiftedAt: noon, OverAt: noon}
	if _, refused := strategy.Decide(input(s, noon, asked)).Operation.(op.Refuse); !refused {
		t.Error("the restore is begun")
	}
	another := asked // a restore would end the freeze that holds them
	another.Tasks = []cke.Task{{ID: "t2", Kind: cke.TaskRestore, At: noon, Restore: &cke.RestoreOrder{Target: "file:///x"}}}
	if o, refused := strategy.Decide(input(s, noon, another)).Operation.(op.Refuse); !refused || o.Why.Code != cke.CodeOlderStore {
		t.Errorf("%+v", o)
	}
	frozen := formed(3).elsewhere(2) // the copy was made while it was frozen for something else
	frozen.Identity.Freeze = &cke.Freeze{ID: "f0", Kind: cke.FreezeCorrupt, Finding: "corrupt", Problem: cke.Problem{Code: cke.CodeUnequalData}, At: noon}
	if f, found := strategy.Decide(input(frozen, noon, asked)).Operation.(op.Freeze); !found || f.Kind != cke.FreezeOlderStore || f.Held == nil || !f.Held.Deletion.Equal(noon) {
		t.Errorf("%+v", f)
	}
	asked.Tasks = nil
	in := input(s, noon, asked)
	if d := strategy.Decide(in); d.Operation != nil {
		t.Errorf("%+v", d)
	}
	if st := strategy.Report(in, strategy.Decide(in), cke.Status{}); len(st.Problems) != 1 || !strings.Contains(st.Problems[0].Message, "a deletion and a hibernation") || st.Health == cke.HealthDeleting || st.Health == cke.HealthHibernated {
		t.Errorf("%s %+v", st.Health, st.Problems)
	}
	later := noon.Add(time.Second)
	if o := strategy.Decide(input(s, later, asked)).Operation; o == nil || o.Name() != "delete-cluster" {
		t.Errorf("asked for again: %+v", o)
	}
	asked.Hibernation.Since = later
	if o := strategy.Decide(input(s, time.Time{}, asked)).Operation; o == nil || o.Name() != "hibernate" {
		t.Errorf("asked for again: %+v", o)
	}
}

// A restore is not called off by a store from before it, whose restored members were started since.
func TestDecide_CallsNoRestoreOffThatWasStarted(t *testing.T) {
	for name, s := range map[string]*scene{
		"one was started": forming(3, false).with(func(s *scene) { s.node(2).Containers = forming(3, true).Seen.Nodes[1].Containers }),
		"two are silent":  forming(3, false).silent(1, 2),
	} {
		s.Identity.Incarnation.State = cke.Restoring
		s.Requests.Tasks = []cke.Task{{ID: "t1", Kind: cke.TaskCancelRestore}}
		if _, refused := strategy.Decide(s.Input).Operation.(op.Refuse); !refused {
			t.Errorf("%s: %+v", name, strategy.Decide(s.Input).Operation)
		}
	}
}

// What somebody started of a restore that was called off before would serve in the name of the life that goes on.
func TestDecide_FencesAbandonedLivesBeforeItCallsARestoreOff(t *testing.T) {
	left := cke.Join{ID: "old", Incarnation: "gone", Volume: "etcd-cke.old"}
	for state, want := range map[cke.ContainerState][]cke.JoinID{cke.ContainerRunning: {"old"}, cke.ContainerRestarting: {"old"}, cke.ContainerExited: nil} {
		s := forming(3, false)
		s.Identity.Incarnation.State, s.Identity.Incarnation.Previous = cke.Restoring, []string{"gone"}
		n := s.node(2)
		n.Containers = append(n.Containers, cke.Container{Name: left.Volume, State: state, Cluster: "demo", Incarnation: left.Incarnation, Join: left.ID})
		s.Requests.Tasks = []cke.Task{{ID: "t1", Kind: cke.TaskCancelRestore}}
		cancels, is := strategy.Decide(s.Input).Operation.(op.CancelRestore)
		var got []cke.JoinID
		for _, j := range cancels.Fence {
			got = append(got, j.ID)
		}
		if !is || !slices.Equal(got, want) {
			t.Errorf("%s: %+v", state, strategy.Decide(s.Input).Operation)
		}
		if stages := cancels.Stages(); is && stages[0][0].Name != "fence" && want != nil {
			t.Errorf("%s: begins with %s", state, stages[0][0].Name)
		}
	}
}

// foreignDemo puts a member of another store's cluster of this name on a node.
func foreignDemo(n *cke.NodeStatus, state cke.ContainerState) {
	n.Containers = append(n.Containers, cke.Container{Name: "etcd-cke.ffff", State: state, KeptDown: state == cke.ContainerExited, Cluster: "demo", Incarnation: "elsewhere", Join: "ffff"})
}

// Requirement A11: members that the store does not know since it was brought back from a copy are evidence: nothing is changed.
func TestDecide_FreezesWhereTheStoreIsOlderThanTheCluster(t *testing.T) {
	for name, s := range map[string]*scene{
		"two members were replaced":                formed(3).fresh(2, 3),
		"and a member is stopped":                  formed(3).fresh(2, 3).stopped(1),
		"and there is no quorum":                   formed(3).fresh(2, 3).lost(),
		"all were replaced":                        formed(3).fresh(1, 2, 3),
		"a founding that has ended since":          forming(3, true).with(func(s *scene) { s.node(2).Containers[0].Join, s.node(2).Volumes[0].Join = "later", "later" }),
		"a restore has replaced the incarnation":   formed(3).stopped(1, 2, 3).lost().with(func(s *scene) { foreignDemo(s.node(2), cke.ContainerRunning) }),
		"one that the engine may start after that": formed(3).stopped(1, 2, 3).lost().with(func(s *scene) { foreignDemo(s.node(2), cke.ContainerExited); s.node(2).Containers[1].KeptDown = false }),
	} {
		t.Run(name, func(t *testing.T) {
			d := strategy.Decide(s.Input)
			f, frozen := d.Operation.(op.Freeze)
			if !frozen || f.Kind != cke.FreezeOlderStore || f.Problem.Code != cke.CodeOlderStore || len(f.Unrecorded) == 0 || d.Frozen == nil {
				t.Fatalf("%+v", d)
			}
			if h := strategy.Report(s.Input, d, cke.Status{}).Health; h != cke.HealthFrozen {
				t.Error(h)
			}
			s.Identity.Freeze = &cke.Freeze{ID: "f1", Kind: f.Kind, Finding: f.Finding, Problem: f.Problem, At: noon, LiftedAt: noon}
			for _, u := range f.Unrecorded { // what was accepted may have the data, and keeps its name in the status
				named := func(p cke.Problem) bool {
					return p.Code == cke.CodeNotOnRecord && strings.Contains(p.Message, u.Name) && strings.Contains(p.Remedy, "reclaim demo")
				}
				if st := strategy.Report(s.Input, strategy.Decide(s.Input), cke.Status{}); !slices.ContainsFunc(st.Problems, named) {
					t.Errorf("%s: %+v", u.Name, st.Problems)
				}
			}
			s.Identity.Freeze = nil
			s.Deleting = true
			if o, again := strategy.Decide(s.Input).Operation.(op.Freeze); !again {
				t.Errorf("deleted before it is on record that the store is older: %+v", o)
			}
			s.Identity.Freeze = &cke.Freeze{ID: "f1", Kind: f.Kind, Finding: f.Finding, Problem: f.Problem, At: noon}
			if d := strategy.Decide(s.Input); d.Operation != nil || !strings.Contains(d.Reason, "deletion waits") {
				t.Errorf("deleted: %+v", d)
			}
			s.Deleting = false
			s.Requests.Tasks = []cke.Task{{ID: "t1", Kind: cke.TaskRestore, Restore: &cke.RestoreOrder{Target: "file:///x"}}}
			if d := strategy.Decide(s.Input); d.Operation == nil || d.Operation.Name() == "begin-restore" {
				t.Errorf("restored beside them: %+v", d)
			}
		})
	}
}

// What is not on record, and says nothing about the store, is reported. Nobody is added beside it, and all else goes on.
func TestDecide_ReportsWhatIsNotOnRecord(t *testing.T) {
	report := func(s *scene) cke.Status { return strategy.Report(s.Input, strategy.Decide(s.Input), cke.Status{}) }
	s := formed(4).unjoined(4).with(func(s *scene) { foreignDemo(s.node(4), cke.ContainerRunning) })
	d := strategy.Decide(s.Input)
	if d.Operation != nil || len(d.Blockers) != 1 || d.Blockers[0].Code != cke.CodeNotOnRecord {
		t.Errorf("%+v", d)
	}
	archived := formed(3).with(func(s *scene) {
		s.node(2).Volumes = append(s.node(2).Volumes, cke.Volume{Name: "etcd-cke.old", Cluster: "demo", Incarnation: "deleted", Join: "old"})
	})
	if d := strategy.Decide(archived.Input); !d.Converged || d.Operation != nil {
		t.Errorf("%+v", d)
	}
	if st := report(archived); st.Health != cke.HealthReady || len(st.Problems) != 1 || st.Problems[0].Code != cke.CodeNotOnRecord || !strings.Contains(st.Problems[0].Remedy, "volume purge etcd-cke.old") {
		t.Errorf("%s %+v", st.Health, st.Problems)
	}
}

// The store is older than all members, and the operator has judged it: cke still sees them, and calls no cluster lost that they serve.
func TestDecide_KeepsTheLastMembershipOnRecord(t *testing.T) {
	alone := func() *scene {
		s := formed(1).running().marked(1).fresh(1)
		return s.judged()
	}
	s := alone()
	d := strategy.Decide(s.Input)
	if d.Operation != nil || len(d.Blockers) != 1 || d.Blockers[0].Code != cke.CodeStranger || !strings.Contains(d.Blockers[0].Remedy, "ckecli cluster reclaim demo") {
		t.Errorf("%+v", d)
	}
	s = alone() // an earlier daemon ended it
	j := s.join(1)
	s.end(j)
	s.Identity.Joins = nil
	s.Seen.Etcd.Elsewhere = []cke.Elsewhere{{EndpointStatus: *s.endpoint(1), Place: j.Place(), Source: cke.MembersLinearizable, Members: s.Seen.Etcd.Members}}
	s.Seen.Etcd.Elsewhere[0].Join, s.Seen.Etcd.Endpoints = j.ID+"b", nil
	s.unseen()
	d = strategy.Decide(s.Input)
	st := strategy.Report(s.Input, d, cke.Status{})
	if st.Health != cke.HealthUnknown || !slices.ContainsFunc(st.Problems, func(p cke.Problem) bool { return strings.Contains(p.Remedy, "ckecli cluster reclaim demo") }) || strings.Contains(d.Reason, "restore") {
		t.Errorf("%s %s\n%+v\n%+v", st.Health, st.Summary, d, st.Problems)
	}
	s = formed(1).running().marked(1).stranger("hand").with(func(s *scene) { s.Seen.Etcd.Members = s.Seen.Etcd.Members[1:] }).judged().asked(cke.TaskReclaim, "", "")
	s.Requests.Tasks[0].ReclaimChanges = []cke.JoinID{"join1"}
	if r, refused := strategy.Decide(s.Input).Operation.(op.Refuse); !refused || !strings.Contains(r.Why.Error(), "no node of this cluster file carries a member") {
		t.Errorf("%+v", strategy.Decide(s.Input))
	}
	s = formed(1).running().stranger("hand").asked(cke.TaskReplace, "n1", "join1")
	if r, refused := strategy.Decide(s.Input).Operation.(op.Refuse); !refused || !strings.Contains(r.Why.What, "without it cke could reach no member") {
		t.Errorf("%+v", strategy.Decide(s.Input))
	}
}

// Nor does a second membership help that has no member, or only a learner: cke could ask neither.
func TestDecide_KeepsTheLastMembershipOnRecordThatVotes(t *testing.T) {
	for name, second := range map[string]func(*scene) *scene{
		"only on record": (*scene).onlyRecorded,
		"a learner":      func(s *scene) *scene { return s.learner(2, true) },
		"put aside": func(s *scene) *scene {
			s.Identity.Joins[1].Apart, s.container(2).KeptDown = true, true
			return s.stopped(2).marked(2)
		},
	} {
		unlisted := func() *scene { // n1 is not in the list, by a mark it ended
			s := second(formed(2).running().stranger("f2", "f3")).with(func(s *scene) { s.Seen.Etcd.Members = s.Seen.Etcd.Members[1:] })
			return s.stopped(1).marked(1).judged()
		}
		d := strategy.Decide(unlisted().Input)
		if d.Operation != nil || !slices.ContainsFunc(d.Blockers, func(p cke.Problem) bool {
			return p.Code == cke.CodeStranger && p.Node == "n1" && strings.Contains(p.Remedy, "ckecli cluster reclaim demo")
		}) {
			t.Errorf("%s: %+v", name, d)
		}
		s := unlisted().asked(cke.TaskReclaim, "", "")
		s.Requests.Tasks[0].ReclaimChanges = []cke.JoinID{"join1"}
		if r, refused := strategy.Decide(s.Input).Operation.(op.Refuse); !refused || !strings.Contains(r.Why.Error(), "no node of this cluster file carries a member") {
			t.Errorf("%s, reclaimed: %+v", name, strategy.Decide(s.Input))
		}
		s = second(formed(2).running().stranger("f2", "f3")).asked(cke.TaskReplace, "n1", "join1")
		if r, refused := strategy.Decide(s.Input).Operation.(op.Refuse); !refused || !strings.Contains(r.Why.What, "without it cke could reach no member") {
			t.Errorf("%s, replaced: %+v", name, strategy.Decide(s.Input))
		}
	}
	s := formed(2).running().stranger("f2").with(func(s *scene) { s.Seen.Etcd.Members = s.Seen.Etcd.Members[1:] }).stopped(1)
	if d := strategy.Decide(s.marked(1).judged().Input); nameOf(d) != "end-membership" {
		t.Errorf("another one votes: %+v", d)
	}
}

// An operator puts on record what was shown, and nothing else.
func TestDecide_Reclaims(t *testing.T) {
	frozen := func(shown ...cke.JoinID) *scene {
		s := formed(3).fresh(2, 3)
		s.Identity.Freeze = &cke.Freeze{ID: "f1", Kind: cke.FreezeOlderStore, Finding: "older-store join2b join3b", Problem: cke.Problem{Code: cke.CodeOlderStore}, At: noon}
		s.Requests.Tasks = []cke.Task{{ID: "t1", Kind: cke.TaskReclaim, Reclaim: shown}}
		return s
	}
	s := frozen("join3b", "join2b")
	s.Requests.Tasks[0].ReclaimChanges = []cke.JoinID{"join3", "join2"}
	o, reclaims := strategy.Decide(s.Input).Operation.(op.Reclaim)
	if !reclaims || o.Freeze != "f1" || len(o.Members) != 2 || len(o.Ends) != 2 || len(o.Archived) != 0 {
		t.Fatalf("%+v", o)
	}
	if j := o.Members[0]; j.ID != "join2b" || j.MemberID != "m2b" || j.Node.Name() != "n2" || j.PeerURL() != s.join(2).PeerURL() || j.StartedAt.IsZero() || j.Incarnation != "life" || j.Member != "n2" {
		t.Errorf("%+v", j)
	}
	silent := frozen("join2b", "join3b") // the version is that of the image that it runs, also with a tag without v and with a digest
	silent.Requests.Tasks[0].ReclaimChanges = []cke.JoinID{"join3", "join2"}
	silent.container(2).Image, silent.endpoint(2).Version = "registry.example:5000/etcd:3.5.21@sha256:4e8a4f", ""
	if o, reclaims := strategy.Decide(silent.Input).Operation.(op.Reclaim); !reclaims || o.Members[0].Etcd.Version != "3.5.21" {
		t.Errorf("%+v", strategy.Decide(silent.Input).Operation)
	}
	ended := frozen("join2b", "join3b").with(func(s *scene) { s.Requests.Tasks[0].ReclaimChanges = []cke.JoinID{"join1", "join2", "join3"} })
	if o, reclaims := strategy.Decide(ended.Input).Operation.(op.Reclaim); !reclaims {
		t.Errorf("one that was shown to end has ended since: %+v", o)
	}
	refusals := map[string]*scene{
		"other ones than shown": frozen("join2b"),
		"another one is to end": frozen("join2b", "join3b").with(func(s *scene) { s.Requests.Tasks[0].ReclaimChanges = []cke.JoinID{"join3"} }),
		"none is to end":        frozen("join2b", "join3b").with(func(s *scene) { s.Requests.Tasks[0].ReclaimChanges = []cke.JoinID{} }),
		"without a member list": frozen("join2b", "join3b").lost(),
		"a node that is silent": frozen("join2b", "join3b").silent(3),
		"frozen for something else": frozen("join2b", "join3b").with(func(s *scene) {
			s.Identity.Freeze = &cke.Freeze{ID: "f2", Kind: cke.FreezeCorrupt, Finding: "corrupt", Accepted: []string{s.Identity.Freeze.Finding}, At: noon}
		}),
	}
	for name, s := range refusals {
		if _, refused := strategy.Decide(s.Input).Operation.(op.Refuse); !refused {
			t.Errorf("%s: %+v", name, strategy.Decide(s.Input))
		}
	}
	done := formed(3)
	done.Requests.Tasks = []cke.Task{{ID: "t1", Kind: cke.TaskReclaim}}
	if _, settled := strategy.Decide(done.Input).Operation.(op.Settled); !settled {
		t.Errorf("%+v", strategy.Decide(done.Input))
	}
}
