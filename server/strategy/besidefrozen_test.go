package strategy_test

import (
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// A store was found to be older by the identity beside its backups, and the cluster is frozen for that. From then on its backups
// are idle (strategy.NoBackups), and nothing may be known of them. Members that no node shows are still there: neither a restore nor a deletion may be begun before an operator accepts that they are gone.
func TestDecide_FrozenByWhatLiesBesideStillHoldsRestoresAndDeletions(t *testing.T) {
	first := strategy.Decide(formed(3).beside("j4", "j5").Input).Operation.(op.Freeze)
	frozen := func() *scene {
		s := formed(3)
		f := cke.NewFreeze(first.Kind, first.Finding, first.Problem, first.Seen)
		f.Held, f.Lacks = &cke.HeldRequests{}, first.Lacks
		s.Identity.Freeze = &f
		s.Spec.Backup.Target = "file:///b"
		idle := strategy.NoBackups(&s.Input)
		if idle == "" {
			t.Fatal("backups are not idle while the cluster is frozen")
		}
		s.Backup = &cke.BackupStatus{Target: "file:///b", Idle: idle} // as a daemon has it that has just started
		return s
	}
	if why := strategy.RestoreRefusal(frozen().Input, cke.RestoreOrder{Target: "file:///b", Source: "demo"}); why == nil {
		t.Error("a plan of a restore is not refused")
	}
	s := frozen().restored()
	s.Requests.Tasks[0].At = noon
	if d := strategy.Decide(s.Input); d.Operation != nil {
		if _, refused := d.Operation.(op.Refuse); !refused {
			t.Errorf("a restore: %T", d.Operation)
		}
	}
	s = frozen()
	s.Deleting, s.DeletionAt = true, noon.Add(time.Minute) // after the freeze: it is not held
	if d := strategy.Decide(s.Input); d.Operation != nil {
		t.Errorf("a deletion: %T", d.Operation)
	}
}

// A daemon has just started on a store, and has not read the target yet. An order that was given while none led, or a deletion,
// is not to be carried out before what lies beside the backups was compared.
func TestDecide_WaitsForTheComparisonAlsoWhereTheOrderIsOlderThanTheDaemon(t *testing.T) {
	s := formed(3).beside().restored()
	s.Requests.Tasks[0].At, s.Spec.Backup.Target = noon.Add(-time.Minute), "file:///b"
	s.LeadsSince = s.Seen.ObservedAt
	if d := strategy.Decide(s.Input); d.Operation != nil {
		t.Errorf("a restore that was ordered a minute ago: %T", d.Operation)
	}
	s = formed(3)
	s.Deleting, s.DeletionAt, s.Spec.Backup.Target = true, noon, "file:///b"
	s.Backup = &cke.BackupStatus{Target: "file:///b", Idle: strategy.NoBackups(&s.Input)}
	if d := strategy.Decide(s.Input); d.Operation != nil {
		t.Errorf("a deletion: %T, backups %q", d.Operation, s.Backup.Idle)
	}
}

// Where members on record do not answer, the cluster may serve elsewhere: that is what the comparison finds out, and the target can be
// read. Nor is anything known before the stored status is. What can never be compared is not waited for.
func TestDecide_WaitsForTheComparisonWhereMembersDoNotAnswer(t *testing.T) {
	trouble := func(known bool, code cke.Code) *cke.BackupStatus {
		return &cke.BackupStatus{Target: "file:///b", Lineage: "life", Known: known, Problem: &cke.BackupTrouble{Code: code, Message: "trouble"}}
	}
	for name, c := range map[string]struct {
		backup *cke.BackupStatus
		target string
		leads  time.Duration
		waits  bool
	}{
		"members do not answer":             {trouble(true, cke.CodeMemberSilent), "file:///b", 0, true},
		"members do not answer for a while": {trouble(true, cke.CodeMemberSilent), "file:///b", time.Minute, false},
		"the target cannot be opened":       {trouble(false, cke.CodeTarget), "file:///b", 0, false},
		"nothing is known of the backups":   {nil, "file:///b", 0, true},
		"nothing is known for a while":      {nil, "file:///b", time.Minute, false},
		"there are no backups":              {nil, "", 0, false},
	} {
		for what, asks := range map[string]func(*scene){
			"a restore":  func(s *scene) { s.restored() },
			"a deletion": func(s *scene) { s.Deleting, s.DeletionAt = true, noon.Add(-time.Hour) },
		} {
			s := formed(3).with(asks)
			s.Spec.Backup.Target, s.Backup, s.LeadsSince = c.target, c.backup, noon.Add(-c.leads)
			if d := strategy.Decide(s.Input); (d.Operation == nil) != c.waits {
				t.Errorf("%s, %s: %T %s", name, what, d.Operation, d.Reason)
			}
		}
	}
}

// A new management host has the identity of before the cluster shrank from five members to three: an older store put it beside the
// backups, since only endings lacked in it. n2 and n3 are cut off and serve; n1 is down; n4 and n5 have marks that their
// memberships ended.
func TestRestore_OnANewHostEndedVotersAreCounted(t *testing.T) {
	for _, aside := range []bool{false, true} { // they may have been put aside before
		s := formed(5).with(func(s *scene) {
			s.Identity.Joins[3].Apart, s.Identity.Joins[4].Apart = aside, aside
			s.Identity = s.Identity.Awaiting(noon)
			s.Seen.Etcd = cke.EtcdStatus{}
			for _, i := range []int{4, 5} {
				s.node(i).Over = []string{string(s.join(i).ID)}
				s.node(i).Containers, s.node(i).Volumes = nil, nil
			}
			s.node(1).Containers[0].State = cke.ContainerExited
		}).silent(2, 3).restored("n2", "n3")
		d := strategy.Decide(s.Input)
		if _, is := d.Operation.(op.Refuse); !is {
			t.Errorf("put aside %v: %T %s: n2 and n3 are two of three voters", aside, d.Operation, d.Reason)
		}
	}
}

// An operator has accepted what the store lacks, and restores the cluster. Nothing serves, so the identity beside the backups still has it
// while the restore is prepared: that is no new finding. What was not accepted is one.
func TestDecide_ARestoreIsNotFrozenForWhatWasAcceptedBefore(t *testing.T) {
	for name, c := range map[string]struct {
		accepted []string
		freezes  bool
	}{"all was accepted": {[]string{"j4", "j5"}, false}, "a part was": {[]string{"j4"}, true}} {
		s := formed(3).beside("j4", "j5")
		f := cke.NewFreeze(cke.FreezeOlderStore, cke.OlderStore(c.accepted), cke.Problem{}, cke.EtcdStatus{})
		f.LiftedAt = noon
		s.Identity.Freeze = &f
		for range 2 { // another restore takes the place of the first one
			s.begun()
			s.Requests.Tasks = nil
			o, is := strategy.Decide(s.Input).Operation.(op.Freeze)
			if is != c.freezes || is && !strings.Contains(o.Problem.Remedy, "ckecli restore --cancel") { // nothing can be reclaimed before
				t.Errorf("%s: %+v", name, o)
			}
			if _, why := cke.PlanReclaim(s.Spec, s.Identity, s.Seen, s.Backup); why == nil || why.Try != "ckecli restore --cancel" {
				t.Errorf("%s: %v", name, why)
			}
		}
	}
}

// A cluster is frozen because its store is older, and an order to restore it waits: that it is frozen is still reported, and not what
// members on record do.
func TestReport_AFrozenClusterIsFrozenWhileAnOrderWaits(t *testing.T) {
	s := formed(3).beside().lost().restored()
	f := cke.NewFreeze(cke.FreezeOlderStore, cke.OlderStore([]string{"j4"}), cke.Problem{Code: cke.CodeOlderStore, Message: "older"}, cke.EtcdStatus{})
	s.Identity.Freeze = &f
	s.Requests.Tasks[0].At, s.Spec.Backup.Target = noon, "file:///b"
	for _, compared := range []bool{false, true} { // it waits, and starts
		s.Backup.Compared = compared
		d := strategy.Decide(s.Input)
		if st := strategy.Report(s.Input, d, cke.Status{}); d.Task == "" || st.Health != cke.HealthFrozen {
			t.Errorf("%s: %s, %s", d.Reason, st.Health, st.Summary)
		}
	}
}

// The store is from before a restore, as only the identity beside the backups shows: it is frozen, and no reclaim helps.
func TestDecide_FreezesAStoreOfBeforeARestore(t *testing.T) {
	s := formed(3).beside()
	s.Backup.Lacks = []cke.Lacking{{ID: "L2", What: "the restore that made incarnation L2", Restored: true}}
	o, is := strategy.Decide(s.Input).Operation.(op.Freeze)
	if !is || o.Kind != cke.FreezeOlderStore || strings.Contains(o.Problem.Remedy, "reclaim") || !strings.Contains(o.Problem.Remedy, "bring back a copy of the store from after that restore") {
		t.Errorf("%+v", o)
	}
}
