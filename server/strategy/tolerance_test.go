package strategy_test

import (
	"testing"
	"time"

	"cke"
	"cke/op"
)

// foreignOn4 is a cluster with a stranger that serves on a declared node; it goes before a member is added there.
func foreignOn4() *scene {
	s := formed(4).running()
	s.Identity.Joins = s.Identity.Joins[:3]
	s.node(4).Containers, s.node(4).Volumes = nil, nil
	s.Spec.Policies.Foreign = cke.ForeignRemove
	return s
}

// A learner is wanted only as long as the file wants its node, and becomes a voter only where its engine can start it again.
func TestDecide_PromotesOnlyWhatIsWantedAndReached(t *testing.T) {
	learner := func() *scene { return formed(4).running().learner(4, true) }
	failing := func(s *scene) *scene { return s.failed(op.PromoteMember{Join: s.join(4)}, 9, time.Second) }
	gone := func() *scene {
		s := failing(learner()).emptied(3)
		s.Before.Members = []cke.MemberStatus{{Name: "n3", Join: s.join(3).ID, State: "missing", Watched: cke.Duration(time.Hour)}}
		return s
	}
	check(t, []row{
		{"it is wanted", learner(), op.PromoteMember{Join: learner().join(4)}, "the learner on n4 has caught up", nil},
		{"its node does not answer", learner().silent(4), nil, "waiting for n4: its data may be intact", []string{"CKE201 n4"}},
		{"its node is no longer a control-plane node", learner().undeclared(4), remove(learner(), 4), "n4 is no longer a control-plane node", nil},
		{"nor while a voter is dead", learner().silent(2).undeclared(4), remove(learner(), 4), "n4 is no longer a control-plane node", nil},
		{"promoting it fails, and the data of another one is gone", gone(), repairing(remove(gone(), 3)), "the data of n3 is gone", nil},
	})
}

// A node that cannot take a member keeps no other one without.
func TestDecide_AddsWhereItCan(t *testing.T) {
	add := func(i int) op.AddMember {
		return op.AddMember{Node: spec(5).Nodes[i-1], Etcd: spec(5).Options.Etcd}
	}
	two := func() *scene { return formed(5).running().unjoined(5).unjoined(4) }
	begun := func() *scene { // n4 and n5 are on record, in no list
		s := formed(5).running()
		for i := range 2 {
			s.Identity.Joins[3+i].StartedAt, s.Identity.Joins[3+i].MemberID = time.Time{}, ""
		}
		s.Seen.Etcd.Members, s.Seen.Etcd.Endpoints = s.Seen.Etcd.Members[:3], s.Seen.Etcd.Endpoints[:3]
		return s.wiped(4, 5)
	}
	resumed := func(i int) op.AddMember {
		a := add(i)
		a.Resume = begun().join(i).ID
		return a
	}
	other := func(s *scene) { s.Spec.Options.Etcd.Image = "other/etcd:v3.6.16" }
	one := func() *scene { return formed(2).running().unjoined(2).with(other) }
	adds := op.AddMember{Node: spec(2).Nodes[1]}
	pair := func() *scene { return formed(3).running().unjoined(3) }
	accepted := func(s *scene) { s.Requests.Interrupt = s.Generation }
	check(t, []row{
		{"in the file's order", two(), add(4), "n4 is a control-plane node", nil},
		{"the other one after a failure", two().failed(add(4), 1, 0), add(5), "n5 is a control-plane node", nil},
		{"the other one goes on after a failure", begun().failed(add(4), 1, 0), resumed(5), "adding the member on n5 is not complete", nil},
		{"both failed", two().failed(add(4), 1, 0).failed(add(5), 1, 0), nil, "add-member failed once", []string{"CKE207 n1"}},
		{"a single member waits for another voter before it restarts", one(), op.AddMember{Node: spec(2).Nodes[1], Etcd: spec(2).Options.Etcd}, "n2 is a control-plane node", nil},
		{"and for a person, if none can be added", one().failed(adds, 3, time.Second), nil, "no client is served while one restarts", []string{"CKE114 n1", "CKE207 n1"}},
		{"who accepts that nobody is served", one().with(accepted).failed(adds, 3, time.Second), op.RestartMember{Join: one().join(1), Etcd: one().Spec.Options.Etcd, Gap: true}, "other image than declared", nil},
		{"two of three wait for another voter", pair().with(other), op.AddMember{Node: spec(3).Nodes[2], Etcd: spec(3).Options.Etcd}, "n3 is a control-plane node", nil},
		{"or for a person, if its node is gone", pair().with(other).silent(3), nil, "2 voters, 3 declared: no client is served while one restarts", []string{"CKE114 n2", "CKE201 n3"}},
		{"who accepts it", pair().with(other).silent(3).with(accepted), op.RestartMember{Join: pair().join(2), Etcd: pair().with(other).Spec.Options.Etcd, Gap: true}, "n2 runs with other image", nil},
		{"for that revision", pair().with(other).silent(3).with(accepted).with(func(s *scene) { s.Generation++ }), nil, "no client is served", []string{"CKE114 n2", "CKE201 n3"}},
		{"two that are all that is declared do not wait", formed(2).running().with(other), op.RestartMember{Join: formed(2).join(2), Etcd: formed(2).with(other).Spec.Options.Etcd, Gap: true}, "n2 runs with other image", nil},
	})
}

// A learner is taken back after every fifth failure, and the pauses grow: each one leaves a volume and a record.
func TestDecide_TakesALearnerBackAfterEveryFifthFailure(t *testing.T) {
	learner := func(failures int, before time.Duration) *scene {
		s := formed(4).running().learner(4, false)
		return s.failed(op.AddMember{Node: s.Spec.Nodes[3]}, failures, before)
	}
	goOn := func(s *scene) op.AddMember {
		return op.AddMember{Node: s.Spec.Nodes[3], Etcd: s.join(4).Etcd, Resume: s.join(4).ID}
	}
	l := learner(5, 0)
	check(t, []row{
		{"four", learner(4, time.Minute), goOn(l), "is not complete", nil},
		{"five", l, repairing(remove(l, 4)), "failed to start 5 times; a new one is tried", nil},
		{"six", learner(6, time.Minute), goOn(l), "is not complete", nil},
		{"nine, a minute ago", learner(9, time.Minute), nil, "failed 9 times in a row", []string{"CKE207 n1", "CKE212 n4"}},
		{"nine, some minutes ago", learner(9, 7*time.Minute), goOn(l), "is not complete", nil},
		{"ten", learner(10, 0), repairing(remove(l, 4)), "a new one is tried", nil},
	})
}
