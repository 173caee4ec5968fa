package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"cke"
	"cke/internal/term"
	"cke/quorum"
)

func newMoveLeaderCommand(a *app) *cobra.Command {
	var noWait bool
	cmd := &cobra.Command{
		Use: "move-leader NODE", Args: arguments(1, 1), ValidArgsFunction: first(a.completeNodes()),
		Short: "Let the member on a node lead",
		Long:  "Move etcd's leadership to the member on a node, a voter that serves. It is no error if it leads already.",
		RunE: a.onStore(func(ctx context.Context, s store, args []string) error {
			return runMoveLeader(ctx, a, s, args[0], noWait)
		}),
	}
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return once it is asked for")
	return cmd
}

func runMoveLeader(ctx context.Context, a *app, s store, node string, noWait bool) error {
	cluster, n, err := a.theNode(ctx, s, node)
	if err != nil {
		return err
	}
	return a.runTask(ctx, s, taskRun{cluster: cluster, task: a.newTask(cke.TaskMoveLeader, n.Name(), ""), noWait: noWait,
		done: func(_ cke.Record, took string) string {
			return fmt.Sprintf("%s leads %s (took %s)", n.Name(), cluster, took)
		}})
}

// defragOptions are the options of `etcd defrag`.
type defragOptions struct{ yes, noWait bool }

func newDefragCommand(a *app) *cobra.Command {
	var o defragOptions
	cmd := &cobra.Command{
		Use: "defrag [NODE]…", Args: arguments(0, quorum.MostVoters), ValidArgsFunction: a.completeNodes(),
		Short: "Return the free space of members' databases to their disks",
		Long: `Rewrite the databases of members without their free pages, of all members or of those named.

A member answers no client while its database is rewritten, so it is done one member at a time, each only while all others are
healthy and until it serves again: followers first, the leader last, after its leadership was moved. A cluster of one or two
members does not serve meanwhile: confirm that, or give --yes.`,
		RunE: a.onStore(func(ctx context.Context, s store, args []string) error {
			return runDefrag(ctx, a, s, args, o)
		}),
	}
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "confirm")
	cmd.Flags().BoolVar(&o.noWait, "no-wait", false, "return once it is asked for")
	return cmd
}

func runDefrag(ctx context.Context, a *app, s store, nodes []string, o defragOptions) error {
	cluster, st, err := a.statusOf(ctx, s)
	if err != nil {
		return err
	}
	var names []string
	for _, node := range nodes {
		m, err := memberOf(st, node)
		if err != nil {
			return err
		}
		names = append(names, m.Name)
	}
	leads := func(name string) int {
		if m, err := memberOf(st, name); err == nil && m.Role == "leader" {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(names, func(x, y string) int { return leads(x) - leads(y) })
	if n := voters(st); n > 0 && n <= 2 && !o.yes {
		question := fmt.Sprintf("%s has %d of %d members that a quorum needs: it does not serve while one is defragmented. Continue?", cluster, n, quorum.Of(n))
		if err := a.confirmYes(ctx, "defragmenting "+cluster, question, "ckecli etcd defrag --yes"); err != nil {
			return err
		}
	}
	if len(names) == 0 {
		names = []string{""}
	}
	for _, name := range slices.Compact(names) {
		whose := name
		if whose == "" {
			whose = "every member of " + cluster
		}
		err := a.runTask(ctx, s, taskRun{cluster: cluster, task: a.newTask(cke.TaskDefragment, name, ""), noWait: o.noWait,
			done: func(_ cke.Record, took string) string {
				return fmt.Sprintf("%s is defragmented (took %s)", whose, took)
			}})
		if err != nil {
			return err
		}
	}
	return nil
}

func newAlarmCommand(a *app) *cobra.Command {
	return newGroup("alarm", "", "Show etcd's alarms, and disarm them", newAlarmListCommand(a), newDisarmCommand(a))
}

func newAlarmListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the active alarms", Args: arguments(0, 0),
		RunE: a.onStore(func(ctx context.Context, s store, _ []string) error {
			return runAlarmList(ctx, a, s)
		}),
	}
}

// listedAlarm is an alarm as `etcd alarm list` writes it for programs.
type listedAlarm struct {
	Kind     string `json:"kind"`
	MemberID string `json:"memberID"`
	Node     string `json:"node,omitempty"`
}

func runAlarmList(ctx context.Context, a *app, s store) error {
	cluster, sc, err := a.toldScreen(ctx, s)
	if err != nil {
		return err
	}
	all, names := []listedAlarm{}, []string{}
	for _, alarm := range sc.status.Etcd.Alarms {
		l := listedAlarm{Kind: alarm.Kind, MemberID: alarm.MemberID}
		for _, m := range sc.status.Members {
			if m.ID == alarm.MemberID {
				l.Node = m.Name
			}
		}
		all, names = append(all, l), append(names, alarm.Kind)
	}
	if len(all) == 0 {
		fmt.Fprintf(a.stderr, "No alarm is active on %s.\n", cluster)
	}
	return a.show(view{data: all, names: names, table: func(w io.Writer, colour, _ bool) error {
		if len(all) == 0 {
			return nil
		}
		t := term.NewTable("ALARM", "MEMBER", "ID")
		for _, l := range all {
			t.Add(term.Styled(term.Red, l.Kind), term.Text(l.Node), term.Text(l.MemberID))
		}
		return t.Write(w, colour)
	}})
}

func newDisarmCommand(a *app) *cobra.Command {
	var noWait bool
	cmd := &cobra.Command{
		Use: "disarm", Short: "Disarm the active alarms", Args: arguments(0, 0),
		Long: `Disarm the active alarms of etcd. etcd raises an alarm again if its cause remains: before you disarm NOSPACE, make room with
compaction and ` + "`ckecli etcd defrag`" + `. The alarm CORRUPT freezes the cluster: lift the freeze first.`,
		RunE: a.onStore(func(ctx context.Context, s store, _ []string) error {
			cluster, err := a.theCluster(ctx, s)
			if err != nil {
				return err
			}
			return a.runTask(ctx, s, taskRun{cluster: cluster, task: a.newTask(cke.TaskDisarm, "", ""), noWait: noWait,
				done: func(r cke.Record, took string) string {
					if len(r.Steps) == 0 {
						return "no alarm is active on " + cluster
					}
					return fmt.Sprintf("the alarms of %s are disarmed (took %s)", cluster, took)
				}})
		}),
	}
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return once it is asked for")
	return cmd
}
