package storage

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cke"
)

func TestTasks_AreDoneOnceInTheOrderAsked(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	first := cke.NewTask(cke.TaskDefragment, "cp1", "", "me@here", noon)
	second := cke.NewTask(cke.TaskMoveLeader, "cp2", "", "me@here", noon.Add(time.Second))
	if err := s.AddTask(ctx, "prod", first); !errors.Is(err, cke.ErrNotFound) {
		t.Errorf("there is no cluster yet: %v", err)
	}
	setCluster(t, s, "prod")
	term := campaign(t, s, "prod", "here")
	states := s.WatchCluster(ctx, "prod")
	for _, task := range []cke.Task{second, first} {
		if err := s.AddTask(ctx, "prod", task); err != nil {
			t.Fatal(err)
		}
	}
	state := await(t, states, func(c ClusterState) bool { return len(c.Asked().Tasks) == 2 })
	if d := cmp.Diff([]cke.Task{first, second}, state.Asked().Tasks); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for range 2 { // the answer to the first may be lost
		if err := term.FinishTask(ctx, first.ID); err != nil {
			t.Fatal(err)
		}
	}
	await(t, states, func(c ClusterState) bool { return cmp.Equal(c.Asked().Tasks, []cke.Task{second}) })
	if err := s.WithdrawTask(ctx, "prod", second.ID); err != nil {
		t.Fatal(err)
	}
	await(t, states, func(c ClusterState) bool { return len(c.Asked().Tasks) == 0 })
}

func TestFreeze_IsKeptUntilItIsLifted(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	term := campaign(t, s, "prod", "here")
	if err := term.CreateIncarnation(ctx, cke.NewIncarnation(testCluster("prod"), nil, time.Now())); err != nil {
		t.Fatal(err)
	}
	states := s.WatchCluster(ctx, "prod")
	f := cke.NewFreeze(cke.FreezeUnequalData, "revision 7", cke.Problem{Code: cke.CodeSplitBrain, Message: "cp1 differs"}, cke.EtcdStatus{})
	if err := term.PutFreeze(ctx, f); err != nil {
		t.Fatal(err)
	}
	other := cke.NewFreeze(cke.FreezeCorrupt, "alarm", f.Problem, cke.EtcdStatus{})
	if err := term.PutFreeze(ctx, other); !errors.Is(err, cke.ErrConflict) {
		t.Errorf("a second finding took the place of the first: %v", err)
	}
	if id, err := s.Identity(ctx, "prod"); err != nil || !id.Freeze.Active() || id.Freeze.ID != f.ID || len(id.Joins) == 0 {
		t.Errorf("%+v, %v", id, err)
	}
	f.LiftedAt, f.LiftedBy = time.Now().UTC(), "me@here"
	if err := term.PutFreeze(ctx, f); err != nil {
		t.Fatal(err)
	}
	await(t, states, func(c ClusterState) bool { return c.Identity.Freeze != nil && !c.Identity.Freeze.Active() })
	if err := term.PutFreeze(ctx, other); err != nil {
		t.Errorf("the first one was lifted: %v", err)
	}
	compared := cke.Comparison{At: time.Now().UTC(), Revision: 7, Hashes: []cke.MemberHash{{Node: "cp1", Hash: 1}}}
	if err := term.PutComparison(ctx, compared); err != nil {
		t.Fatal(err)
	}
	state := await(t, states, func(c ClusterState) bool { return c.Identity.Compared != nil })
	if d := cmp.Diff(compared, *state.Identity.Compared); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestTasks_ThatCannotBeDecodedAreNamed(t *testing.T) {
	state := ClusterState{Requests: map[string]Request{taskOf("t7"): {Kind: taskOf("t7"), Args: []byte(`{"id": 7}`)}, taskOf("t8"): {Kind: taskOf("t8"), Args: []byte(`{"id": "t8"}`)}}}
	if asked := state.Asked(); len(asked.Tasks) != 1 || !cmp.Equal(asked.Unread, []string{"t7"}) {
		t.Errorf("%+v", asked)
	}
}
