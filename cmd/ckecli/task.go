package main

import (
	"context"
	"errors"
	"fmt"

	"cke"
	"cke/internal/follow"
	"cke/internal/term"
)

// tasks are what users ask leaders to do once.
type tasks interface {
	AddTask(ctx context.Context, cluster string, t cke.Task) error
	WithdrawTask(ctx context.Context, cluster, id string) error
	RequestsOf(ctx context.Context, cluster string) (cke.Requests, error)
}

// taskRun is a task with how it is to be told.
type taskRun struct {
	cluster string
	task    cke.Task
	// noWait returns once the leader is asked, with the task's id.
	noWait bool
	// done is the line that shows the end; took is how long it took, as users read it.
	done func(r cke.Record, took string) string
}

// taskDone is what a command that asks for a task writes for programs.
type taskDone struct {
	Cluster string  `json:"cluster"`
	Task    string  `json:"task"`
	Record  int64   `json:"record,omitempty"`
	Took    float64 `json:"took,omitempty"` // seconds
}

// runTask asks for a task, follows it and shows its end.
func (a *app) runTask(ctx context.Context, s store, t taskRun) error {
	if t.noWait {
		if err := a.askTask(ctx, s, t.cluster, t.task); err != nil {
			return err
		}
		return a.showTask(taskDone{Cluster: t.cluster, Task: t.task.ID}, t.task.ID)
	}
	begun := a.now()
	r, err := a.followTask(ctx, s, t.cluster, t.task)
	if err != nil {
		return err
	}
	took := a.now().Sub(begun)
	return a.showTask(taskDone{t.cluster, t.task.ID, r.ID, took.Seconds()}, t.done(r, term.Took(took)))
}

func (a *app) showTask(d taskDone, line string) error {
	return a.showLine(d, d.Task, term.Clean(line))
}

// newTask makes a task of the user.
func (a *app) newTask(kind cke.TaskKind, node, subject string) cke.Task {
	return cke.NewTask(kind, node, subject, a.whoami(), a.now())
}

// askTask stores a task, unless no daemon leads the cluster: it would be done whenever a daemon comes, long after it was
// meant.
func (a *app) askTask(ctx context.Context, s store, cluster string, t cke.Task) error {
	_, err := s.Leader(ctx, cluster)
	if errors.Is(err, cke.ErrNotFound) {
		if _, err := s.Spec(ctx, cluster); err != nil {
			return err
		}
		return follow.NobodyTakes(cluster)
	}
	if err == nil {
		err = s.AddTask(ctx, cluster, t)
	}
	return detached(ctx, err, "it is not known whether the leader was asked", a.again(cluster, "history"))
}

// followTask asks for a task and follows it until its record ends: nil when it was done, its error when it was refused
// or failed. A task that waits, as in a paused cluster, is waited for, and what for is shown; one that has not started
// while no daemon leads is canceled.
func (a *app) followTask(ctx context.Context, s store, cluster string, t cke.Task) (cke.Record, error) {
	newest, err := follow.NewestRecord(ctx, s, cluster)
	if err != nil {
		return cke.Record{}, err
	}
	if err := a.askTask(ctx, s, cluster, t); err != nil {
		return cke.Record{}, err
	}
	w := &follow.Task{Store: s, Cluster: cluster, ID: t.ID, After: newest}
	f := a.newFollower(s, cluster, newest)
	f.About = w.About()
	f.Declared = follow.DeclaredStill(cluster)
	f.Asked = func(r cke.Requests) error { return w.Asked(ctx, r) }
	f.Alone = w.Alone
	f.Recorded = w.Recorded
	_, err = f.Until(ctx, func(cke.Status) bool { return false })
	if err != nil && !follow.Over(w.Last) {
		return cke.Record{}, detached(ctx, err, "the leader of "+cluster+" was asked, and continues with it", a.again(cluster, "history -f"))
	}
	f.Tell.Record(w.Last)
	if w.Last.State == cke.RecordCompleted {
		return w.Last, nil
	}
	return w.Last, taskFailure(w.Last)
}

// taskFailure is the error that a record ended with, as it is shown. What changed nothing was refused.
func taskFailure(r cke.Record) error {
	if r.Refusal == nil {
		return &cke.Error{Code: cke.CodeInternal, What: fmt.Sprintf("#%d %s failed: %s", r.ID, r.Operation, r.Error)}
	}
	e := &cke.Error{Code: r.Code, What: r.Refusal.What, Facts: r.Refusal.Facts, Unchanged: r.Refusal.Unchanged, Try: r.Refusal.Try}
	if e.Unchanged && exitOf[e.Code] != exitDamaged {
		return refused(e)
	}
	return e
}
