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
	// wrong are nodes whose members have the wrong data.
	wrong []string
}

func newClusterUnfreezeCommand(a *app) *cobra.Command {
	var o unfreezeOptions
	cmd := &cobra.Command{
		Use:   "unfreeze NAME --reason TEXT [--wrong NODE]…",
		Short: "Lift the freeze of a cluster, once you know what was found",
		Long: `Lift the freeze of a cluster. A cluster is frozen when a member answers with another cluster id, when etcd raises the alarm
CORRUPT, when members hold different data, or when the store is older than the cluster (see "cluster reclaim"). It stays frozen,
even if the finding is no longer observed, until you lift the freeze.

If two clusters were found, or a member that went back to older data, name the nodes with the wrong data with --wrong.
Their members are put aside: stopped, and not started again. Their volumes are kept. Replace them afterward ("replace").
The freeze is not lifted while what the members answer contradicts this: for instance, while a member that you named
serves with one that you did not.

What was found stays on record with the reason. The same finding does not freeze the cluster again while it remains;
another one does. Read ` + "`ckecli cluster evidence`" + ` first: after this cke changes the cluster again, with whatever
data its members hold. Confirm by typing the cluster's name, or with --confirm NAME.`,
		Example: "  ckecli cluster unfreeze prod --wrong n3 --reason 'n3 was restored from an old disk; it will be replaced'",
		Args:    arguments(1, 1), ValidArgsFunction: first(a.completeClusters()),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if o.reason = strings.TrimSpace(o.reason); o.reason == "" {
				return usageError{errors.New("--reason is missing: say what was found out, for other operators"), cmd.CommandPath()}
			}
			return nil
		},
		RunE: a.onCluster(func(ctx context.Context, s store, args []string) error {
			return runUnfreeze(ctx, a, s, args[0], o)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&o.reason, "reason", "", "`text` that says what was found out; required")
	f.StringVar(&o.confirm, "confirm", "", "confirm with the cluster's `name`")
	f.StringSliceVar(&o.wrong, "wrong", nil, "`nodes` whose members have the wrong data, and are put aside")
	must(cmd.RegisterFlagCompletionFunc("wrong", a.completeNodes()))
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
	if _, err := id.Carriers(o.wrong); err != nil {
		return refused(err)
	}
	if err := a.writeEvidence(a.stderr, name, id, a.colour(a.stderr)); err != nil {
		return err
	}
	what, how := "lifting the freeze of "+name, fmt.Sprintf("ckecli cluster unfreeze %s --reason TEXT --confirm %s", name, name)
	if nodes := strings.Join(o.wrong, ","); o.wrong != nil {
		what, how = what+" and putting the members of "+nodes+" aside", how+" --wrong "+nodes
	}
	if err := a.confirmName(ctx, what, name, o.confirm, how); err != nil {
		return err
	}
	t := a.newTask(cke.TaskUnfreeze, "", id.Freeze.ID)
	t.Reason, t.Wrong = o.reason, o.wrong
	return a.runTask(ctx, s, taskRun{cluster: name, task: t, noWait: o.noWait, done: func(cke.Record, string) string {
		if id.Freeze.Former != nil {
			return fmt.Sprintf("lifted; %s is still frozen for an earlier finding: ckecli cluster evidence %s", name, name)
		}
		return fmt.Sprintf("%s is no longer frozen; what was found stays on record", name)
	}})
}
