package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cke"
	"cke/internal/follow"
	"cke/internal/term"
	"cke/internal/words"
)

func newTaskCancelCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "cancel ID|NODE", Args: arguments(1, 1), ValidArgsFunction: first(a.completeTasks()),
		Short: "Cancel a task that has not started",
		Long: `Cancel a task that has not started, by its id or by the node that it is about, as ` + "`ckecli task list`" + ` shows it. Commands that
follow it report it. No daemon needs to run for it.

A task that has started, or is over, is refused (exit code 6), and the command shows what you can do: what is half done is not
undone. A task either starts or is canceled: a canceled task never starts later.`,
		Example: "  ckecli task cancel cp3",
		RunE: a.onStore(func(ctx context.Context, s store, args []string) error {
			return runTaskCancel(ctx, a, s, args[0])
		}),
	}
}

// cancelledTask is what `task cancel` writes for programs.
type cancelledTask struct {
	Cluster string   `json:"cluster"`
	Task    cke.Task `json:"task"`
}

func runTaskCancel(ctx context.Context, a *app, s store, which string) error {
	cluster, err := a.theCluster(ctx, s)
	if err != nil {
		return err
	}
	t, err := a.findTask(ctx, s, cluster, which)
	if err != nil {
		return err
	}
	err = s.WithdrawTask(ctx, cluster, t.ID)
	switch {
	case errors.Is(err, cke.ErrConflict), errors.Is(err, cke.ErrNotFound):
		return a.notCancelled(ctx, s, cluster, t)
	case err != nil:
		return detached(ctx, err, "it is not known whether the task was canceled", a.again(cluster, "task list"))
	}
	if id, err := s.Identity(ctx, cluster); err == nil && t.Kind == cke.TaskRestore && id.Incarnation != nil && id.Incarnation.State == cke.Awaiting {
		fmt.Fprintf(a.stderr, "%s stays declared, and waits to be restored: ckecli restore, or ckecli cluster delete %s\n", cluster, cluster)
	}
	if t.Kind == "" {
		return a.showLine(cancelledTask{cluster, t}, t.ID, term.Clean(taskText(t)+" is canceled"))
	}
	line := fmt.Sprintf("%s is canceled; it was asked for by %s %s ago", taskText(t), orDash(t.By), a.ago(t.At))
	return a.showLine(cancelledTask{cluster, shownTask(t)}, t.ID, term.Clean(line))
}

// findTask finds the task that a user means: by its id, or by the node that it is about.
func (a *app) findTask(ctx context.Context, s store, cluster, which string) (cke.Task, error) {
	asked, err := s.RequestsOf(ctx, cluster)
	if err != nil {
		return cke.Task{}, err
	}
	for _, t := range asked.Tasks {
		if t.ID == which {
			return t, nil
		}
	}
	if slices.Contains(asked.Unread, which) {
		return cke.Task{ID: which}, nil
	}
	spec, err := s.Spec(ctx, cluster)
	if err != nil {
		return cke.Task{}, err
	}
	node := which
	if n, known := spec.Cluster.Node(which); known {
		node = n.Name()
	}
	found := slices.DeleteFunc(asked.Tasks, func(t cke.Task) bool { return t.Node == "" || t.Node != node })
	if len(found) == 1 {
		return found[0], nil
	}
	e := &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("%d tasks of %s are about %s: name one by its id", len(found), cluster, node), Unchanged: true, Try: a.again(cluster, "task list")}
	if len(found) == 0 {
		e.What = fmt.Sprintf("%s is neither a task that waits in %s, nor the node of one", which, cluster)
		records, err := s.Records(ctx, cluster, 0)
		if r, begun := recordOf(records, which); err == nil && begun {
			e.What, e.Facts, e.Try = fmt.Sprintf("task %s is over", which), []string{recordText(r)}, a.again(cluster, fmt.Sprintf("history %d", r.ID))
		}
	}
	for _, t := range found {
		e.Facts = append(e.Facts, fmt.Sprintf("%s: %s, asked for %s ago", t.ID, t.Kind, a.ago(t.At)))
	}
	return cke.Task{}, e
}

// notCancelled is why a task could not be canceled: it was started, or is over.
func (a *app) notCancelled(ctx context.Context, s store, cluster string, t cke.Task) error {
	records, err := s.Records(ctx, cluster, 0)
	if err != nil {
		return err
	}
	e := &cke.Error{Code: cke.CodeCannot, What: taskText(t) + " was canceled by another user meanwhile", Unchanged: true, Try: a.again(cluster, "task list")}
	r, begun := recordOf(records, t.ID)
	if !begun {
		return e
	}
	e.What, e.Facts, e.Try = taskText(t)+" is over", []string{recordText(r)}, a.again(cluster, fmt.Sprintf("history %d", r.ID))
	if follow.Over(r) {
		return e
	}
	left, try := leftToDo(t)
	e.What = taskText(t) + " has started, and continues"
	e.Facts = append(e.Facts, left)
	if try != "" {
		e.Try = a.again(cluster, try)
	} else if r.State == cke.RecordRunning {
		e.Try += " -f"
	}
	return e
}

// recordText is a record in a line.
func recordText(r cke.Record) string {
	text := words.Heading(r) + " " + r.Outcome()
	if r.Error != "" {
		text += ": " + r.Error
	}
	return text
}

// leftToDo is what a user can do about a task that was started, and the command for it; "": there is none.
func leftToDo(t cke.Task) (text, try string) {
	switch t.Kind {
	case cke.TaskDrain:
		return "once its member has stopped, the lease can be ended", "node undrain " + t.Node
	case cke.TaskRestore:
		return "while no restored member was started, the restore can be canceled", "restore --cancel"
	case cke.TaskReplace, cke.TaskAdopt:
		return "the former member may have left the member list: cke continues until " + t.Node + " has a member of its own", ""
	}
	return "it completes by itself; what was interrupted is started again", ""
}

// taskText names a task: what, and about what; of one that cannot be read its id.
func taskText(t cke.Task) string {
	if t.Kind == "" {
		return fmt.Sprintf("task %s, which cannot be read,", t.ID)
	}
	return strings.TrimSpace(string(t.Kind) + " " + about(t))
}

// completeTasks offers tasks by id, and the nodes that just one is about.
func (a *app) completeTasks() completion {
	return a.complete(func(ctx context.Context, s store, cluster string) ([]cobra.Completion, error) {
		asked, err := s.RequestsOf(ctx, cluster)
		count := map[string]int{}
		var all []cobra.Completion
		for _, t := range asked.Tasks {
			count[t.Node]++
			all = append(all, cobra.CompletionWithDesc(t.ID, fmt.Sprintf("%s, asked for %s ago", taskText(t), a.ago(t.At))))
		}
		for _, id := range asked.Unread {
			all = append(all, cobra.CompletionWithDesc(id, "cannot be read"))
		}
		for _, t := range asked.Tasks {
			if t.Node != "" && count[t.Node] == 1 {
				all = append(all, cobra.CompletionWithDesc(t.Node, string(t.Kind)))
			}
		}
		return all, err
	})
}
