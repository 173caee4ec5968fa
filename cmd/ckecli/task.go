package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cke"
	"cke/internal/follow"
	"cke/internal/term"
)

// tasks are what people ask leaders to do once.
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
	// done is the line that tells the end; took is how long it took, as people read it.
	done func(r cke.Record, took string) string
}

// taskDone is what a command that asks for a task writes for programs.
type taskDone struct {
	Cluster string  `json:"cluster"`
	Task    string  `json:"task"`
	Record  int64   `json:"record,omitempty"`
	Took    float64 `json:"took,omitempty"` // seconds
}

// runTask asks for a task, follows it and tells its end.
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

// newTask makes a task of the person at the keyboard.
func (a *app) newTask(kind cke.TaskKind, node, subject string) cke.Task {
	return cke.NewTask(kind, node, subject, a.whoami(), a.now())
}

// askTask stores a task, unless nobody leads the cluster: it would be done whenever a daemon comes, long after it was
// meant.
func (a *app) askTask(ctx context.Context, s store, cluster string, t cke.Task) error {
	_, err := s.Leader(ctx, cluster)
	if errors.Is(err, cke.ErrNotFound) {
		if _, err := s.Spec(ctx, cluster); err != nil {
			return err
		}
		return nobodyTakes(cluster)
	}
	if err == nil {
		err = s.AddTask(ctx, cluster, t)
	}
	return detached(ctx, err, "it is not known whether the leader was asked", a.again(cluster, "history"))
}

// nobodyTakes is why a task is not asked for, or was taken back.
func nobodyTakes(cluster string) error {
	return &cke.Error{Code: cke.CodeNoLeader, What: "no daemon leads " + cluster + ", so nobody would do it",
		Facts: []string{"start cke on a management host, or read its log there: journalctl -u cke"}, Unchanged: true, Try: "systemctl start cke"}
}

// followTask asks for a task and follows it until its record ends: nil when it was done, its error when it was refused
// or failed. A task that waits, as in a paused cluster, is waited for, and what for is told; one that nobody has begun
// while no daemon leads is taken back.
func (a *app) followTask(ctx context.Context, s store, cluster string, t cke.Task) (cke.Record, error) {
	newest, err := follow.NewestRecord(ctx, s, cluster)
	if err != nil {
		return cke.Record{}, err
	}
	if err := a.askTask(ctx, s, cluster, t); err != nil {
		return cke.Record{}, err
	}
	w := &taskWatch{app: a, store: s, cluster: cluster, task: t.ID, after: newest}
	f := a.newFollower(s, cluster, newest)
	f.About = w.about()
	f.Declared = follow.DeclaredStill(cluster)
	f.Asked = func(r cke.Requests) error { return w.asked(ctx, r) }
	f.Alone = w.alone
	f.Recorded = w.recorded
	_, err = f.Until(ctx, func(cke.Status) bool { return false })
	if err != nil && !over(w.last) {
		return cke.Record{}, detached(ctx, err, "the leader of "+cluster+" was asked, and goes on with it", a.again(cluster, "history -f"))
	}
	f.Tell.Record(w.last)
	if w.last.State == cke.RecordCompleted {
		return w.last, nil
	}
	return w.last, taskFailure(w.last)
}

// errTaskOver ends the following of a task whose record was found beside the watch.
var errTaskOver = errors.New("the task is over")

// taskWatch knows how far a task has come.
type taskWatch struct {
	app     *app
	store   store
	cluster string
	task    string
	after   int64
	// last is the record of the task that was seen last; begun: there was one.
	last  cke.Record
	begun bool
}

// about leaves out what was told before the task was asked for, unless it keeps the task waiting.
func (w *taskWatch) about() func(cke.Status) bool {
	first := true
	return func(s cke.Status) bool {
		was := first
		first = false
		held, _ := s.Condition(cke.CondPaused)
		return !was || held.Status == cke.True || s.Health == cke.HealthFrozen
	}
}

// recorded takes note of a record and reports whether the task is over. An interrupted one is begun again.
func (w *taskWatch) recorded(r cke.Record) bool {
	if r.Task != w.task {
		return false
	}
	w.last, w.begun = r, true
	return over(r)
}

// over reports whether a task ended with a record.
func over(r cke.Record) bool {
	return !r.Part && (r.State == cke.RecordCompleted || r.State == cke.RecordFailed)
}

// asked ends the following when the task is no longer asked for: it is over, or somebody took it back.
func (w *taskWatch) asked(ctx context.Context, r cke.Requests) error {
	if slices.ContainsFunc(r.Tasks, func(t cke.Task) bool { return t.ID == w.task }) {
		return nil
	}
	if err := w.find(ctx); err != nil || over(w.last) {
		return errors.Join(err, errTaskOver)
	}
	return &cke.Error{Code: cke.CodeConflict, What: "the task was taken back by somebody", Unchanged: !w.begun}
}

// find reads the records for that of the task: the watch may not have brought it yet.
func (w *taskWatch) find(ctx context.Context) error {
	records, err := w.store.Records(ctx, w.cluster, 20)
	if err != nil {
		return err
	}
	for _, r := range records {
		if r.ID > w.after && r.Task == w.task {
			w.last, w.begun = r, true
			return nil
		}
	}
	return nil
}

// alone takes back a task that nobody has begun while no daemon leads. One that was begun waits for the next leader.
func (w *taskWatch) alone(ctx context.Context) error {
	if err := w.find(ctx); err != nil || w.begun {
		return err
	}
	err := w.store.WithdrawTask(ctx, w.cluster, w.task)
	switch {
	case errors.Is(err, cke.ErrConflict), errors.Is(err, cke.ErrNotFound):
		return nil // somebody leads again and has begun it, or it is over: the watches tell
	case err != nil:
		return err
	}
	return nobodyTakes(w.cluster)
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
