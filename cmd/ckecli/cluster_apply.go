package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"cke"
)

func newClusterApplyCommand(a *app) *cobra.Command {
	var noWait bool
	cmd := &cobra.Command{
		Use:   "apply [NAME]",
		Short: "Release the stored revision, and follow the work until the cluster is ready",
		Long: `Release the stored revision of a cluster whose policies.reconcile is manual, or is window while none is open, and
follow the work until the cluster is ready.

The release is for this revision alone: one that is set later waits again. A paused cluster stays as it is until it is
resumed. Ctrl-C stops following; the work goes on.`,
		Args: arguments(0, 1), ValidArgsFunction: first(a.completeClusters()),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.chooseCluster(cmd, args); err != nil {
				return err
			}
			s, err := a.connect(cmd.Context())
			if err != nil {
				return err
			}
			return runApply(cmd.Context(), a, s, noWait)
		},
	}
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
func runApply(ctx context.Context, a *app, s store, noWait bool) error {
	begun := a.now()
	cluster, err := a.theCluster(ctx, s)
	if err != nil {
		return err
	}
	newest, err := newestRecord(ctx, s, cluster)
	if err != nil {
		return err
	}
	revision, err := s.RequestApply(ctx, cluster, a.whoami())
	if err != nil {
		return detached(ctx, err, "it is not known whether the revision was released", a.again(cluster, "cluster apply"))
	}
	fmt.Fprintf(a.stderr, "%s: revision %d is released\n", cluster, revision)
	done, line := applied{Cluster: cluster, Revision: revision}, fmt.Sprint(revision)
	if !noWait {
		g := goal{cluster: cluster, revision: revision, is: "released", newest: newest, begun: begun, void: a.onlyReleased(cluster, revision)}
		if done.outcome, line, err = a.followReady(ctx, s, g); err != nil {
			return err
		}
	}
	return a.show(view{data: done, names: []string{cluster}, table: func(w io.Writer, _, _ bool) error {
		_, err := fmt.Fprintln(w, line)
		return err
	}})
}

// onlyReleased ends the following when a later revision is set that has to be released itself.
func (a *app) onlyReleased(cluster string, revision int64) func(cke.Spec) error {
	return func(now cke.Spec) error {
		if now.Generation <= revision || now.Cluster.WithDefaults().Policies.Reconcile == cke.ReconcileAuto {
			return nil
		}
		return &cke.Error{Code: cke.CodeConflict, What: fmt.Sprintf("%s set revision %d of %s meanwhile; revision %d was released", now.SetBy, now.Generation, cluster, revision),
			Try: a.again(cluster, "cluster apply")}
	}
}
