package strategy_test

import (
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// compared puts a comparison on record, ago before the observation, with the members' hashes.
func (s *scene) compared(ago time.Duration, hashes ...uint32) *scene {
	c := &cke.Comparison{At: noon.Add(ago), Revision: 7}
	for i, h := range hashes {
		c.Hashes = append(c.Hashes, cke.MemberHash{Join: s.join(i + 1).ID, Node: s.join(i + 1).Node.Name(), Hash: h})
	}
	s.Identity.Compared = c
	return s
}

// after lets an operation have ended last.
func (s *scene) after(name string, ago time.Duration) *scene {
	s.Before.LastOperation = &cke.OperationStatus{ID: 1, Type: name, State: cke.RecordCompleted, Time: noon.Add(-ago)}
	return s
}

// then lets another operation have ended after that, with a status told between.
func (s *scene) then(name string, ago time.Duration) *scene {
	s.Before = s.reportAfter(s.Before)
	return s.after(name, ago)
}

// compareAll asks the leader, n1, last.
func compareAll(s *scene) op.CompareData {
	j := s.Identity.Joins
	return op.CompareData{Joins: append(append([]cke.Join{}, j[1:]...), j[0])}
}

// Requirement A4: equal data, on schedule and after what could have left it unequal.
func TestDecide_ComparesTheMembersWhenNothingElseIsToBeDone(t *testing.T) {
	f := formed(3)
	all := compareAll(f)
	edited := func(s *scene) { s.Spec.Options.Etcd.ExtraArgs = []string{"--x"} }
	restart := op.RestartMember{Join: f.join(2), Etcd: formed(3).with(edited).Spec.Options.Etcd}
	formedBefore := func(s *scene) { s.Identity.Incarnation.FormedAt = noon.Add(-2 * time.Hour) }
	check(t, []row{
		{"an hour after the last time", formed(3).with(formedBefore).compared(-time.Hour, 1, 1, 1), all, "not compared for 1h0m0s", nil},
		{"not before", formed(3).with(formedBefore).compared(-time.Hour+time.Second, 1, 1, 1), nil, "nothing to do", nil},
		{"by a clock that was a year ahead", formed(3).with(formedBefore).compared(365*24*time.Hour, 1, 1, 1), all, "not compared for 2h0m0s", nil},
		{"never yet, an hour after the founding", formed(3).with(formedBefore), all, "not compared for 2h0m0s", nil},
		{"after a restart", formed(3).with(formedBefore).compared(-time.Minute, 1, 1, 1).after("restart-member", time.Second), all, "after restart-member", nil},
		{"after a start", formed(3).with(formedBefore).after("start-members", time.Second), all, "after start-members", nil},
		{"after a promotion", formed(3).with(formedBefore).after("promote-member", time.Second), all, "after promote-member", nil},
		{"promote, then remove", formed(3).with(formedBefore).compared(-time.Minute, 1, 1, 1).after("promote-member", 2*time.Second).then("remove-member", time.Second), all, "some were started, restarted, added, promoted or moved", nil},
		{"promote, remove, compare", formed(3).with(formedBefore).compared(-3*time.Second, 1, 1, 1).after("promote-member", 2*time.Second).then("remove-member", time.Second).then("compare-data", 0).then("defragment", 0), nil, "nothing to do", nil},
		{"promote, remove, and no verdict", formed(3).with(formedBefore).compared(-time.Minute, 1, 1, 1).after("promote-member", 2*time.Second).then("remove-member", time.Second).with(func(s *scene) {
			s.then("compare-data", 0).Before.LastOperation.State = cke.RecordFailed
		}), all, "some were started", nil},
		{"by a clock that was a day ahead", formed(3).with(formedBefore).compared(-time.Minute, 1, 1, 1).after("promote-member", -24*time.Hour).then("remove-member", time.Second), nil, "nothing to do", nil},
		{"not after what moved no data", formed(3).after("compare-data", 0), nil, "nothing to do", nil},
		{"not twice after a restart", formed(3).with(formedBefore).compared(0, 1, 1, 1).after("restart-member", time.Second), nil, "nothing to do", nil},
		{"the rest of a rolling restart goes first", formed(3).running().with(edited).after("restart-member", 0), restart, "other arguments", nil},
		{"not while one is away", formed(3).with(formedBefore).silent(3), nil, "waiting for n3", []string{"CKE201 n3"}},
		{"not while a single member has nobody to differ from", formed(1).with(formedBefore), nil, "nothing to do", nil},
		{"without a verdict it is not tried again at once", formed(3).with(formedBefore).failed(all, 1, time.Minute), nil, "compare-data failed once", []string{"CKE207 n1"}},
		{"a person asks for it", formed(3).task(cke.TaskCompare, "", ""), all, "requested by eve@host", nil},
	})
	s := formed(3).with(formedBefore)
	if d := strategy.Decide(s.Input); !d.Converged {
		t.Error("a comparison keeps the cluster from being as declared")
	}
	if r := s.report(); r.Health != cke.HealthReady {
		t.Errorf("%s: %s", r.Health, r.Summary)
	}
	if r := formed(3).with(formedBefore).failed(all, 1, time.Minute).report(); r.Health != cke.HealthReady || len(r.Problems) != 1 {
		t.Errorf("%s %+v", r.Health, r.Problems)
	}
}
