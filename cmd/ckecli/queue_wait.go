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
)

func newQueueWaitCommand(a *app, k cke.QueueKind) *cobra.Command {
	return &cobra.Command{
		Use: "wait [NODE]…", Args: cobra.ArbitraryArgs, ValidArgsFunction: a.completeQueued(k),
		Short: fmt.Sprintf("Wait until nodes of the %[1]s queue were %[1]sed", k),
		Long: fmt.Sprintf(`Wait until these nodes, or all that are in the %[1]s queue now, were %[1]sed. The exit code is 1 if the %[1]s of one failed or was
canceled, or its node left the cluster file; a node that failed stays in the queue. Of a node that is not in the queue, the last %[1]s
counts.`, k),
		RunE: a.onStore(func(ctx context.Context, s store, args []string) error { return runQueueWait(ctx, a, s, k, args) }),
	}
}

// errQueueOver ends the following once nothing is waited for.
var errQueueOver = errors.New("nothing is waited for")

// waitedQueue is what `reboot-queue wait` and `repair-queue wait` write for programs.
type waitedQueue struct {
	Cluster string           `json:"cluster"`
	Ended   []cke.EndedEntry `json:"ended"`
	Failed  []cke.Entry      `json:"failed"`
}

func runQueueWait(ctx context.Context, a *app, s store, k cke.QueueKind, names []string) error {
	cluster, q, err := a.queueOf(ctx, s, k)
	if err != nil {
		return err
	}
	var ids []string
	for _, r := range q.Entries {
		if len(names) == 0 {
			ids = append(ids, r.ID)
		}
	}
	for _, name := range names {
		id := entryOf(q, name)
		if id == "" {
			return &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("%s is not in the %s queue", name, k), Unchanged: true, Try: a.again(cluster, string(k)+"-queue list --history")}
		}
		ids = append(ids, id)
	}
	newest, err := follow.NewestRecord(ctx, s, cluster)
	if err != nil {
		return err
	}
	w := waitedQueue{Cluster: cluster}
	over := func(q cke.Queue) bool {
		w.Failed, w.Ended = []cke.Entry{}, []cke.EndedEntry{}
		for _, r := range q.Entries {
			if slices.Contains(ids, r.ID) {
				if r.State != cke.EntryFailed {
					return false
				}
				w.Failed = append(w.Failed, r)
			}
		}
		for _, e := range q.History {
			if slices.Contains(ids, e.ID) {
				w.Ended = append(w.Ended, e)
			}
		}
		return true
	}
	if !over(q) {
		f := a.newFollower(s, cluster, newest)
		f.Declared = follow.DeclaredStill(cluster)
		f.Asked = func(r cke.Requests) error {
			if over(*r.Queue(k)) {
				return errQueueOver
			}
			return nil
		}
		if _, err := f.Until(ctx, func(cke.Status) bool { return false }); !errors.Is(err, errQueueOver) {
			return detached(ctx, err, fmt.Sprintf("the %s queue continues", k), a.again(cluster, string(k)+"-queue wait"))
		}
	}
	return a.showWaited(k, w)
}

// entryOf is the id of the entry of a node that is in the queue, or that left it last; empty: there is none.
func entryOf(q cke.Queue, node string) (id string) {
	for _, e := range q.History {
		if e.Node == node || e.Address == node {
			id = e.ID
		}
	}
	for _, r := range q.Entries {
		if r.Node == node || r.Address == node {
			id = r.ID
		}
	}
	return id
}

func (a *app) showWaited(k cke.QueueKind, w waitedQueue) error {
	var bad []string
	for _, r := range w.Failed {
		bad = append(bad, fmt.Sprintf("%s failed: %s", r.Node, r.Error))
	}
	for _, e := range w.Ended {
		if e.Result != cke.EntryDone {
			bad = append(bad, strings.TrimSuffix(fmt.Sprintf("%s: %s: %s", e.Node, e.Result, e.Error), ": "))
		}
	}
	line := fmt.Sprintf("%s: %s", w.Cluster, cke.Plural(len(w.Ended), "node was "+string(k)+"ed", "nodes were "+string(k)+"ed"))
	if bad != nil {
		line = fmt.Sprintf("%s: %s", w.Cluster, strings.Join(bad, "; "))
	}
	if err := a.showLine(w, w.Cluster, line); err != nil || bad == nil {
		return err
	}
	return exitError(exitFailed)
}
