package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"cke"
	"cke/internal/term"
	"cke/internal/words"
)

func newTaskCommand(a *app) *cobra.Command {
	return newGroup("task", groupWant, "Show what was asked for once and is not done yet, and cancel it",
		newTaskListCommand(a), newTaskCancelCommand(a))
}

func newTaskListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "list [CLUSTER]", Aliases: []string{"ls"}, Args: arguments(0, 1), ValidArgsFunction: first(a.completeClusters()),
		Short: "List the tasks that are not over, the oldest first, and why each waits",
		Long: `List what the leader was asked to do once and what is not over: who asked for it, when, how far it is, and why nothing is
done for it now, as far as the leader reports it. A task that has not started can be canceled: ` + "`ckecli task cancel`" + `.

What is active until an operator ends it is no task: a pause, a lease, a hibernation; ` + "`ckecli status`" + ` shows those.`,
		RunE: a.onCluster(func(ctx context.Context, s store, _ []string) error {
			return runTaskList(ctx, a, s)
		}),
	}
}

// States of a task.
const (
	taskWaiting = "waiting" // not started
	taskRunning = "running"
	taskBegun   = "begun" // and nothing runs for it now
	// taskUnreadable is one that cannot be decoded, of which only the id is known.
	taskUnreadable = "unreadable"
)

// listedTask is a task as `task list` writes it for programs.
type listedTask struct {
	cke.Task
	State string `json:"state"`
	// Record is the newest one of it; 0: it has not started.
	Record int64 `json:"record,omitempty"`
	// Because is why nothing is done for it now, or what is; empty: not known.
	Because string `json:"because,omitempty"`
}

func runTaskList(ctx context.Context, a *app, s store) error {
	cluster, err := a.theCluster(ctx, s)
	if err != nil {
		return err
	}
	all, err := a.listTasks(ctx, s, cluster)
	if err != nil {
		return err
	}
	names := []string{}
	for _, t := range all {
		names = append(names, t.ID)
	}
	return a.show(view{data: all, names: names, table: func(w io.Writer, colour, wide bool) error {
		if len(all) == 0 {
			fmt.Fprintf(a.stderr, "Nothing that was asked of the leader of %s is left to do.\n", cluster)
			return nil
		}
		header := []string{"ID", "TASK", "ABOUT", "STATE", "ASKED", "BY", "WHY"}
		if wide {
			header = append(header, "AT", "REASON")
		}
		t := term.NewTable(header...)
		for _, l := range all {
			state := term.Text(l.State)
			if l.State == taskWaiting || l.State == taskUnreadable {
				state.Style = term.Yellow
			}
			asked, at := "-", "-"
			if l.State != taskUnreadable {
				asked, at = a.ago(l.At)+" ago", words.Moment(l.At)
			}
			t.Add(term.Text(l.ID), term.Text(orDash(string(l.Kind))), term.Text(about(l.Task)), state, term.Text(asked), term.Text(orDash(l.By)),
				term.Text(l.Because), term.Text(at), term.Text(l.Reason))
		}
		return t.Write(w, colour)
	}})
}

// listTasks joins what is asked for with how far it is.
func (a *app) listTasks(ctx context.Context, s store, cluster string) ([]listedTask, error) {
	asked, err := s.RequestsOf(ctx, cluster)
	if err != nil {
		return nil, err
	}
	led, err := isLed(ctx, s, cluster)
	if err != nil {
		return nil, err
	}
	st, err := s.Status(ctx, cluster)
	if err != nil && !errors.Is(err, cke.ErrNotFound) {
		return nil, err
	}
	records, err := s.Records(ctx, cluster, 0)
	if err != nil {
		return nil, err
	}
	all := []listedTask{}
	for _, t := range asked.Tasks {
		l := listedTask{Task: shownTask(t), State: taskWaiting, Because: a.waitsFor(st, led, t)}
		if r, begun := recordOf(records, t.ID); begun {
			l.State, l.Record = taskBegun, r.ID
			if r.State == cke.RecordRunning && led {
				l.State, l.Because = taskRunning, words.Heading(r)
			}
		}
		all = append(all, l)
	}
	for _, id := range asked.Unread {
		all = append(all, listedTask{Task: cke.Task{ID: id}, State: taskUnreadable, Because: "it cannot be decoded: " + a.again(cluster, "task cancel "+id)})
	}
	return all, nil
}

// shownTask is a task without a password in the URL of the backups.
func shownTask(t cke.Task) cke.Task {
	if t.Restore != nil {
		o := *t.Restore
		o.Target = shownURL(o.Target)
		t.Restore = &o
	}
	return t
}

// recordOf returns the newest record of a task; records come newest first.
func recordOf(records []cke.Record, task string) (cke.Record, bool) {
	i := slices.IndexFunc(records, func(r cke.Record) bool { return r.Task == task })
	if i < 0 {
		return cke.Record{}, false
	}
	return records[i], true
}

// waitsFor is why nothing is done for a task, as far as the leader has reported.
func (a *app) waitsFor(st cke.Status, led bool, t cke.Task) string {
	switch o := st.Operation; {
	case !led:
		return "no daemon leads the cluster"
	case st.Cluster == "":
		return "the leader has reported no status yet"
	case o != nil && o.State == cke.RecordRunning:
		return fmt.Sprintf("#%d %s is under way", o.ID, o.Type)
	case a.age(st) > words.StaleAfter:
		return fmt.Sprintf("the leader has reported nothing for %s; before that: %s", term.Age(a.age(st)), st.Reason)
	case st.ObservedAt.Before(t.At):
		return "the leader has not observed it since; before that: " + st.Reason
	}
	return st.Reason
}

// about is what a task is about: a node, a volume, the state to go back to.
func about(t cke.Task) string {
	switch {
	case t.Node != "":
		return t.Node
	case t.Restore != nil:
		return t.Restore.Describe()
	case t.Kind == cke.TaskPurge, t.Kind == cke.TaskUndelete, t.Kind == cke.TaskBackup:
		return t.Subject
	}
	return ""
}
