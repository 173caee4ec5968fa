package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"cke"
)

// unfreezeOptions are the options of `cluster unfreeze`.
type unfreezeOptions struct {
	reason  string
	confirm string
	noWait  bool
}

func newClusterUnfreezeCommand(a *app) *cobra.Command {
	var o unfreezeOptions
	cmd := &cobra.Command{
		Use:   "unfreeze NAME --reason TEXT",
		Short: "Let a frozen cluster be changed again, once you know what was found",
		Long: `Lift the freeze of a cluster. A cluster is frozen when a member answers with another cluster id, when etcd raises the alarm
CORRUPT, when members hold different data, or when the store is older than the cluster (see "cluster reclaim"); it stays so, even when that is no longer seen, until a person lifts it.

What was found stays on record with the reason. The same finding does not freeze the cluster again while it lasts;
another one does. Look at ` + "`ckecli cluster evidence`" + ` first: after this cke goes on changing the cluster, on whatever
data its members hold. It is confirmed by typing the cluster's name, or with --confirm NAME.`,
		Example: "  ckecli cluster unfreeze prod --reason 'n3 was restored from an old disk; it will be replaced'",
		Args:    arguments(1, 1), ValidArgsFunction: first(a.completeClusters()),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if o.reason = strings.TrimSpace(o.reason); o.reason == "" {
				return usageError{errors.New("--reason is missing: say what was found out, for others who wonder"), cmd.CommandPath()}
			}
			return nil
		},
		RunE: a.onCluster(func(ctx context.Context, s store, args []string) error {
			return runUnfreeze(ctx, a, s, args[0], o)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&o.reason, "reason", "", "`text` that says what was found out; needed")
	f.StringVar(&o.confirm, "confirm", "", "confirm with the cluster's `name`")
	f.BoolVar(&o.noWait, "no-wait", false, "return once the leader is asked")
	must(cmd.RegisterFlagCompletionFunc("reason", cobra.NoFileCompletions))
	return cmd
}

func runUnfreeze(ctx context.Context, a *app, s store, name string, o unfreezeOptions) error {
	if _, err := s.Spec(ctx, name); err != nil {
		return err
	}
	id, err := s.Identity(ctx, name)
	if err != nil {
		return err
	}
	if !id.Freeze.Active() {
		return refused(&cke.Error{Code: cke.CodeCannot, What: "cluster " + name + " is not frozen", Unchanged: true, Try: "ckecli cluster evidence " + name})
	}
	if err := a.writeEvidence(a.stderr, name, id, a.colour(a.stderr)); err != nil {
		return err
	}
	how := fmt.Sprintf("ckecli cluster unfreeze %s --reason TEXT --confirm %s", name, name)
	if err := a.confirmName(ctx, "lifting the freeze of "+name, name, o.confirm, how); err != nil {
		return err
	}
	t := a.newTask(cke.TaskUnfreeze, "", id.Freeze.ID)
	t.Reason = o.reason
	return a.runTask(ctx, s, taskRun{cluster: name, task: t, noWait: o.noWait, done: func(cke.Record, string) string {
		if id.Freeze.Former != nil {
			return fmt.Sprintf("lifted; %s is still frozen for what was found before: ckecli cluster evidence %s", name, name)
		}
		return fmt.Sprintf("%s is no longer frozen; what was found stays on record", name)
	}})
}
