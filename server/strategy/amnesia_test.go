package strategy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// hollow lets the logs of members have been removed while they run, which was seen for so long.
func (s *scene) hollow(seen time.Duration, nodes ...int) *scene {
	s.Before.ObservedAt = noon
	for _, i := range nodes {
		s.container(i).Data = cke.DataMissing
		s.Before.Members = append(s.Before.Members, cke.MemberStatus{Name: s.join(i).Node.Name(), Join: s.join(i).ID, State: "missing", Watched: cke.Duration(seen)})
	}
	return s
}

const removed = "the write-ahead log was removed from volume etcd-cke.join2 while etcd runs"

// A member whose log is removed under it serves on, and does not come back: it is replaced while it serves.
func TestDecide_ReplacesAMemberThatRunsOnRemovedFiles(t *testing.T) {
	replace := func(mode cke.ReplaceMode) func(*scene) {
		return func(s *scene) {
			s.Spec.Policies.Replace = cke.ReplacePolicy{Mode: mode, Grace: cke.Duration(time.Minute)}
		}
	}
	auto, manual := replace(cke.ReplaceAuto), replace(cke.ReplaceManual)
	gone := func(s *scene) op.RemoveMember {
		j := s.join(2)
		return op.RemoveMember{Member: s.Seen.Etcd.Members[1], Join: &j, Repair: true}
	}
	looping := formed(3).stopped(2).hollow(time.Hour, 2).with(auto).with(func(s *scene) { s.container(2).State = cke.ContainerRestarting })
	all := formed(3).hollow(time.Hour, 2, 1, 3).with(auto)
	check(t, []row{
		{"within the grace", formed(3).hollow(time.Second, 2).with(auto), nil, "n2 is replaced in 59s unless its data comes back", []string{"CKE213 n2"}},
		{"after it", formed(3).hollow(time.Hour, 2).with(auto), gone(formed(3)), "the data of n2 is gone; a new member takes its place", nil},
		{"by hand", formed(3).hollow(time.Hour, 2).with(manual), nil, removed, []string{"CKE213 n2"}},
		{"its engine starts it again and again", looping, gone(looping), "the data of n2 is gone", nil},
		{"all of them do: one after the other", all, gone(all), "the data of n2 is gone; a new member takes its place", nil},
		{"another member is down", formed(3).hollow(time.Hour, 2).with(auto).silent(3), nil, "replacing n2 waits", []string{"CKE213 n2", "CKE201 n3"}},
		{"nobody else is restarted", formed(3).running().hollow(time.Second, 2).with(auto).with(func(s *scene) { s.Spec.Options.Etcd.ExtraArgs = []string{"--x"} }), nil, "1 voter serves from files that were removed", []string{"CKE213 n2", "CKE104 n2"}},
		{"nor is it stopped to hibernate", formed(3).hollow(time.Hour, 2).hibernated(), nil, "no member is stopped", []string{"CKE213 n2"}},
	})
	s := formed(3).hollow(time.Hour, 2).with(manual).report()
	if m := s.Members[1]; s.Health != cke.HealthDegraded || m.State != "missing" || m.Ready || !strings.Contains(m.Reason, removed) || s.Tolerance != 1 {
		t.Errorf("%s, %+v, tolerance %d", s.Health, m, s.Tolerance)
	}
	for name, s := range map[string]*scene{"waiting": formed(3).hollow(time.Hour, 2).with(manual), "stopped": formed(3).stopped(2).hollow(time.Hour, 2).with(manual)} {
		if d := strategy.Decide(s.Input); strings.Contains(d.Reason, "intact") || strings.Contains(d.Reason, "the data is there") {
			t.Errorf("%s: %s", name, d.Reason)
		}
	}
}

// A learner that is being started has no log for a moment.
func TestDecide_TakesNoLearnerThatStartsForOneThatLostItsLog(t *testing.T) {
	s := formed(3).with(func(s *scene) {
		s.Seen.Etcd.Members[1].Learner, s.endpoint(2).Learner = true, true
		s.container(2).Data = cke.DataMissing
	})
	if d := strategy.Decide(s.Input); strings.Contains(d.Reason, "log") {
		t.Error(d.Reason)
	}
}

// What an earlier version bootstrapped is made safe, whatever the file says about changes, one member after the other.
func TestDecide_MakesContainersAnewThatCouldFoundACluster(t *testing.T) {
	founds := func(nodes ...int) func(*scene) {
		return func(s *scene) {
			for _, i := range nodes {
				s.container(i).StartsEmpty = true
			}
		}
	}
	manual := func(s *scene) { s.Spec.Policies.Reconcile = cke.ReconcileManual }
	restart := func(i int) op.RestartMember {
		return op.RestartMember{Join: formed(3).join(i), Etcd: formed(3).join(i).Etcd}
	}
	stopping := func(i int) cke.Join {
		j := formed(3).join(i)
		j.Stopping = true
		return j
	}
	check(t, []row{
		{"followers first", formed(3).with(founds(1, 2, 3)), restart(2), "the container of n2 could start the member without its data", nil},
		{"the leader last", formed(3).with(founds(1)), restart(1), "could start the member", nil},
		{"nobody is asked", formed(3).with(founds(1, 2, 3)).with(manual), restart(2), "could start the member", nil},
		{"all have to be well", formed(3).with(founds(1, 2, 3)).silent(3), nil, "restarting it waits: 2 of 3 voters are healthy", []string{"CKE219 n2", "CKE201 n3"}},
		{"a single one, too", formed(1).with(founds(1)), op.RestartMember{Join: formed(1).join(1), Etcd: formed(1).join(1).Etcd, Gap: true}, "could start", nil},
		{"a pause is a person's word", formed(3).with(founds(1)).held(), nil, "paused", nil},
		{"whose stop was begun and did not arrive", formed(3).with(founds(1, 2)).with(func(s *scene) { s.Identity.Joins[1].Stopping = true }), op.KeepRunning{Joins: []cke.Join{stopping(2)}}, "a stop was started", nil},
	})
}

// serve lets every member answer linearizable reads at a revision and in a term.
func (s *scene) serve(revision int64, term uint64) *scene {
	for i := range s.Seen.Etcd.Endpoints {
		s.endpoint(i+1).Revision, s.endpoint(i+1).RaftTerm = revision, term
	}
	return s
}

func TestDecide_FreezesAClusterThatWentBack(t *testing.T) {
	reached := func(revision int64, term uint64, cluster string) func(*scene) {
		return func(s *scene) {
			s.Before.Reached = &cke.Reached{ClusterID: cluster, Revision: revision, RaftTerm: term}
		}
	}
	finding := func(s *scene, served string) op.Freeze {
		return found(s, cke.FreezeWentBack, "went-back c1", "n1", cke.CodeWentBack, fmt.Sprintf("the member at https://10.0.0.1:2379 %s", served),
			"keep all data directories; a member that is down may have what is missing; `ckecli cluster evidence` shows what was seen; if it alone is wrong: `ckecli cluster unfreeze --wrong` its node, then `ckecli replace` it")
	}
	back, older := formed(3).serve(2, 3).with(reached(22, 3, "c1")), formed(3).serve(22, 2).with(reached(22, 3, "c1"))
	starting := formed(3).serve(22, 3).with(reached(22, 3, "c1")).with(func(s *scene) { e := s.endpoint(2); e.Revision, e.RaftTerm, e.Linearizable = 1, 0, false })
	check(t, []row{
		{"a lower revision", back, finding(back, "serves revision 2 in raft term 3, and members had served revision 22 in term 3"), "frozen", []string{"CKE315 n1"}},
		{"a lower term", older, finding(older, "serves revision 22 in raft term 2, and members had served revision 22 in term 3"), "frozen", []string{"CKE315 n1"}},
		{"the same", formed(3).serve(22, 3).with(reached(22, 3, "c1")), nil, "nothing to do", nil},
		{"another life", formed(3).serve(2, 2).with(reached(22, 3, "c0")), nil, "nothing to do", nil},
		{"nothing is known", formed(3).serve(2, 2), nil, "nothing to do", nil},
		{"what it says is not known to be level", formed(3).serve(0, 0).with(reached(22, 3, "c1")), nil, "nothing to do", nil},
		{"a person lifted it", formed(3).serve(2, 3).with(reached(22, 3, "c1")).frozenBy("went-back c1", true), nil, "nothing to do", nil},
	})
	if d := strategy.Decide(starting.Input); d.Frozen != nil {
		t.Errorf("a member that starts freezes the cluster: %s", d.Reason)
	}
	first := formed(3).serve(22, 3).report()
	later := formed(3).serve(7, 2).reportAfter(first)
	if r := later.Reached; r == nil || *r != (cke.Reached{ClusterID: "c1", Revision: 22, RaftTerm: 3}) {
		t.Errorf("%+v", r)
	}
}
