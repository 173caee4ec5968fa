package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"cke"
	"cke/cmd/ckecli/internal/term"
)

// deleteOptions are the options of `cluster delete`.
type deleteOptions struct {
	confirm string
	noWait  bool
}

func newClusterDeleteCommand(a *app) *cobra.Command {
	var o deleteOptions
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Stop a cluster for good; its data stays on the nodes",
		Long: `Stop every member of a cluster and take the cluster out of the store. Volumes stay on the nodes.

It cannot be taken back, so it is confirmed by typing the cluster's name, or with --confirm NAME. It ends when every
node that carries a member has answered.`,
		Args: arguments(1, 1), ValidArgsFunction: first(a.completeClusters()),
		RunE: a.onCluster(func(ctx context.Context, s store, args []string) error {
			return runDelete(ctx, a, s, args[0], o)
		}),
	}
	cmd.Flags().StringVar(&o.confirm, "confirm", "", "confirm with the cluster's `name`")
	cmd.Flags().BoolVar(&o.noWait, "no-wait", false, "return once it is asked for")
	return cmd
}

func runDelete(ctx context.Context, a *app, s store, name string, o deleteOptions) error {
	begun := a.now()
	spec, err := s.Spec(ctx, name)
	if err != nil {
		return err
	}
	if !spec.Deleting() {
		fmt.Fprintln(a.stderr, a.wouldDelete(ctx, s, spec))
		if err := a.confirmName(ctx, "deleting "+name, name, o.confirm, fmt.Sprintf("ckecli cluster delete %s --confirm %s", name, name)); err != nil {
			return err
		}
	}
	newest, err := newestRecord(ctx, s, name)
	if err != nil {
		return err
	}
	if err := s.RequestDelete(ctx, name, a.whoami()); err != nil {
		return err
	}
	if o.noWait {
		fmt.Fprintf(a.stderr, "The deletion of %s is asked for.\n", name)
		return a.showDeleted(deleted{Cluster: name}, "")
	}
	f := a.newFollower(s, name, newest)
	f.about = func(s cke.Status) bool { return s.Health == cke.HealthDeleting }
	f.declared = func(now cke.Spec) error {
		if now.Generation == 0 {
			return errGone
		}
		return nil
	}
	_, err = f.until(ctx, func(cke.Status) bool { return false })
	if !errors.Is(err, errGone) {
		return detached(ctx, err, "the deletion of "+name+" is asked for, and cke goes on with it", "ckecli status "+name)
	}
	took := a.now().Sub(begun)
	return a.showDeleted(deleted{name, true, took.Seconds()}, fmt.Sprintf("%s is deleted; its volumes stay on the nodes (took %s)\n", name, term.Took(took)))
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

// wouldDelete says what a deletion means for this cluster.
func (a *app) wouldDelete(ctx context.Context, s tellings, spec cke.Spec) string {
	serving := "whether its members serve is not known"
	if st, err := s.Status(ctx, spec.Cluster.Name); err == nil {
		serving = fmt.Sprintf("%d of its %d members serve", st.Ready, st.Declared)
	}
	return fmt.Sprintf("Cluster %s (revision %d): %s. Deleting stops them all; volumes stay on the nodes.", spec.Cluster.Name, spec.Generation, serving)
}
