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

// endedBeside lets the identity beside the backups have ends that the store does not have.
func (s *scene) endedBeside(ids ...string) *scene {
	if s.Backup == nil {
		s.beside()
	}
	for _, id := range ids {
		s.Backup.Lacks = append(s.Backup.Lacks, cke.Lacking{ID: id, What: "the end of the membership of node " + id, Ended: true})
	}
	return s
}

// frozenFor puts what is found on record, as it is found.
func (s *scene) frozenFor(t *testing.T) *scene {
	t.Helper()
	found, is := strategy.Decide(s.Input).Operation.(op.Freeze)
	if !is || found.Kind != cke.FreezeOlderStore {
		t.Fatalf("%+v", strategy.Decide(s.Input))
	}
	f := cke.NewFreeze(found.Kind, found.Finding, found.Problem, found.Seen)
	f.Lacks, f.Held, f.At = found.Lacks, found.Held, noon
	s.Identity.Freeze = &f
	return s
}

// reclaiming lets an operator have asked for what the leader shows.
func (s *scene) reclaiming() *scene {
	s.Requests.Tasks = []cke.Task{{ID: "t1", Kind: cke.TaskReclaim, Reclaim: []cke.JoinID{"join4"}, ReclaimChanges: []cke.JoinID{"join2"}}}
	return s
}

// deadReplaced is a cluster in which n4 took the place of n2, whose machine is gone for good, after the store was copied: no mark says that
// the membership of n2 ended. The newest cluster file is stored.
func deadReplaced() *scene {
	s := formed(4).silent(2)
	j := s.join(4)
	s.container(4).Place = j.Place()
	s.Spec.Nodes = slices.Delete(slices.Clone(s.Spec.Nodes), 1, 2)
	s.Seen.Etcd.Members = slices.Delete(slices.Clone(s.Seen.Etcd.Members), 1, 2)
	s.Seen.Etcd.Endpoints, s.Identity.Joins = s.Seen.Etcd.Endpoints[:3], s.Identity.Joins[:3]
	return s.beside("join4").endedBeside("join2")
}

// A membership that no mark names ended, according to the identity beside the backups: reclaiming ends it, and the cluster is not frozen
// again.
func TestDecide_ReclaimsTheEndOfAMembershipOnADeadMachine(t *testing.T) {
	for name, s := range map[string]*scene{
		"as it was compared":         deadReplaced().frozenFor(t).reclaiming(),
		"as the cluster was frozen":  deadReplaced().frozenFor(t).reclaiming().with(func(s *scene) { s.Backup = nil }),
		"a leader that has not read": deadReplaced().frozenFor(t).reclaiming().with(func(s *scene) { s.Backup = &cke.BackupStatus{Lineage: "life", Idle: "frozen"} }),
	} {
		o, is := strategy.Decide(s.Input).Operation.(op.Reclaim)
		if !is || len(o.Members) != 1 || o.Members[0].ID != "join4" || len(o.Ends) != 1 || o.Ends[0].ID != "join2" || o.Apart != nil {
			t.Errorf("%s: %+v", name, strategy.Decide(s.Input))
			continue
		}
		s.Identity = s.Identity.With(o.Writes(noon))
		s.Identity.Freeze.LiftedAt, s.Identity.Freeze.OverAt, s.Requests.Tasks = noon, noon, nil
		if d := strategy.Decide(s.Input); d.Frozen != nil {
			t.Errorf("%s: frozen again: %s", name, d.Reason)
		}
	}
}

// An end is on record only once the member has left the list for good: a list that has it is that of another cluster.
func TestDecide_ReclaimsNoEndThatTheListContradicts(t *testing.T) {
	s := deadReplaced().frozenFor(t).reclaiming()
	s.Seen.Etcd.Members = append(s.Seen.Etcd.Members, formed(4).Seen.Etcd.Members[1])
	if r, is := strategy.Decide(s.Input).Operation.(op.Refuse); !is || !strings.Contains(r.Why.Error(), "n2, whose membership ended according to the identity beside the backups") {
		t.Errorf("%+v", strategy.Decide(s.Input))
	}
}

// Where nothing is left to put on record, the refusal names a way out that exists.
func TestDecide_ARefusedReclaimNamesTheWayOut(t *testing.T) {
	s := formed(3).beside("join9").frozenFor(t).reclaiming()
	r, is := strategy.Decide(s.Input).Operation.(op.Refuse)
	if !is || !strings.Contains(r.Why.Error(), "ckecli cluster unfreeze demo") || strings.Contains(r.Why.Error(), "stop its container") {
		t.Errorf("%+v", strategy.Decide(s.Input))
	}
}

// shrunk is a cluster that shrank from five members to three after its store was copied: all members that it has are on record.
func shrunk() *scene {
	s := formed(5).endedBeside("join4", "join5").undeclared(4, 5)
	for _, i := range []int{4, 5} {
		s.node(i).Containers = nil
		s.quiet(i)
	}
	s.Before.Incarnation, s.Before.Etcd.Members = "life", s.Seen.Etcd.Members // the store's
	s.Seen.Etcd.Members = s.Seen.Etcd.Members[:3]
	return s
}

// A store that lacks only ends has no members that it does not know: it is frozen, and restored, recovered and deleted like any other.
func TestDecide_AStoreThatLacksOnlyEndsKnowsAllMembers(t *testing.T) {
	s := shrunk().frozenFor(t)
	if p := s.Identity.Freeze.Problem; !strings.Contains(p.Remedy, "ckecli cluster reclaim demo") || strings.Contains(p.Remedy, "unfreeze") {
		t.Errorf("%+v", p)
	}
	if why := strategy.RestoreRefusal(s.Input, cke.RestoreOrder{Target: "file:///b", Source: "demo"}); why != nil {
		t.Errorf("a restore: %v", why)
	}
	s.Deleting, s.DeletionAt = true, noon.Add(time.Minute)
	if o, is := strategy.Decide(s.Input).Operation.(op.DeleteCluster); !is || len(o.Joins) != 5 {
		t.Errorf("a deletion: %+v", strategy.Decide(s.Input))
	}
	lost := func() *scene { return shrunk().frozenFor(t).stopped(1, 2, 3).lost() }
	for survivor, refused := range map[string]bool{"n1": false, "n4": true} {
		why := strategy.RestoreRefusal(lost().Input, cke.RestoreOrder{Survivor: survivor, Named: true})
		if (why != nil) != refused {
			t.Errorf("a recovery from %s: %v", survivor, why)
		}
	}
	accepted := lost()
	accepted.Identity.Freeze.LiftedAt = noon
	if why := strategy.RestoreRefusal(accepted.Input, cke.RestoreOrder{Survivor: "n4", Named: true}); why != nil {
		t.Errorf("a recovery from what an operator accepted: %v", why)
	}
	cut := shrunk().frozenFor(t).silent(2, 3).lost()
	if why := strategy.RestoreRefusal(cut.Input, cke.RestoreOrder{Target: "file:///b", Source: "demo", Without: []string{"n2", "n3"}}); why == nil || why.Code != cke.CodeFence {
		t.Errorf("n2 and n3 are two of three voters: %v", why)
	}
}

// Containers show that the store is older, and the identity beside the backups shows more once it was compared: all of it is on record
// before an operator judges it, or anything else is done.
func TestDecide_RecordsWhatShowsLaterThatTheStoreIsOlder(t *testing.T) {
	s := formed(3).fresh(2).frozenFor(t)
	first := s.Identity.Freeze
	s.beside("join9")
	for name, asks := range map[string]func(*scene){
		"nothing is asked for": func(*scene) {},
		"a lift":               func(s *scene) { s.Requests.Tasks = []cke.Task{{ID: "t1", Kind: cke.TaskUnfreeze, Subject: first.ID}} },
		"a deletion":           func(s *scene) { s.Deleting, s.DeletionAt = true, noon.Add(time.Minute) },
	} {
		more := *s
		asks(&more)
		f, is := strategy.Decide(more.Input).Operation.(op.Freeze)
		if !is || !cke.Covers(f.Finding, first.Finding) || len(f.Lacks) != 1 || !strings.Contains(f.Problem.Message, "node join9") {
			t.Errorf("%s: %+v", name, strategy.Decide(more.Input))
		}
	}
	s.frozenFor(t)
	if f, is := strategy.Decide(s.Input).Operation.(op.Freeze); is {
		t.Errorf("again: %+v", f)
	}
	s.Identity.Freeze.LiftedAt = noon
	if f, is := strategy.Decide(s.Input).Operation.(op.Freeze); is {
		t.Errorf("after the lift: %+v", f)
	}
}

// It is restored and recovered from to its end: what the order was accepted with does not freeze the cluster once the restore is on record. And a
// recovery that is canceled has a way on where it left members stopped.
func TestDecide_AStoreThatLacksOnlyEndsIsRestoredToTheEnd(t *testing.T) {
	for _, o := range []cke.RestoreOrder{{Target: "file:///b", Source: "demo"}, {Survivor: "n1", Named: true}} {
		s := shrunk().frozenFor(t)
		if o.Survivor != "" {
			s.stopped(1, 2, 3).lost()
		}
		s.begunAt(noon, o)
		s.Requests.Tasks = nil
		if f, is := strategy.Decide(s.Input).Operation.(op.Freeze); is {
			t.Errorf("%+v: %s", o, f.Problem.Message)
		}
	}
	s := shrunk().stopped(1, 2, 3).lost().frozenFor(t)
	if p := s.Identity.Freeze.Problem; !strings.Contains(p.Remedy, "ckecli cluster unfreeze demo") {
		t.Errorf("%+v", p)
	}
}

// Ends that a first order was accepted with are counted for the second one, too: n2 and n3 are two of three voters.
func TestDecide_EndsCountForASecondOrder(t *testing.T) {
	for _, second := range []bool{false, true} {
		s := shrunk().stopped(1, 2, 3).lost()
		s.Before = cke.Status{}
		s.frozenFor(t)
		s.Identity.Freeze.LiftedAt, s.Seen.Etcd.Members = noon, nil
		if second {
			s.begun()
		}
		s.silent(2, 3)
		s.Seen.ObservedAt = noon.Add(time.Minute)
		why := strategy.RestoreRefusal(s.Input, cke.RestoreOrder{Target: "file:///b", Source: "demo", Without: []string{"n2", "n3"}})
		if why == nil || why.Code != cke.CodeFence {
			t.Errorf("second: %v: %v", second, why)
		}
	}
}
