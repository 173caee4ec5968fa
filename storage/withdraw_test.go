package storage

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"cke"
)

// askFor stores a task of this kind.
func askFor(t *testing.T, s *Store, kind cke.TaskKind) cke.Task {
	t.Helper()
	task := cke.NewTask(kind, "cp1", "", "me@here", time.Now())
	if err := s.AddTask(testContext(t), "prod", task); err != nil {
		t.Fatal(err)
	}
	return task
}

// taskIn reports whether a task is in the store, and how many records name it.
func taskIn(t *testing.T, s *Store, task cke.Task) (there bool, records int) {
	t.Helper()
	r, err := s.RequestsOf(testContext(t), "prod")
	if err != nil {
		t.Fatal(err)
	}
	all, err := s.Records(testContext(t), "prod", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if r.Task == task.ID {
			records++
		}
	}
	return slices.ContainsFunc(r.Tasks, func(other cke.Task) bool { return other.ID == task.ID }), records
}

func TestWithdrawTask_OnlyWhatNobodyHasBegun(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	term := campaign(t, s, "prod", "here")
	withdraw := func(id string, want error) {
		t.Helper()
		if err := s.WithdrawTask(ctx, "prod", id); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	withdraw("none", cke.ErrNotFound)

	task := askFor(t, s, cke.TaskReplace)
	withdraw(task.ID, nil)
	withdraw(task.ID, cke.ErrNotFound)
	if _, err := term.AppendRecord(ctx, cke.Record{Operation: "replace", Task: task.ID}); !errors.Is(err, cke.ErrConflict) {
		t.Errorf("what was taken back is begun: %v", err)
	}
	if there, records := taskIn(t, s, task); there || records > 0 {
		t.Errorf("there: %t, %d records", there, records)
	}

	task = askFor(t, s, cke.TaskReplace)
	r, err := term.AppendRecord(ctx, cke.Record{Operation: "remove-member", Task: task.ID, Part: true, State: cke.RecordRunning})
	if err != nil {
		t.Fatal(err)
	}
	withdraw(task.ID, cke.ErrConflict)
	for _, state := range []cke.RecordState{cke.RecordInterrupted, cke.RecordCompleted} {
		r.State, r.EndedAt = state, time.Now().UTC()
		if err := term.PutRecord(ctx, r); err != nil {
			t.Fatal(err)
		}
		if _, err := term.AppendRecord(ctx, cke.Record{Operation: "add-member"}); err != nil { // the newest one is of something else
			t.Fatal(err)
		}
		withdraw(task.ID, cke.ErrConflict)
	}
	if there, records := taskIn(t, s, task); !there || records != 1 {
		t.Errorf("there: %t, %d records", there, records)
	}
	if err := term.FinishTask(ctx, task.ID); err != nil {
		t.Fatal(err)
	}
	withdraw(task.ID, cke.ErrNotFound)
}

// Both see a task that nobody has begun; only one of them may go on.
func TestWithdrawTask_AndABeginningCannotBothWin(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	term := campaign(t, s, "prod", "here")
	outcomes := map[string]int{}
	for round := range 150 {
		task := askFor(t, s, cke.TaskDefragment)
		start := make(chan struct{})
		var withdrawn, begun error
		var wg sync.WaitGroup
		wg.Go(func() { <-start; withdrawn = s.WithdrawTask(ctx, "prod", task.ID) })
		wg.Go(func() {
			<-start
			if round%3 == 0 { // a record of something else comes first
				if _, err := term.AppendRecord(ctx, cke.Record{Operation: "compare"}); err != nil {
					t.Error(err)
				}
			}
			_, begun = term.AppendRecord(ctx, cke.Record{Operation: "defragment", Task: task.ID})
		})
		close(start)
		wg.Wait()
		there, records := taskIn(t, s, task)
		outcome := fmt.Sprintf("withdrawn %t, begun %t, there %t, records %d", withdrawn == nil, begun == nil, there, records)
		outcomes[outcome]++
		switch {
		case withdrawn == nil && errors.Is(begun, cke.ErrConflict) && !there && records == 0:
		case begun == nil && errors.Is(withdrawn, cke.ErrConflict) && there && records == 1:
		default:
			t.Fatalf("round %d: %s: %v, %v", round, outcome, withdrawn, begun)
		}
		if err := term.FinishTask(ctx, task.ID); err != nil {
			t.Fatal(err)
		}
	}
	t.Log(outcomes)
}
