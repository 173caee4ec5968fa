package follow

import (
	"context"
	"errors"
	"slices"

	"cke"
)

// errTaskOver ends the following of a task whose record was found beside the watch.
var errTaskOver = errors.New("the task is over")

// TaskStore is what following a task needs of the store. Its contract is that of storage.Store.
type TaskStore interface {
	Records(ctx context.Context, cluster string, n int) ([]cke.Record, error)
	WithdrawTask(ctx context.Context, cluster, task string) error
}

// Task knows how far a task has come.
type Task struct {
	Store   TaskStore
	Cluster string
	ID      string
	// After is the newest record that was there before it was asked for.
	After int64
	// Last is the record of the task that was seen last, if there was one.
	Last  cke.Record
	begun bool
}

// About leaves out what was reported before the task was asked for, unless it keeps the task waiting.
func (w *Task) About() func(cke.Status) bool {
	first := true
	return func(s cke.Status) bool {
		was := first
		first = false
		held, _ := s.Condition(cke.CondPaused)
		return !was || held.Status == cke.True || s.Health == cke.HealthFrozen
	}
}

// Recorded takes note of a record and reports whether the task is over. An interrupted one is started again.
func (w *Task) Recorded(r cke.Record) bool {
	if r.Task != w.ID {
		return false
	}
	w.Last, w.begun = r, true
	return Over(r)
}

// Over reports whether a task ended with a record.
func Over(r cke.Record) bool {
	return !r.Part && (r.State == cke.RecordCompleted || r.State == cke.RecordFailed)
}

// Asked ends the following when the task is no longer asked for: it is over, or was canceled.
func (w *Task) Asked(ctx context.Context, r cke.Requests) error {
	if slices.ContainsFunc(r.Tasks, func(t cke.Task) bool { return t.ID == w.ID }) || slices.Contains(r.Unread, w.ID) {
		return nil
	}
	if err := w.find(ctx); err != nil || Over(w.Last) {
		return errors.Join(err, errTaskOver)
	}
	return &cke.Error{Code: cke.CodeConflict, What: "the task was canceled meanwhile", Unchanged: !w.begun}
}

// find reads the records for that of the task: the watch may not have brought it yet.
func (w *Task) find(ctx context.Context) error {
	records, err := w.Store.Records(ctx, w.Cluster, 20)
	if err != nil {
		return err
	}
	for _, r := range records {
		if r.ID > w.After && r.Task == w.ID {
			w.Last, w.begun = r, true
			return nil
		}
	}
	return nil
}

// Alone cancels a task that has not started while no daemon leads. One that has started waits for the next leader.
func (w *Task) Alone(ctx context.Context) error {
	if err := w.find(ctx); err != nil || w.begun {
		return err
	}
	err := w.Store.WithdrawTask(ctx, w.Cluster, w.ID)
	switch {
	case errors.Is(err, cke.ErrConflict), errors.Is(err, cke.ErrNotFound):
		return nil // a daemon leads again and has started it, or it is over: the watches report it
	case err != nil:
		return err
	}
	return NobodyTakes(w.Cluster)
}

// NobodyTakes returns why a task is not asked for, or was canceled.
func NobodyTakes(cluster string) error {
	return &cke.Error{Code: cke.CodeNoLeader, What: "no daemon leads " + cluster + ", so the task would not be done",
		Facts: []string{"start cke on a management host, or read its log there: journalctl -u cke"}, Unchanged: true, Try: "systemctl start cke"}
}
