package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cke"
	"cke/internal/follow"
	"cke/internal/term"
	"cke/op"
	"cke/server/strategy"
)

// deleteOptions are the options of `cluster delete`.
type deleteOptions struct {
	confirm   string
	noWait    bool
	cancel    bool
	destroyed []string
}

func newClusterDeleteCommand(a *app) *cobra.Command {
	var o deleteOptions
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Stop a cluster for good; its data stays on the nodes",
		Long: `Stop every member of a cluster and take the cluster out of the store. Volumes stay on the nodes.

Confirm by typing the cluster's name, or with --confirm NAME. The deletion is complete when every node has answered that
carries a member or may carry what is left of one. Name a machine that is gone for good with --destroyed, also while the deletion already waits for it.

Until every member is stopped and its container removed, --cancel withdraws the deletion: members that were stopped are started
again on their own data. After that it cannot be undone: the store no longer knows the members, and only a backup restores the
cluster.`,
		Args: arguments(1, 1), ValidArgsFunction: first(a.completeClusters()),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if o.cancel && (o.confirm != "" || o.destroyed != nil) {
				return usageError{errors.New("--cancel withdraws a deletion: it takes neither --confirm nor --destroyed"), cmd.CommandPath()}
			}
			return nil
		},
		RunE: a.onCluster(func(ctx context.Context, s store, args []string) error {
			if o.cancel {
				return runCancelDelete(ctx, a, s, args[0], o.noWait)
			}
			return runDelete(ctx, a, s, args[0], o)
		}),
	}
	cmd.Flags().StringVar(&o.confirm, "confirm", "", "confirm with the cluster's `name`")
	cmd.Flags().StringArrayVar(&o.destroyed, "destroyed", nil, "do not wait for a `node` whose machine is gone for good; may be repeated")
	cmd.Flags().BoolVar(&o.noWait, "no-wait", false, "return once it is asked for")
	cmd.Flags().BoolVar(&o.cancel, "cancel", false, "withdraw a deletion that is not complete")
	return cmd
}

func runDelete(ctx context.Context, a *app, s store, name string, o deleteOptions) error {
	begun := a.now()
	spec, err := s.Spec(ctx, name)
	if err != nil {
		return err
	}
	st, _ := s.Status(ctx, name) // a node that left the file may still carry a member, and etcd may list a foreign one
	id, _ := s.Identity(ctx, name)
	in := strategy.InputFrom(spec, id, cke.Requests{}, st)
	if why := strategy.Ambiguous(in, cke.RestoreOrder{Destroyed: o.destroyed}); why != nil {
		return refused(why)
	}
	var gone []cke.Destroyed
	for _, n := range o.destroyed {
		gone = append(gone, cke.Destroyed{Name: n, IDs: strategy.DestroyedIDs(in, []string{n})})
		if !slices.ContainsFunc(spec.Cluster.Nodes, func(k cke.Node) bool { return k.Name() == n }) && !slices.ContainsFunc(st.Members, func(m cke.MemberStatus) bool { return m.Name == n }) && !strategy.Listed(in, n) {
			return refused(&cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("cluster %s has no node %s", name, n), Unchanged: true, Try: "ckecli node list"})
		}
	}
	request := s.RequestDelete
	if !spec.Deleting() || len(o.destroyed) > 0 {
		if len(o.destroyed) > 0 {
			fmt.Fprintf(a.stderr, "Members of nodes named with --destroyed are not stopped: if such a machine still runs, its member continues to run, and cke no longer knows of it: %s\n", strings.Join(o.destroyed, ", "))
		}
		would, declaration := a.wouldDelete(ctx, s, spec)
		if declaration {
			request = s.DeleteDeclaration
		}
		fmt.Fprintln(a.stderr, would)
		if err := a.confirmName(ctx, "deleting "+name, name, o.confirm, fmt.Sprintf("ckecli cluster delete %s --confirm %s", name, name)); err != nil {
			return err
		}
	}
	newest, err := follow.NewestRecord(ctx, s, name)
	if err != nil {
		return err
	}
	if err := request(ctx, name, a.whoami(), gone...); errors.Is(err, cke.ErrConflict) {
		return &cke.Error{Code: cke.CodeConflict, What: fmt.Sprintf("a restore of cluster %s was started meanwhile, so that a deletion would stop members", name), Unchanged: true,
			Facts: []string{"ckecli restore --cancel starts again what it stopped"}, Try: "ckecli cluster delete " + name}
	} else if err != nil {
		return err
	}
	if o.noWait {
		fmt.Fprintf(a.stderr, "The deletion of %s is asked for.\n", name)
		return a.showDeleted(deleted{Cluster: name}, "")
	}
	f := a.newFollower(s, name, newest)
	f.About = func(s cke.Status) bool { return s.Health == cke.HealthDeleting }
	f.Declared = func(now cke.Spec) error {
		switch {
		case now.Generation == 0:
			return errGone
		case !now.Deleting():
			return &cke.Error{Code: cke.CodeConflict, What: fmt.Sprintf("the deletion of cluster %s was canceled meanwhile", name)}
		}
		return nil
	}
	_, err = f.Until(ctx, func(cke.Status) bool { return false })
	if !errors.Is(err, errGone) {
		return detached(ctx, err, "the deletion of "+name+" is asked for, and cke continues with it", "ckecli status "+name)
	}
	took := a.now().Sub(begun)
	return a.showDeleted(deleted{name, true, took.Seconds()}, fmt.Sprintf("%s is deleted; its volumes stay on the nodes (took %s)\n"+
		"  on each node: docker volume ls --filter label=cke.cluster=%s --filter label=cke.join\n", name, term.Took(took), name))
}

// runCancelDelete withdraws a deletion, and waits until the leader daemon has heard of it.
func runCancelDelete(ctx context.Context, a *app, s store, name string, noWait bool) error {
	newest, err := follow.NewestRecord(ctx, s, name)
	if err != nil {
		return err
	}
	if err := s.CancelDelete(ctx, name); err != nil {
		return err
	}
	line := fmt.Sprintf("The deletion of %s is canceled; members that it stopped are started again.\n", name)
	if !noWait {
		f := a.newFollower(s, name, newest)
		f.Declared = follow.DeclaredStill(name)
		f.About = func(st cke.Status) bool { return st.Health != cke.HealthDeleting }
		if _, err := f.Until(ctx, func(st cke.Status) bool {
			return st.Health != cke.HealthDeleting && (st.Operation == nil || st.Operation.Type != op.DeleteCluster{}.Name())
		}); err != nil {
			return detached(ctx, err, "the deletion of "+name+" is canceled", "ckecli status "+name)
		}
	}
	return a.showDeleted(deleted{Cluster: name}, line)
}

// errGone ends the following of a deletion that is done.
var errGone = errors.New("the cluster is gone")

func (a *app) showDeleted(d deleted, line string) error {
	return a.show(view{data: d, names: []string{d.Cluster}, table: func(w io.Writer, _, _ bool) error {
		_, err := io.WriteString(w, line)
		return err
	}})
}

// deleted is what `cluster delete` writes for programs.
type deleted struct {
	Cluster string  `json:"cluster"`
	Deleted bool    `json:"deleted"`
	Took    float64 `json:"took"` // seconds
}

// wouldDelete says what a deletion means for this cluster. declaration: it stops no member.
func (a *app) wouldDelete(ctx context.Context, s store, spec cke.Spec) (would string, declaration bool) {
	if id, err := s.Identity(ctx, spec.Cluster.Name); err == nil && id.Incarnation != nil && id.Incarnation.State == cke.Awaiting {
		return fmt.Sprintf("Cluster %s was declared to be restored, and was not restored: deleting removes it from this store; what its nodes carry stays as it is, and members that run continue to run.", spec.Cluster.Name), true
	}
	serving := "whether its members serve is not known"
	if st, err := s.Status(ctx, spec.Cluster.Name); err == nil {
		serving = fmt.Sprintf("%d of its %d members serve", st.Ready, st.Declared)
	}
	return fmt.Sprintf("Cluster %s (revision %d): %s. Deleting stops them all; volumes stay on the nodes.", spec.Cluster.Name, spec.Generation, serving), false
}
