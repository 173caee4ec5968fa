package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"cke"
	"cke/internal/term"
)

func newClusterLogCommand(a *app) *cobra.Command {
	var n int
	cmd := &cobra.Command{
		Use: "log [NAME]", Short: "Show the revisions of a cluster file, newest first",
		Args: arguments(0, 1), ValidArgsFunction: first(a.completeClusters()),
		PreRunE: func(cmd *cobra.Command, _ []string) error { return notNegative(cmd, "-n", n) },
		RunE: a.onCluster(func(ctx context.Context, s store, _ []string) error {
			return runLog(ctx, a, s, n)
		}),
	}
	cmd.Flags().IntVarP(&n, "number", "n", 20, "how many to show; 0: all")
	return cmd
}

func runLog(ctx context.Context, a *app, s specs, n int) error {
	name, err := a.theCluster(ctx, s)
	if err != nil {
		return err
	}
	log, err := s.SpecLog(ctx, name)
	if err != nil {
		return err
	}
	if n > 0 && len(log) > n {
		log = log[:n]
	}
	names := []string{}
	for _, spec := range log {
		names = append(names, fmt.Sprint(spec.Generation))
	}
	return a.show(view{data: log, names: names, table: func(w io.Writer, colour, wide bool) error {
		header := []string{"REVISION", "SET", "BY", "MEMBERS", "VERSION"}
		if wide {
			header = append(header, "AT", "NODES")
		}
		t := term.NewTable(header...)
		for _, spec := range log {
			c := spec.Wanted()
			t.Add(term.Textf("%d", spec.Generation), term.Text(a.ago(spec.SetAt)+" ago"), term.Text(strings.TrimSpace(spec.SetBy+" "+causeText(spec.Cause))),
				term.Textf("%d", len(c.ControlPlane())), term.Text(cmp.Or(spec.Cluster.Options.Etcd.Version, spec.Etcd.Version, "-")),
				term.Text(spec.SetAt.UTC().Format("2006-01-02 15:04:05Z")), term.Text(commaList(c.Nodes, cke.Node.Name)))
		}
		return t.Write(w, colour)
	}})
}
