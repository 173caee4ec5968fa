package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"cke"
)

func newClusterApplyCommand(a *app) *cobra.Command {
	var noWait, yes bool
	cmd := &cobra.Command{
		Use:   "apply [NAME]",
		Short: "Release the stored revision, and follow the work until the cluster is ready",
		Long: `Release the stored revision of a cluster whose policies.reconcile is manual, or is window while none is open, and
follow the work until the cluster is ready.

Confirm what interrupts service, or give --yes: a restart in a cluster of one or two voters, also if a declared member is missing
and cke waits for it. The release is for this revision only: one that is set later waits again. A paused cluster stays as it is
until it is resumed. Ctrl-C stops following; the work continues.`,
		Args: arguments(0, 1), ValidArgsFunction: first(a.completeClusters()),
		RunE: a.onCluster(func(ctx context.Context, s store, _ []string) error {
			return runApply(ctx, a, s, noWait, yes)
		}),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "confirm that service is interrupted")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return once the revision is released")
	return cmd
}

// applied is what `cluster apply` writes for programs.
type applied struct {
	Cluster  string `json:"cluster"`
	Revision int64  `json:"revision"`
	outcome
}

// runApply releases the stored revision and follows the work that it leads to.
func runApply(ctx context.Context, a *app, s store, noWait, yes bool) error {
	begun := a.now()
	cluster, err := a.theCluster(ctx, s)
	if err != nil {
		return err
	}
	p, err := a.plannedNow(ctx, s)
	if err != nil {
		return err
	}
	if p.interrupts() && !yes {
		if err := a.confirmYes(ctx, "interrupting the service of "+cluster, p.interruption()+" Continue?", a.again(cluster, "cluster apply --yes")); err != nil {
			return err
		}
	}
	var revision int64
	newest, err := a.change(ctx, s, cluster, "the revision was released", "cluster apply", func() (err error) {
		revision, err = s.RequestApply(ctx, cluster, a.whoami(), p.interrupts())
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "%s: revision %d is released\n", cluster, revision)
	done, line := applied{Cluster: cluster, Revision: revision}, fmt.Sprint(revision)
	if !noWait {
		g := goal{cluster: cluster, revision: revision, is: "released", newest: newest, begun: begun, void: a.onlyReleased(cluster, revision)}
		if done.outcome, line, err = a.followReady(ctx, s, g); err != nil {
			return err
		}
	}
	return a.showLine(done, cluster, line)
}

// onlyReleased ends the following when a later revision is set that has to be released itself.
func (a *app) onlyReleased(cluster string, revision int64) func(cke.Spec) error {
	return func(now cke.Spec) error {
		if now.Generation <= revision || now.Wanted().Policies.Reconcile == cke.ReconcileAuto {
			return nil
		}
		return &cke.Error{Code: cke.CodeConflict, What: fmt.Sprintf("%s set revision %d of %s meanwhile; revision %d was released", now.SetBy, now.Generation, cluster, revision),
			Try: a.again(cluster, "cluster apply")}
	}
}
