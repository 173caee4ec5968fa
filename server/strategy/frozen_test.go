package strategy_test

import (
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// split lets the second member answer with another cluster id.
func split(s *scene) { s.endpoint(2).ClusterID = "c2" }

// corrupt lets etcd call a member's data corrupt.
func corrupt(s *scene) { s.Seen.Etcd.Alarms = []cke.Alarm{{MemberID: "m3", Kind: "CORRUPT"}} }

// found is the operation that records what is seen in a scene.
func found(s *scene, kind cke.FreezeKind, finding, node string, code cke.Code, message, remedy string) op.Freeze {
	return op.Freeze{Kind: kind, Finding: finding, Problem: cke.Problem{Code: code, Node: node, Message: message, Remedy: remedy}, Seen: s.Seen.Etcd}
}

func foundSplit(s *scene) op.Freeze {
	return found(s, cke.FreezeClusterID, "cluster-id join2 c2", "n2", cke.CodeSplitBrain, "the member at https://10.0.0.2:2379 answers with cluster id c2, on record is c1",
		"keep all data directories, and find out which data is right with `ckecli cluster evidence`; name the nodes with the wrong data: `ckecli cluster unfreeze --wrong NODE`; then `ckecli replace` them")
}

func foundCorrupt(s *scene) op.Freeze {
	return found(s, cke.FreezeCorrupt, "corrupt-alarm m3", "", cke.CodeUnequalData, "etcd raised the alarm CORRUPT for member m3",
		"compare the members' data before anything is changed: `ckecli etcd compare`")
}

// frozenBy puts a freeze on record; lifted ones were lifted a minute before.
func (s *scene) frozenBy(finding string, lifted bool) *scene {
	f := &cke.Freeze{ID: "f1", Kind: cke.FreezeClusterID, Finding: finding, Problem: cke.Problem{Code: cke.CodeSplitBrain, Node: "n2", Message: "two clusters"}, At: noon.Add(-time.Hour)}
	if lifted {
		f.LiftedAt = noon.Add(-time.Minute)
	}
	s.Identity.Freeze = f
	return s
}

// task lets a person have asked for something.
func (s *scene) task(kind cke.TaskKind, node, subject string) *scene {
	s.Requests.Tasks = append(s.Requests.Tasks, cke.Task{ID: "t" + string(rune('1'+len(s.Requests.Tasks))), Kind: kind, Node: node, Subject: subject, Reason: "it is known", By: "eve@host"})
	return s
}

// Requirement A4: what is found is recorded before anything else, and nothing is changed.
func TestDecide_Freezes(t *testing.T) {
	first := formed(3).with(split)
	stopped := formed(3).stopped(3).with(split)
	lost := formed(3).stopped(1, 3).lost().with(split)
	check(t, []row{
		{"another cluster id", first, foundSplit(first), "frozen: the member at https://10.0.0.2:2379 answers with cluster id c2, on record is c1", []string{"CKE302 n2"}},
		{"and a member is stopped", stopped, foundSplit(stopped), "frozen", []string{"CKE302 n2"}},
		{"and no quorum", lost, foundSplit(lost), "frozen", []string{"CKE302 n2"}},
		{"data that etcd calls corrupt", formed(3).with(corrupt), foundCorrupt(formed(3).with(corrupt)), "CORRUPT", []string{"CKE306"}},
		{"a stranger's cluster id tells nothing", formed(3).with(func(s *scene) {
			s.Seen.Etcd.Endpoints = append(s.Seen.Etcd.Endpoints, cke.EndpointStatus{URL: "https://10.9.9.9:2379", ClusterID: "c9"})
		}), nil, "nothing to do", nil},
	})
	if d := strategy.Decide(first.Input); d.Frozen == nil || d.Converged {
		t.Errorf("%+v", d)
	}
}

// Requirement A4: frozen until a person decides, even when the finding is no longer seen.
func TestDecide_StaysFrozenUntilAPersonLiftsIt(t *testing.T) {
	unfreeze := op.Unfreeze{ID: "f1", Reason: "it is known", By: "eve@host"}
	refused := func(s *scene) op.Refuse {
		return op.Refuse{Task: s.Requests.Tasks[0], Why: &cke.Error{Code: cke.CodeFrozen, What: "cluster demo is frozen", Facts: []string{"two clusters"}, Unchanged: true, Try: "ckecli cluster evidence"}}
	}
	replace := formed(3).frozenBy("cluster-id join2 c2", false).task(cke.TaskReplace, "n1", "")
	lifted := func() *scene { return formed(3).frozenBy("cluster-id join2 c2", true).with(split) }
	both := lifted().with(corrupt)
	check(t, []row{
		{"the finding is no longer seen", formed(3).frozenBy("cluster-id join2 c2", false), nil, "frozen: two clusters", []string{"CKE302 n2"}},
		{"a member stops meanwhile", formed(3).frozenBy("cluster-id join2 c2", false).stopped(1), nil, "frozen: two clusters", []string{"CKE302 n2"}},
		{"a person lifts it", formed(3).frozenBy("cluster-id join2 c2", false).task(cke.TaskReplace, "n1", "").task(cke.TaskUnfreeze, "", "f1"), unfreeze, "requested by eve@host", []string{"CKE302 n2"}},
		{"a person compares meanwhile", formed(3).frozenBy("cluster-id join2 c2", false).task(cke.TaskCompare, "", ""), compareAll(formed(3)), "requested by eve@host", []string{"CKE302 n2"}},
		{"a person asks for something else", replace, refused(replace), "frozen", []string{"CKE302 n2"}},
		{"lifted, the same finding does not freeze again", lifted(), nil, "waiting for n2", []string{"CKE302 n2"}},
		{"lifted, another one does", both, foundCorrupt(both), "CORRUPT", []string{"CKE306"}},
		{"lifted, and no longer seen", formed(3).frozenBy("cluster-id join2 c2", true), op.EndFinding{Findings: []string{"cluster-id join2 c2"}}, "no longer seen", nil},
		{"lifted unequal data is over once members were found equal", formed(3).frozenBy("unequal-data join1+join2 join3", true).compared(-time.Second, 1, 1, 1),
			op.EndFinding{Findings: []string{"unequal-data join1+join2 join3"}}, "no longer seen", nil},
		{"and not before they were compared", formed(3).frozenBy("unequal-data join1+join2 join3", true).compared(-30*time.Minute, 1, 1, 1), nil, "nothing to do", nil},
		{"nor while they differ", formed(3).frozenBy("unequal-data join1+join2 join3", true).compared(-time.Second, 1, 1, 2), nil, "nothing to do", nil},
	})
	ended := lifted()
	ended.Identity.Freeze.OverAt = noon
	if d := strategy.Decide(ended.Input); d.Frozen == nil {
		t.Errorf("what was over and comes back does not freeze: %+v", d)
	}
	if d := strategy.Decide(replace.Input); d.Task != "t1" || d.Frozen == nil {
		t.Errorf("%+v", d)
	}
}

func TestReport_TellsWhetherMembersHoldTheSameData(t *testing.T) {
	for _, tt := range []struct {
		name  string
		scene *scene
		want  string
	}{
		{"never compared", formed(3), "Unknown NotCompared"},
		{"equal", formed(3).compared(0, 7, 7, 7), "True EqualHashes"},
		{"unequal", formed(3).compared(0, 7, 7, 8), "False UnequalHashes"},
		{"corrupt", formed(3).with(corrupt), "False CorruptAlarm"},
		{"not founded", blank(3), "Unknown NotCompared"},
	} {
		s := tt.scene.report()
		c, _ := s.Condition(cke.CondDataConsistent)
		if got := string(c.Status) + " " + c.Reason; got != tt.want {
			t.Errorf("%s: %s", tt.name, got)
		}
	}
}

// Requirement A4: members that were found to differ while the cluster was frozen for another reason freeze it once that
// is lifted, and not while a person tolerates it.
func TestDecide_FreezesForAComparisonThatWasMadeWhileFrozen(t *testing.T) {
	s := func() *scene { return formed(3).compared(-time.Minute, 1, 1, 2) }
	unequal := op.Finding(*s().Identity.Compared)
	lifted := strategy.Decide(s().frozenBy("cluster-id join2 c2", true).Input)
	if f, is := lifted.Operation.(op.Freeze); !is || f.Kind != cke.FreezeUnequalData || f.Finding != unequal || lifted.Frozen == nil {
		t.Errorf("%T %s", lifted.Operation, lifted.Reason)
	}
	for name, s := range map[string]*scene{"lifted": s().frozenBy(unequal, true), "a member compared has gone": s().with(func(s *scene) { s.Identity.Compared.Hashes[2].Join = "other" })} {
		if d := strategy.Decide(s.Input); d.Frozen != nil {
			t.Errorf("%s: %s", name, d.Reason)
		}
	}
}

// Requirement A4: a member of another cluster counts as none, also once a person has lifted the freeze and although it
// answers with its old id: no healthy one is restarted or removed beside it.
func TestDecide_AMemberOfAnotherClusterIsNotHealthy(t *testing.T) {
	lifted := func() *scene { return formed(3).frozenBy("cluster-id join2 c2", true).with(split) }
	drifted := lifted().with(func(s *scene) { s.Spec.Options.Etcd.ExtraArgs = []string{"--x"} })
	for name, s := range map[string]*scene{"drift": drifted, "removal": lifted().undeclared(1), "a person moves the leader to it": lifted().task(cke.TaskMoveLeader, "n2", "")} {
		switch o := strategy.Decide(s.Input).Operation.(type) {
		case nil, op.Refuse:
		default:
			t.Errorf("%s: %#v", name, o)
		}
	}
	if st := lifted().report(); st.Tolerance != 0 || st.Ready != 2 {
		t.Errorf("can lose %d, %d serve", st.Tolerance, st.Ready)
	}
}
