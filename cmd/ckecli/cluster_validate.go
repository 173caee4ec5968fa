package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"cke"
)

func newClusterValidateCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE|-",
		Short: "Check a cluster file; needs no store and changes nothing",
		Args:  arguments(1, 1),
		RunE:  func(cmd *cobra.Command, args []string) error { return runValidate(cmd.Context(), a, args[0]) },
	}
}

// validated is what `cluster validate` writes for programs when nothing is wrong.
type validated struct {
	Cluster string `json:"cluster"`
	Members int    `json:"members"`
	Nodes   int    `json:"nodes"`
	Version string `json:"version"`
}

func runValidate(ctx context.Context, a *app, file string) error {
	c, _, err := a.readCluster(ctx, file)
	if err != nil {
		return err
	}
	c = c.WithDefaults()
	v := validated{c.Name, len(c.ControlPlane()), len(c.Nodes), c.Options.Etcd.Version}
	return a.show(view{data: v, names: []string{c.Name}, table: func(w io.Writer, _, _ bool) error {
		_, err := fmt.Fprintf(w, "%s is valid: cluster %s, %s of etcd %s\n", fileName(file), v.Cluster, cke.Count(v.Members, "member"), v.Version)
		return err
	}})
}

func newClusterSchemaCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Write the JSON schema of cluster files, for editors", Args: arguments(0, 0),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(a.stdout, "%s\n", cke.ClusterSchema())
			return err
		},
	}
}
