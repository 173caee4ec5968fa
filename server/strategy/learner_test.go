package strategy_test

import (
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// learning is a cluster of three with a learner on n4, of which looks have told the same for a while, the last one a
// second ago.
func learning(watched time.Duration, state string) *scene {
	return formed(4).running().learner(4, true).with(func(s *scene) {
		s.endpoint(4).RaftApplied = 10
		s.Before.ObservedAt = noon.Add(-time.Second)
		s.Before.Members = []cke.MemberStatus{{Name: "n4", Join: s.join(4).ID, Role: "learner", State: state, Applied: 10,
			Since: noon.Add(-time.Hour), ProgressAt: noon.Add(-time.Hour), Watched: cke.Duration(watched)}}
	})
}

// Requirement A7: a learner that comes no further is taken back.
func TestDecide_WithdrawsALearnerThatIsStuck(t *testing.T) {
	gone := repairing(remove(learning(0, "healthy"), 4))
	unseen := func(s *scene) { s.Before.ObservedAt = noon.Add(-24 * time.Hour) }
	further := func(s *scene) { s.endpoint(4).RaftApplied = 11 }
	check(t, []row{
		{"for ten minutes", learning(10*time.Minute, "healthy"), gone, "has made no progress for 10m1s", nil},
		{"not before", learning(9*time.Minute, "healthy"), nil, "is catching up", nil},
		{"nobody looked for a day", learning(9*time.Minute, "healthy").with(unseen), nil, "is catching up", nil},
		{"the clock was set forward by a day", learning(0, "healthy").with(unseen), nil, "is catching up", nil},
		{"the clock was set back", learning(0, "healthy").with(func(s *scene) { s.Before.ObservedAt = noon.Add(time.Hour) }), nil, "is catching up", nil},
		{"not while it comes further", learning(time.Hour, "healthy").with(further), nil, "is catching up", nil},
		{"one that answers nobody", learning(10*time.Minute, "unhealthy").with(func(s *scene) { s.quiet(4) }), gone, "has made no progress", nil},
		{"on a node that is silent", learning(10*time.Minute, "unreachable").silent(4), silently(gone), "has made no progress", nil},
		{"a voter is none", formed(3).running().with(func(s *scene) {
			s.endpoint(3).Linearizable = false
			s.Before.ObservedAt = noon.Add(-time.Second)
			s.Before.Members = []cke.MemberStatus{{Name: "n3", Join: s.join(3).ID, State: "unhealthy", Since: noon.Add(-time.Hour), Watched: cke.Duration(time.Hour)}}
		}), nil, "waiting for n3", []string{"CKE215 n3"}},
	})
}

// Only time in which somebody looked counts.
func TestReport_CountsForHowLongALearnerWasSeenToStandStill(t *testing.T) {
	now := noon
	s := formed(4).running().learner(4, true)
	look := func(pause time.Duration, applied uint64, silent bool) time.Duration {
		now = now.Add(pause)
		s.Seen.ObservedAt = now
		for i := range s.Seen.Nodes {
			s.node(i + 1).Clock = now
		}
		e := *s.endpoint(4)
		if s.endpoint(4).RaftApplied = applied; silent {
			s.quiet(4)
		}
		st := strategy.Report(s.Input, strategy.Decide(s.Input), s.Before)
		*s.endpoint(4) = e
		s.Before = st
		return time.Duration(st.Members[3].Watched)
	}
	for _, row := range []struct {
		name    string
		pause   time.Duration
		applied uint64
		silent  bool
		want    time.Duration
	}{
		{"at first", 0, 10, false, 0},
		{"the same", 5 * time.Second, 10, false, 5 * time.Second},
		{"the same again", 5 * time.Second, 10, false, 10 * time.Second},
		{"after a day without a daemon", 24 * time.Hour, 10, false, 10 * time.Second},
		{"it comes further", 5 * time.Second, 11, false, 0},
		{"the same", 5 * time.Second, 11, false, 5 * time.Second},
		{"the clock is set back", -time.Hour, 11, false, 5 * time.Second},
		{"it falls silent", 5 * time.Second, 11, true, 0},
		{"still", 5 * time.Second, 11, true, 5 * time.Second},
	} {
		if got := look(row.pause, row.applied, row.silent); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
}

// A learner that comes further for ever is not withdrawn; people are told.
func TestReport_TellsOfALearnerThatDoesNotCatchUp(t *testing.T) {
	since := func(d time.Duration) *scene {
		return learning(0, "healthy").with(func(s *scene) {
			s.Identity.Joins[3].StartedAt = noon.Add(-d)
			s.indices(5000, 5000, 5000, 5000, 11)
		})
	}
	for _, row := range []struct {
		name  string
		scene *scene
		told  bool
	}{
		{"soon", since(59 * time.Minute), false},
		{"after an hour", since(time.Hour), true},
		{"by a clock that is wrong", since(time.Hour).clocks(60, 60, 60, 60), false},
		{"it has caught up", since(time.Hour).indices(5000, 5000, 5000, 5000, 4999), false},
	} {
		d := strategy.Decide(row.scene.Input)
		if _, withdrawn := d.Operation.(op.RemoveMember); withdrawn {
			t.Errorf("%s: %+v", row.name, d.Operation)
		}
		told := false
		for _, p := range row.scene.report().Problems {
			told = told || p.Code == cke.CodeSlowLearner && p.Node == "n4"
		}
		if told != row.told {
			t.Errorf("%s: told %v: %s", row.name, told, d.Reason)
		}
	}
}

// While etcd receives a database it serves nobody, and does not tell how far it has come.
func TestDecide_GivesALearnerTheTimeThatItsDatabaseTakes(t *testing.T) {
	silent := func(size int64, watched time.Duration) *scene {
		s := formed(4).running().learner(4, true)
		s.quiet(4)
		for i := 1; i <= 3; i++ {
			s.endpoint(i).DBSize = size
		}
		s.Before.ObservedAt = noon.Add(-time.Second)
		s.Before.Members = []cke.MemberStatus{{Name: "n4", Join: s.join(4).ID, State: "unhealthy", Watched: cke.Duration(watched)}}
		return s
	}
	for _, row := range []struct {
		name  string
		scene *scene
		taken bool // back
	}{
		{"a small one, after ten minutes", silent(20<<20, 11*time.Minute), true},
		{"8 GB, after ten minutes", silent(8<<30, 11*time.Minute), false},
		{"8 GB, after three hours", silent(8<<30, 3*time.Hour), true},
	} {
		_, taken := strategy.Decide(row.scene.Input).Operation.(op.RemoveMember)
		if taken != row.taken {
			t.Errorf("%s: taken back: %v", row.name, taken)
		}
	}
}

// The management host cannot reach the leader; the others can, and name it their leader.
func TestDecide_PromotesByWhatTheOthersHeardOfTheLeader(t *testing.T) {
	check(t, []row{
		{"caught up", formed(4).running().learner(4, true).silent(1), op.PromoteMember{Join: formed(4).join(4)}, "the learner on n4 has caught up", nil},
	})
}

// A learner whose log was removed under it would acknowledge what is gone with its process: it never votes.
func TestDecide_WithdrawsALearnerThatRunsOnRemovedFiles(t *testing.T) {
	unlinked := func(s *scene) { s.container(4).Data = cke.DataMissing }
	caughtUp := func(s *scene) { s.endpoint(4).RaftApplied = s.endpoint(1).RaftApplied }
	s := learning(time.Second, "healthy")
	j := s.join(4)
	gone := op.RemoveMember{Member: s.Seen.Etcd.Members[3], Join: &j, Repair: true}
	const why = "the write-ahead log of the learner on n4 was removed while it runs; a new one is tried"
	check(t, []row{
		{"it is on its way", s.with(unlinked), gone, why, nil},
		{"it has caught up", learning(time.Second, "healthy").with(unlinked).with(caughtUp), gone, why, nil},
	})
	if d := strategy.Decide(formed(4).running().learner(4, true).with(unlinked).Input); d.Operation != nil {
		t.Errorf("it may be just starting: %#v", d.Operation)
	}
}
