package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"cke"
	"cke/internal/follow"
	"cke/internal/term"
)

func newClusterHibernateCommand(a *app) *cobra.Command {
	var confirm string
	var noWait bool
	cmd := &cobra.Command{
		Use: "hibernate NAME", Args: arguments(1, 1), ValidArgsFunction: first(a.completeClusters()),
		Short: "Stop every member and keep all data",
		Long: `Stop every member of a cluster, followers first and the leader last, and keep all containers and all data. From then on
no member is started, and one that is started by other means is stopped again, until ` + "`ckecli cluster resume NAME`" + `.

The cluster does not serve meanwhile: confirm by typing its name, or with --confirm NAME. The member of a node that does not
answer is stopped once the node answers; until then the command waits.`,
		RunE: a.onCluster(func(ctx context.Context, s store, args []string) error {
			return runHibernate(ctx, a, s, args[0], confirm, noWait)
		}),
	}
	cmd.Flags().StringVar(&confirm, "confirm", "", "confirm with the cluster's `name`")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return once it is asked for")
	return cmd
}

// rested is what `cluster hibernate` and `cluster resume` write for programs.
type rested struct {
	Cluster    string `json:"cluster"`
	Hibernated bool   `json:"hibernated"`
	// Done: it is completed, not only asked for.
	Done bool    `json:"done"`
	Took float64 `json:"took,omitempty"` // seconds
}

func (a *app) showRested(r rested, line string) error {
	return a.showLine(r, r.Cluster, line)
}

func runHibernate(ctx context.Context, a *app, s store, cluster, confirm string, noWait bool) error {
	begun := a.now()
	if _, err := s.Spec(ctx, cluster); err != nil {
		return err
	}
	if id, err := s.Identity(ctx, cluster); err != nil || id.Incarnation.Importing() != nil {
		if err == nil {
			err = refused(&cke.Error{Code: cke.CodeOldCluster, What: "members of the old cluster vote: the members of cke cannot be stopped without it", Unchanged: true, Try: "ckecli status"})
		}
		return err
	}
	how := fmt.Sprintf("ckecli cluster hibernate %s --confirm %s", cluster, cluster)
	if err := a.confirmName(ctx, "hibernating "+cluster, cluster, confirm, how); err != nil {
		return err
	}
	newest, err := a.change(ctx, s, cluster, "the hibernation was asked for", "status", func() error { return s.SetHibernation(ctx, cluster, a.whoami()) })
	if err != nil {
		return err
	}
	if noWait {
		return a.showRested(rested{Cluster: cluster, Hibernated: true}, "The hibernation of "+cluster+" is asked for.")
	}
	f := a.newFollower(s, cluster, newest)
	f.Declared = follow.DeclaredStill(cluster)
	f.About = func(st cke.Status) bool { return st.Hibernation != nil }
	st, err := f.Until(ctx, func(st cke.Status) bool {
		asleep, _ := st.Condition(cke.CondHibernated)
		return asleep.Status == cke.True
	})
	if err != nil {
		return detached(ctx, err, "the hibernation of "+cluster+" is asked for, and cke continues with it", a.again(cluster, "history -f"))
	}
	took := a.now().Sub(begun)
	return a.showRested(rested{cluster, true, true, took.Seconds()}, fmt.Sprintf("%s is hibernated: %s (took %s)", cluster, st.Summary, term.Took(took)))
}

func newClusterResumeCommand(a *app) *cobra.Command {
	var noWait bool
	cmd := &cobra.Command{
		Use: "resume NAME", Args: arguments(1, 1), ValidArgsFunction: first(a.completeClusters()),
		Short: "Start the members of a hibernated cluster on their own data",
		Long: `End the hibernation of a cluster: its members are started on the data that they had, and the command waits until the
cluster is ready. To end a pause, use ` + "`ckecli resume`" + `.`,
		RunE: a.onCluster(func(ctx context.Context, s store, args []string) error {
			return runClusterResume(ctx, a, s, args[0], noWait)
		}),
	}
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return once it is asked for")
	return cmd
}

func runClusterResume(ctx context.Context, a *app, s store, cluster string, noWait bool) error {
	begun := a.now()
	spec, err := s.Spec(ctx, cluster)
	if err != nil {
		return err
	}
	newest, err := a.change(ctx, s, cluster, "the hibernation was ended", "status", func() error { return s.EndHibernation(ctx, cluster) })
	if err != nil {
		return err
	}
	r := rested{Cluster: cluster}
	if noWait {
		return a.showRested(r, cluster+" is no longer declared hibernated")
	}
	_, line, err := a.followReady(ctx, s, goal{cluster: cluster, revision: spec.Generation, is: "no longer hibernated", newest: newest, begun: begun})
	if err != nil {
		return err
	}
	r.Done, r.Took = true, a.now().Sub(begun).Seconds()
	return a.showRested(r, line)
}
