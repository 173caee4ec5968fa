package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"cke"
)

func newClusterRollbackCommand(a *app) *cobra.Command {
	var o setOptions
	cmd := &cobra.Command{
		Use: "rollback REV", Short: "Store an earlier revision of a cluster file again, and follow the work until the cluster is ready",
		Long: `Store the text of an earlier revision as a new one, and follow the work until the cluster is ready for it.

It does what ` + "`ckecli cluster set`" + ` does with that text: the text is checked again, and what it removes is refused or confirmed
as there. The revisions are listed by ` + "`ckecli cluster log`" + `. Operations on the nodes are not undone: cke makes the changes
that the file now requires. A version that the data has left is refused, and archived volumes stay archived.`,
		Example: "  ckecli cluster rollback 3 --dry-run\n  ckecli cluster rollback 3",
		Args:    arguments(1, 1), ValidArgsFunction: first(a.completeRevisions()),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		revision, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil || revision < 1 {
			return usageError{fmt.Errorf("invalid revision %q: want a whole number from 1, as in `ckecli cluster log`", args[0]), cmd.CommandPath()}
		}
		return a.onStore(func(ctx context.Context, s store, _ []string) error {
			return runRollback(ctx, a, s, revision, o)
		})(cmd, args)
	}
	o.flags(cmd)
	return cmd
}

func runRollback(ctx context.Context, a *app, s store, revision int64, o setOptions) error {
	begun := a.now()
	cluster, err := a.theCluster(ctx, s)
	if err != nil {
		return err
	}
	spec, err := specAt(ctx, s, cluster, revision)
	if err != nil {
		return refused(err)
	}
	if spec.Etcd == (cke.Release{}) { // of an older cke: it is not known what it left out
		now, err := s.Spec(ctx, cluster)
		if err != nil {
			return err
		}
		spec.Etcd = now.Etcd
	}
	text, err := textOf(spec)
	if err != nil {
		return err
	}
	name, again := fmt.Sprintf("revision %d of %s", revision, cluster), fmt.Sprintf("cluster rollback %d", revision)
	c, err := a.parseCluster(name, text)
	if err != nil {
		return err
	}
	return a.set(ctx, s, edition{c, text, name, again, again + " --dry-run", &spec}, o, begun)
}
