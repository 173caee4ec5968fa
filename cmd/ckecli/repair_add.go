package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cke"
)

func newRepairAddCommand(a *app) *cobra.Command {
	var on, reason string
	cmd := &cobra.Command{
		Use: "add NODE…|-", Args: arguments(1, -1), ValidArgsFunction: a.completeNodes(),
		Short: "Put nodes into the repair queue, all or none",
		Long: `Put nodes of the cluster file into the repair queue, all or none; with - their names are read from standard input, separated by
white space. The leader repairs each machine by the first procedure of the cluster file (repair.procedures) that is for its type and for
--on, step by step, until it is healthy. Of nodes with members one is rebooted or repaired at a time, and only while the others serve
without it.`,
		Example: "  ckecli repair-queue add cp2 --on unreachable --reason 'ticket 4711'",
		RunE: a.onStore(func(ctx context.Context, s store, args []string) error {
			return runRepairAdd(ctx, a, s, args, cke.Entry{On: on, Reason: reason})
		}),
	}
	cmd.Flags().StringVar(&on, "on", "", "the `fault` to repair, as a procedure names it; needed if there are procedures for several")
	cmd.Flags().StringVar(&reason, "reason", "", "`text` for other operators")
	must(cmd.RegisterFlagCompletionFunc("on", cobra.NoFileCompletions))
	must(cmd.RegisterFlagCompletionFunc("reason", cobra.NoFileCompletions))
	return cmd
}

func runRepairAdd(ctx context.Context, a *app, s store, names []string, as cke.Entry) error {
	cluster, spec, err := a.theSpec(ctx, s)
	if err != nil {
		return err
	}
	o := spec.Cluster.Repair
	if len(o.Procedures) == 0 {
		return &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("the cluster file of %s does not say how machines are repaired", cluster), Unchanged: true,
			Try: "add repair.procedures to the file, with names from commands of the daemon's configuration"}
	}
	nodes, err := a.namedNodes(cluster, spec, names)
	if err != nil {
		return err
	}
	var known []string // the faults of all nodes together
	for _, n := range nodes {
		known = append(known, o.Faults(n)...)
	}
	slices.Sort(known)
	if known = slices.Compact(known); as.On == "" && len(known) == 1 {
		as.On = known[0]
	}
	for _, n := range nodes {
		faults := o.Faults(n)
		if _, fits := o.Procedure(n, as.On); !fits {
			what := fmt.Sprintf("no procedure repairs %q on %s", as.On, n.Name())
			if as.On == "" {
				what = "it is not known what is to be repaired on " + n.Name()
			}
			e := &cke.Error{Code: cke.CodeCannot, What: what, Unchanged: true, Try: "add a procedure for its type to repair.procedures of the cluster file"}
			if len(faults) > 0 {
				e.Try = fmt.Sprintf("%s add %s --on %s", cke.RepairQueue.Command(), n.Name(), strings.Join(faults, "|"))
			}
			return e
		}
	}
	return a.addToQueue(ctx, s, cluster, cke.RepairQueue, nodes, as)
}
