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
canceled, or its node left the cluster file; a node that failed stays in the queue, and others that wait their turn are not waited for
then. Of a node that is not in the queue, the last %[1]s counts.`, k),
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
	// Queued still wait their turn when one has failed. Lost are ids of those of which the history no longer has the result.
	Queued []cke.Entry `json:"queued,omitempty"`
	Lost   []string    `json:"lost,omitempty"`
}

// over reports whether none of the entries with these ids is waited for any longer. It keeps results that the history may lose.
func (w *waitedQueue) over(q cke.Queue, ids []string) bool {
	w.Failed, w.Queued, w.Lost = []cke.Entry{}, nil, nil
	active := false
	for _, id := range ids {
		ended := func(e cke.EndedEntry) bool { return e.ID == id }
		r, there := q.Entry(id)
		at := slices.IndexFunc(q.History, ended)
		switch {
		case there && r.State == cke.EntryFailed:
			w.Failed = append(w.Failed, r)
		case there:
			w.Queued = append(w.Queued, r)
			active = active || r.Active()
		case slices.ContainsFunc(w.Ended, ended):
		case at >= 0:
			w.Ended = append(w.Ended, q.History[at])
		default:
			w.Lost = append(w.Lost, id)
		}
	}
	return !active && (len(w.Queued) == 0 || len(w.Failed) > 0)
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
	w := waitedQueue{Cluster: cluster, Ended: []cke.EndedEntry{}}
	if !w.over(q, ids) {
		f := a.newFollower(s, cluster, newest)
		f.Declared = follow.DeclaredStill(cluster)
		f.Asked = func(r cke.Requests) error {
			if w.over(*r.Queue(k), ids) {
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
	for _, r := range w.Queued {
		bad = append(bad, r.Node+" is still queued")
	}
	if len(w.Lost) > 0 {
		bad = append(bad, fmt.Sprintf("the result of %s is not known: the history holds the last ones only", cke.Count(len(w.Lost), "node")))
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
