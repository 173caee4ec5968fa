package main

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"strings"

	"github.com/spf13/cobra"

	"cke"
)

// theCluster returns the name of the cluster that a command is about: the one chosen with --cluster, or the only one.
func (a *app) theCluster(ctx context.Context, s specs) (string, error) {
	if a.cluster != "" {
		return a.cluster, nil
	}
	names, err := s.Clusters(ctx)
	if err != nil {
		return "", err
	}
	return onlyCluster(names)
}

func onlyCluster(names []string) (string, error) {
	switch len(names) {
	case 0:
		return "", &cke.Error{Code: cke.CodeCluster, What: "there is no cluster yet", Unchanged: true, Try: "ckecli cluster set FILE"}
	case 1:
		return names[0], nil
	}
	return "", &cke.Error{Code: cke.CodeCluster, What: fmt.Sprintf("there are %d clusters and none was chosen", len(names)),
		Facts: []string{strings.Join(names, ", ")}, Unchanged: true, Try: "name one with --cluster, or in CKECLI_CLUSTER"}
}

// onStore is the RunE of a command that works on the store.
func (a *app) onStore(run func(ctx context.Context, s store, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := a.connect(cmd.Context())
		if err != nil {
			return err
		}
		return run(cmd.Context(), s, args)
	}
}

// listing is a command that lists something that is in the store.
func (a *app) listing(short string, run func(ctx context.Context, a *app, s store) error) *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: short, Args: arguments(0, 0),
		RunE: a.onStore(func(ctx context.Context, s store, _ []string) error { return run(ctx, a, s) }),
	}
}

// watched is a command that shows something once or, with --watch, again and again.
func (a *app) watched(use, short string, run func(ctx context.Context, a *app, s store, watch bool) error) *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use: use, Short: short, Args: arguments(0, 0),
		RunE: a.onStore(func(ctx context.Context, s store, _ []string) error { return run(ctx, a, s, watch) }),
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show it again whenever it changes")
	return cmd
}

// onCluster is onStore for a command whose first argument, if there is one, names the cluster.
func (a *app) onCluster(run func(ctx context.Context, s store, args []string) error) func(*cobra.Command, []string) error {
	work := a.onStore(run)
	return func(cmd *cobra.Command, args []string) error {
		if err := a.chooseCluster(cmd, args); err != nil {
			return err
		}
		return work(cmd, args)
	}
}

// chooseCluster takes the cluster's name from an argument, which must not contradict --cluster.
func (a *app) chooseCluster(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if a.clusterFlag != "" && a.clusterFlag != args[0] {
		return usageError{fmt.Errorf("--cluster says %s, the argument says %s", a.clusterFlag, args[0]), cmd.CommandPath()}
	}
	a.cluster = args[0]
	return nil
}

// theSpec returns the cluster that a command is about, with what is stored of it.
func (a *app) theSpec(ctx context.Context, s specs) (cluster string, spec cke.Spec, err error) {
	if cluster, err = a.theCluster(ctx, s); err == nil {
		spec, err = s.Spec(ctx, cluster)
	}
	return cluster, spec, err
}

// theIdentity returns the cluster that a command is about, with its identity.
func (a *app) theIdentity(ctx context.Context, s interface {
	specs
	identities
}) (cluster string, id cke.Identity, err error) {
	if cluster, err = a.theCluster(ctx, s); err == nil {
		id, err = s.Identity(ctx, cluster)
	}
	return cluster, id, err
}

// theNode returns the declared node with this name or address, in the cluster that a command is about.
func (a *app) theNode(ctx context.Context, s specs, node string) (cluster string, n cke.Node, err error) {
	cluster, spec, err := a.theSpec(ctx, s)
	if err != nil {
		return "", n, err
	}
	n, err = a.nodeIn(cluster, spec, node)
	return cluster, n, err
}

// nodeIn returns a node that a cluster declares.
func (a *app) nodeIn(cluster string, spec cke.Spec, node string) (cke.Node, error) {
	n, known := spec.Wanted().Node(node)
	if !known {
		return n, &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("cluster %s declares no node %s", cluster, node), Unchanged: true, Try: a.again(cluster, "node list")}
	}
	return n, nil
}

// seenNode returns a declared node with the last status of its cluster, however old that is.
func (a *app) seenNode(ctx context.Context, s store, node string) (cluster string, n cke.Node, sc screen, err error) {
	if cluster, n, err = a.theNode(ctx, s, node); err == nil {
		sc, err = readScreen(ctx, s, cluster)
	}
	return cluster, n, sc, err
}

// nodeNow is seenNode for what only a present status shows; unknown says, of the node's name, what is not known otherwise.
func (a *app) nodeNow(ctx context.Context, s store, node, unknown string) (cluster string, n cke.Node, sc screen, err error) {
	cluster, n, sc, err = a.seenNode(ctx, s, node)
	if err != nil {
		return cluster, n, sc, err
	}
	if warning := a.staleness(sc); warning != "" {
		err = &cke.Error{Code: cke.CodeNoLeader, What: fmt.Sprintf(unknown, n.Name()), Facts: []string{warning}, Unchanged: true, Try: a.again(cluster, "status")}
	}
	return cluster, n, sc, err
}

// whoami is the user, as user@host. With sudo it is the one who called it.
func (a *app) whoami() string {
	name := a.getenv("SUDO_USER")
	if name == "" {
		if u, err := user.Current(); err == nil {
			name = u.Username
		}
	}
	host, _ := os.Hostname()
	return name + "@" + host
}
