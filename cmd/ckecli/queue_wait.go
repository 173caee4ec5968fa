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

func newRebootWaitCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "wait [NODE]…", Args: cobra.ArbitraryArgs, ValidArgsFunction: a.completeReboots(),
		Short: "Wait until nodes of the reboot queue were rebooted",
		Long: `Wait until these nodes, or all that are in the reboot queue now, were rebooted. The exit code is 1 if the reboot of one failed or was
canceled, or its node left the cluster file; a node that failed stays in the queue. Of a node that is not in the queue, the last reboot
counts.`,
		RunE: a.onStore(func(ctx context.Context, s store, args []string) error { return runRebootWait(ctx, a, s, args) }),
	}
}

// errRebooted ends the following once nothing is waited for.
var errRebooted = errors.New("nothing is waited for")

// waitedReboots is what `reboot-queue wait` writes for programs.
type waitedReboots struct {
	Cluster string            `json:"cluster"`
	Ended   []cke.EndedEntry `json:"ended"`
	Failed  []cke.Entry      `json:"failed"`
}

func runRebootWait(ctx context.Context, a *app, s store, names []string) error {
	cluster, q, err := a.rebootsOf(ctx, s)
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
		id := rebootOf(q, name)
		if id == "" {
			return &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("%s is not in the reboot queue", name), Unchanged: true, Try: a.again(cluster, "reboot-queue list --history")}
		}
		ids = append(ids, id)
	}
	newest, err := follow.NewestRecord(ctx, s, cluster)
	if err != nil {
		return err
	}
	w := waitedReboots{Cluster: cluster}
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
			if over(r.Reboots) {
				return errRebooted
			}
			return nil
		}
		if _, err := f.Until(ctx, func(cke.Status) bool { return false }); !errors.Is(err, errRebooted) {
			return detached(ctx, err, "the reboot queue continues", a.again(cluster, "reboot-queue wait"))
		}
	}
	return a.showWaited(w)
}

// rebootOf is the id of the reboot of a node that is in the queue, or that left it last; empty: there is none.
func rebootOf(q cke.Queue, node string) (id string) {
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

func (a *app) showWaited(w waitedReboots) error {
	var bad []string
	for _, r := range w.Failed {
		bad = append(bad, fmt.Sprintf("%s failed: %s", r.Node, r.Error))
	}
	for _, e := range w.Ended {
		if e.Result != cke.EntryDone {
			bad = append(bad, strings.TrimSuffix(fmt.Sprintf("%s: %s: %s", e.Node, e.Result, e.Error), ": "))
		}
	}
	line := fmt.Sprintf("%s: %s", w.Cluster, cke.Plural(len(w.Ended), "node was rebooted", "nodes were rebooted"))
	if bad != nil {
		line = fmt.Sprintf("%s: %s", w.Cluster, strings.Join(bad, "; "))
	}
	if err := a.showLine(w, w.Cluster, line); err != nil || bad == nil {
		return err
	}
	return exitError(exitFailed)
}
