package strategy_test

import (
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// unrecorded lets the store lack the start of the ith member: it was brought back from a copy that was made while that was added.
func (s *scene) unrecorded(i int) *scene {
	s.Identity.Joins[i-1].StartedAt = time.Time{}
	return s
}

// unidentified lets it lack the member id, too.
func (s *scene) unidentified(i int) *scene {
	s.Identity.Joins[i-1].MemberID = ""
	return s
}

// learnerUnseen is a learner that somebody started while there is no quorum: its container is all that shows it.
func learnerUnseen() *scene {
	return formed(3).running().learner(3, true).unrecorded(3).silent(2).lost()
}

// A member that was started is one that votes, is started, and holds data that counts, whether the store has its start or not.
func TestDecide_PutsStartsOnRecordThatTheStoreLacks(t *testing.T) {
	started := func(i int, id bool) cke.Join {
		s := formed(3)
		if !id {
			s.unidentified(i)
		}
		j := s.join(i)
		j.StartedAt = s.container(i).StartedAt
		return j
	}
	record := func(i int, id bool) op.RecordStart { return op.RecordStart{Join: started(i, id)} }
	neverVoted := func(s *scene) { s.Identity.Joins[2].NeverVoted = true }
	repaired := func(s *scene) { s.Identity.Joins[2].Repair = true }
	never := formed(3)
	never.Identity.Joins[2].NeverVoted = true
	learner := formed(4).running().learner(4, true).unrecorded(4)
	begun := learner.join(4)
	begun.StartedAt = learner.container(4).StartedAt
	left := func() *scene { // only the archived volume of n3 is left
		s := formed(3).unrecorded(3)
		s.node(3).Containers, s.Seen.Etcd.Members = nil, s.Seen.Etcd.Members[:2]
		s.quiet(3)
		return s
	}
	nothing := left().join(3)
	nothing.NeverVoted = true
	stood := func() *scene { return formed(3).unrecorded(3).unidentified(3).wiped(3) }
	elsewhere := func(s *scene) { s.Seen.Etcd.Members[2].PeerURLs = []string{"https://10.0.0.3:3380"} }
	check(t, []row{
		{"a voter", formed(3).unrecorded(3), record(3, true), "the member of n3 was started", nil},
		{"whose member id is not on record", formed(3).unrecorded(3).unidentified(3), record(3, false), "the member of n3 was started", nil},
		{"whose start is on record by now", formed(3).unidentified(3), op.RecordStart{Join: formed(3).unidentified(3).join(3)}, "the member of n3 was started", nil},
		{"not of one that answers with another id", formed(3).unrecorded(3).unidentified(3).with(func(s *scene) { s.endpoint(3).MemberID = "m9" }), nil, "nothing to do", nil},
		{"one that was moved to other ports since the store was copied", formed(3).unrecorded(3).unidentified(3).with(elsewhere), record(3, false), "the member of n3 was started", nil},
		{"and that does not answer: it is not ended", formed(3).unrecorded(3).unidentified(3).with(elsewhere).quietMembers(3), nil, "", []string{"CKE104 n3", "CKE215 n3"}},
		{"a learner", learner, op.RecordStart{Join: begun}, "the member of n4 was started", nil},
		{"also while there is no quorum", learnerUnseen(), op.RecordStart{Join: learnerUnseen().with(func(s *scene) { s.Identity.Joins[2].StartedAt = s.container(3).StartedAt }).join(3)}, "the member of n3 was started", nil},
		{"one that is on record as one that never voted", formed(3).with(neverVoted), op.RecordStart{Join: never.join(3)}, "", nil},
		{"one that was to be repaired and serves", formed(3).with(repaired), op.RecordStart{Join: formed(3).with(repaired).join(3)}, "being replaced", nil},
		{"before it is taken out", formed(3).unrecorded(3).undeclared(3), op.RecordStart{Join: formed(3).unrecorded(3).undeclared(3).with(func(s *scene) { s.Identity.Joins[2].StartedAt = noon }).join(3)}, "", nil},
		{"a voter that is stopped is started first", formed(3).unrecorded(3).stopped(3), op.StartMembers{Joins: []cke.Join{started(3, true)}, AwaitServing: true}, "n3 stopped", nil},
		{"also where only its container says that it ever ran", formed(3).unrecorded(3).unidentified(3).stopped(2, 3).lost(),
			op.StartMembers{Joins: []cke.Join{formed(3).join(2), started(3, false)}, AwaitServing: true}, "n2 and n3 stopped", nil},
		{"what has left the list has ended", formed(3).unrecorded(3).with(removedByHand), op.EndMembership{Join: started(3, true)}, "n3 is no longer", nil},
		{"also where its start is not on record and only its volume is left", left(), op.EndMembership{Join: left().join(3)}, "n3 is no longer", nil},
		{"which may be on a node that is silent", left().unidentified(3).undeclared(3).silent(3), op.EndMembership{Join: left().unidentified(3).join(3), Silent: true, Agreed: []cke.JoinID{"join3"}}, "n3 is no longer", nil},
		{"where nothing is left nothing is kept", left().wiped(3), op.EndMembership{Join: nothing}, "n3 is no longer", nil},
		{"not where another member stands at its peer URL", stood(), nil, "is on this node", []string{"CKE307 n3", "CKE212 n3"}},
		{"which is removed as any other stranger", stood().with(func(s *scene) { s.Spec.Policies.Foreign = cke.ForeignRemove }), op.RemoveMember{Member: stood().Seen.Etcd.Members[2]}, "has no membership on record", nil},
		{"and may be what a silent node carries", stood().silent(3), nil, "waiting for n3", []string{"CKE201 n3"}},
	})
	for name, s := range map[string]*scene{
		"its node is silent":                      formed(3).unrecorded(3).silent(2, 3).lost().remembered(),
		"and the store does not know its id":      formed(3).unrecorded(3).unidentified(3).silent(2, 3).lost().remembered(),
		"its own container says that it ever ran": formed(3).unrecorded(3).silent(2).lost().with(func(s *scene) { s.quiet(3) }),
	} {
		if st := s.report(); st.Health == cke.HealthLost {
			t.Errorf("%s: %s", name, st.Summary)
		}
	}
	gone := formed(3).unrecorded(3).wiped(3)
	if d := strategy.Decide(gone.Input); d.Rule != "record starts" {
		t.Errorf("%+v", d)
	}
	if p := gone.report().Problems; len(p) == 0 || p[0].Code != cke.CodeDataMissing {
		t.Errorf("its data is gone, and nobody says so: %+v", p)
	}
	before := formed(3).unrecorded(3)
	strategy.Decide(before.Input)
	if !before.join(3).StartedAt.IsZero() {
		t.Error("what is stored was changed")
	}
}

// remembered lets the list that was seen last be that of all.
func (s *scene) remembered() *scene {
	s.Before.Incarnation, s.Before.Etcd = "life", cke.EtcdStatus{Members: formed(len(s.Identity.Joins)).Seen.Etcd.Members}
	return s
}
