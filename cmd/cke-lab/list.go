package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"cke/mtest/lab"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"
)

var outputs = []string{"table", "wide", "json", "yaml", "name"}

func newListCommand(g *global) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the nodes with the state they are in", Args: args(cobra.NoArgs),
		RunE: g.onLab(func(cmd *cobra.Command, l *lab.Lab, _ []string) error {
			return runList(cmd.Context(), l, cmd.OutOrStdout(), output)
		}),
	}
	outputFlag(cmd, &output)
	return cmd
}

func runList(ctx context.Context, l *lab.Lab, w io.Writer, output string) error {
	nodes, err := l.List(ctx)
	if err != nil {
		return err
	}
	switch output {
	case "table", "wide":
		return writeTable(w, nodes, output == "wide")
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(nodes)
	case "yaml":
		return writeYAML(w, nodes)
	case "name":
		for _, n := range nodes {
			fmt.Fprintln(w, n.Name)
		}
		return nil
	}
	return usageError{fmt.Errorf("-o %s: want one of %s", output, strings.Join(outputs, ", "))}
}

func writeTable(w io.Writer, nodes []lab.Node, wide bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "NAME\tADDRESS\tUSER\tPORT\tSTATE\tCUT\tKEY")
	if wide {
		fmt.Fprint(t, "\tDISK\tRESTRICTED KEY\tHOST KEY")
	}
	fmt.Fprintln(t)
	for _, n := range nodes {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\t%s", n.Name, n.Address, n.User, n.Port, n.State, cuts(n), n.KeyFile)
		if wide {
			disk := "unbounded"
			if n.DiskSize > 0 {
				disk = units.BytesSize(float64(n.DiskSize))
			}
			fmt.Fprintf(t, "\t%s\t%s\t%s", disk, n.RestrictedKeyFile, n.HostKey)
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

func cuts(n lab.Node) string {
	if len(n.Cuts) == 0 {
		return "-"
	}
	var parts []string
	for _, c := range n.Cuts {
		parts = append(parts, c.String())
	}
	return strings.Join(parts, ", ")
}

// writeYAML gives YAML the same field names as JSON.
func writeYAML(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var generic any
	if err := json.Unmarshal(data, &generic); err != nil {
		return err
	}
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	return e.Encode(generic)
}

func newSpecCommand(g *global) *cobra.Command {
	var cluster, version string
	cmd := &cobra.Command{
		Use: "spec", Short: "Write a cluster.yml for the lab's nodes", Args: args(cobra.NoArgs),
		RunE: g.onLab(func(cmd *cobra.Command, l *lab.Lab, _ []string) error {
			nodes := l.Nodes()
			if len(nodes) == 0 {
				return fmt.Errorf("%w: %s: make it with cke-lab up", lab.ErrNoLab, l.Name())
			}
			return writeSpec(cmd.OutOrStdout(), cluster, version, nodes)
		}),
	}
	cmd.Flags().StringVar(&cluster, "cluster", "lab", "name of the cluster")
	cmd.Flags().StringVar(&version, "etcd", "3.6.16", "etcd version")
	return cmd
}

func writeSpec(w io.Writer, cluster, version string, nodes []lab.Node) error {
	type sshSpec struct {
		Port    int    `yaml:"port"`
		HostKey string `yaml:"host_key"`
	}
	type nodeSpec struct {
		Address      string  `yaml:"address"`
		Hostname     string  `yaml:"hostname"`
		User         string  `yaml:"user"`
		ControlPlane bool    `yaml:"control_plane"`
		SSH          sshSpec `yaml:"ssh"`
	}
	type etcdSpec struct {
		Version string `yaml:"version"`
	}
	type optionsSpec struct {
		Etcd etcdSpec `yaml:"etcd"`
	}
	spec := struct {
		Name    string      `yaml:"name"`
		Nodes   []nodeSpec  `yaml:"nodes"`
		Options optionsSpec `yaml:"options"`
	}{Name: cluster, Options: optionsSpec{etcdSpec{version}}}
	for _, n := range nodes {
		spec.Nodes = append(spec.Nodes, nodeSpec{n.Address, n.Name, n.User, true, sshSpec{n.Port, n.HostKey}})
	}
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	return e.Encode(spec)
}

func newLabsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "labs", Short: "List all labs of this machine", Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			labs, err := lab.Labs(cmd.Context())
			if err != nil {
				return err
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "NAME\tNODES\tDIR")
			for _, l := range labs {
				nodes := "state lost"
				if n := len(l.Nodes()); n > 0 {
					nodes = fmt.Sprint(n)
				}
				fmt.Fprintf(t, "%s\t%s\t%s\n", l.Name(), nodes, filepath.Dir(l.Dir()))
			}
			return t.Flush()
		},
	}
}

func newPruneCommand() *cobra.Command {
	return &cobra.Command{
		Use: "prune", Short: "Remove labs of test runs that were killed; prints their names", Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			removed, err := lab.Prune(cmd.Context())
			for _, name := range removed {
				fmt.Fprintln(cmd.OutOrStdout(), name)
			}
			return err
		},
	}
}
