package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"cke"
	"cke/internal/term"
)

func newCompareCommand(a *app) *cobra.Command {
	var noWait bool
	cmd := &cobra.Command{
		Use: "compare", Short: "Compare the members' data now", Args: arguments(0, 0),
		Long: `Compare the data of all members: the hash of each at one revision. Nothing is changed by it. When members differ the
cluster is frozen, and the command fails.

Every member reads all that it holds, one after the other, followers first: with a database of gigabytes that takes
minutes and costs disk bandwidth. cke does it by itself every hour, and after members were started, added or restarted.`,
		RunE: a.onStore(func(ctx context.Context, s store, _ []string) error {
			return runCompare(ctx, a, s, noWait)
		}),
	}
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return once the leader is asked")
	return cmd
}

// comparison is what `etcd compare` writes for programs.
type comparison struct {
	Cluster string `json:"cluster"`
	Equal   bool   `json:"equal"`
	cke.Comparison
}

func runCompare(ctx context.Context, a *app, s store, noWait bool) error {
	cluster, err := a.theCluster(ctx, s)
	if err != nil {
		return err
	}
	t := a.newTask(cke.TaskCompare, "", "")
	if noWait {
		return a.runTask(ctx, s, taskRun{cluster: cluster, task: t, noWait: true})
	}
	if _, err := a.followTask(ctx, s, cluster, t); err != nil {
		return err
	}
	id, err := s.Identity(ctx, cluster)
	if err != nil {
		return err
	}
	c := comparison{Cluster: cluster}
	if id.Compared != nil {
		c.Equal, c.Comparison = id.Compared.Equal(), *id.Compared
	}
	if err := a.show(view{data: c, names: []string{cluster}, table: func(w io.Writer, colour, _ bool) error { return writeComparison(w, c.Comparison, colour) }}); err != nil {
		return err
	}
	if !c.Equal {
		return &cke.Error{Code: cke.CodeUnequalData, What: fmt.Sprintf("the members of %s hold different data", cluster), Facts: []string{c.Difference()}, Try: "ckecli cluster evidence " + cluster}
	}
	return nil
}

func writeComparison(w io.Writer, c cke.Comparison, colour bool) error {
	t := term.NewTable("MEMBER", "REVISION", "COMPACTED", "HASH")
	for _, h := range c.Hashes {
		t.Add(term.Text(h.Node), term.Textf("%d", c.Revision), term.Textf("%d", h.Compacted), term.Textf("%08x", h.Hash))
	}
	return t.Write(w, colour)
}
