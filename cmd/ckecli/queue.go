package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"cke"
	"cke/internal/term"
	"cke/internal/words"
)

// queues are the nodes that users want to be rebooted or repaired.
type queues interface {
	EditQueue(ctx context.Context, cluster string, kind cke.QueueKind, by string, edit func(cke.Queue) (cke.Queue, error)) error
}

func newRebootQueueCommand(a *app) *cobra.Command {
	cmd := a.newQueueCommand(cke.RebootQueue, "Reboot nodes one after the other while the cluster serves", newRebootAddCommand(a))
	cmd.Aliases = []string{"rq"}
	return cmd
}

func newRepairQueueCommand(a *app) *cobra.Command {
	return a.newQueueCommand(cke.RepairQueue, "Repair machines step by step while the cluster serves", newRepairAddCommand(a))
}

// newQueueCommand is the group of commands of a queue.
func (a *app) newQueueCommand(k cke.QueueKind, short string, add *cobra.Command) *cobra.Command {
	kind := string(k)
	return newGroup(kind+"-queue", groupWant, short, add, newQueueListCommand(a, k),
		newQueueEditCommand(a, k, "cancel", "Take nodes out of the "+kind+" queue",
			"Take nodes out of the "+kind+` queue, all or none. A node that waits, or that failed, leaves it at once. One whose `+kind+` has
started is watched to its end, and not `+kind+"ed again.",
			"canceled", func(q cke.Queue, nodes []string) (cke.Queue, error) { return q.Cancel(nodes, a.now()) }),
		newQueueEditCommand(a, k, "retry", "Queue nodes again whose "+kind+" failed",
			"Queue nodes again whose "+kind+" failed, all or none. They get as many attempts as at first.",
			"queued again", func(q cke.Queue, nodes []string) (cke.Queue, error) { return q.Retry(nodes, a.now()) }),
		newQueueEditCommand(a, k, "skip", "Let others continue although the "+kind+" of a node failed",
			"Let nodes with members continue although the "+kind+` of these nodes failed. They stay in the queue, and in the status as problems,
until they are retried or canceled.`,
			"no longer waited for", cke.Queue.Skip),
		newQueueSwitchCommand(a, k, "enable", "Let "+kind+"s be started again", false),
		newQueueSwitchCommand(a, k, "disable", "Start no "+kind+"; those under way are watched to their end", true),
		newQueueIsEnabledCommand(a, k), newQueueWaitCommand(a, k))
}

func newRebootAddCommand(a *app) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "add NODE…|-", Args: arguments(1, -1), ValidArgsFunction: a.completeNodes(),
		Short: "Put nodes into the reboot queue, all or none",
		Long: `Put nodes of the cluster file into the reboot queue, all or none; with - their names are read from standard input, separated by
white space. The leader reboots them by the command that the cluster file names as reboot.command: nodes without a member first, then
members that do not serve, followers zone by zone, and the leader last. Of nodes with members one reboots at a time, and only while the
others serve without it.`,
		Example: "  ckecli reboot-queue add cp1 cp2 cp3 --reason 'new kernel'\n  ckecli rq add - < nodes",
		RunE: a.onStore(func(ctx context.Context, s store, args []string) error {
			return runRebootAdd(ctx, a, s, args, reason)
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "`text` for other operators")
	must(cmd.RegisterFlagCompletionFunc("reason", cobra.NoFileCompletions))
	return cmd
}

// namedNodes are the nodes of the cluster file with these names; of - those that standard input names.
func (a *app) namedNodes(cluster string, spec cke.Spec, names []string) ([]cke.Node, error) {
	if len(names) == 1 && names[0] == "-" {
		names = nil
		in := bufio.NewScanner(a.stdin)
		in.Split(bufio.ScanWords)
		for in.Scan() {
			names = append(names, in.Text())
		}
		if err := in.Err(); err != nil {
			return nil, unstored{fmt.Errorf("read the names of nodes: %w", err)}
		}
		if names == nil {
			return nil, &cke.Error{Code: cke.CodeCannot, What: "standard input names no node", Unchanged: true}
		}
	}
	var nodes []cke.Node
	for _, name := range names {
		n, err := a.nodeIn(cluster, spec, name)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

func runRebootAdd(ctx context.Context, a *app, s store, names []string, reason string) error {
	cluster, spec, err := a.theSpec(ctx, s)
	if err != nil {
		return err
	}
	if spec.Cluster.Reboot.Command == "" {
		return &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("the cluster file of %s does not say how nodes are rebooted", cluster), Unchanged: true,
			Try: "add to the file: reboot: {command: NAME}, with a name from commands of the daemon's configuration"}
	}
	nodes, err := a.namedNodes(cluster, spec, names)
	if err != nil {
		return err
	}
	return a.addToQueue(ctx, s, cluster, cke.RebootQueue, nodes, cke.Entry{Reason: reason})
}

// addToQueue puts nodes at the end of a queue.
func (a *app) addToQueue(ctx context.Context, s store, cluster string, k cke.QueueKind, nodes []cke.Node, as cke.Entry) error {
	as.By = a.whoami()
	q, err := a.editQueue(ctx, s, cluster, k, func(q cke.Queue) (cke.Queue, error) { return q.Add(nodes, as, a.now()) })
	if err != nil {
		return err
	}
	if q.Disabled {
		fmt.Fprintf(a.stderr, "The %s queue is disabled: `%s enable` lets %ss start.\n", k, k.Command(), k)
	}
	return a.showLine(shownQueue{cluster, q}, cluster, fmt.Sprintf("%s: %s added; %d in the %s queue", cluster, cke.Count(len(nodes), "node"), len(q.Entries), k))
}

// editQueue changes a queue of a cluster, and returns it as it is then.
func (a *app) editQueue(ctx context.Context, s store, cluster string, k cke.QueueKind, edit func(cke.Queue) (cke.Queue, error)) (q cke.Queue, err error) {
	err = s.EditQueue(ctx, cluster, k, a.whoami(), func(now cke.Queue) (cke.Queue, error) {
		q, err = edit(now)
		return q, err
	})
	return q, detached(ctx, err, fmt.Sprintf("it is not known whether the %s queue was changed", k), a.again(cluster, string(k)+"-queue list"))
}

// shownQueue is what commands of a queue write for programs.
type shownQueue struct {
	Cluster string `json:"cluster"`
	cke.Queue
}

// newQueueEditCommand is a command that changes entries of a queue.
func newQueueEditCommand(a *app, k cke.QueueKind, use, short, long, done string, edit func(q cke.Queue, nodes []string) (cke.Queue, error)) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: use + " NODE…", Args: cobra.ArbitraryArgs, ValidArgsFunction: a.completeQueued(k), Short: short, Long: long,
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return usageError{errors.New("name nodes, or --all"), cmd.CommandPath()}
			}
			return nil
		},
		RunE: a.onStore(func(ctx context.Context, s store, nodes []string) error {
			cluster, err := a.theCluster(ctx, s)
			if err != nil {
				return err
			}
			q, err := a.editQueue(ctx, s, cluster, k, func(q cke.Queue) (cke.Queue, error) {
				if all {
					nodes = nil
					for _, r := range q.Entries {
						if use == "cancel" || r.State == cke.EntryFailed {
							nodes = append(nodes, r.Node)
						}
					}
				}
				return edit(q, nodes)
			})
			if err != nil {
				return err
			}
			what := strings.Join(nodes, ", ")
			if what == "" {
				what = "no node"
			}
			return a.showLine(shownQueue{cluster, q}, cluster, fmt.Sprintf("%s: %s: %s", cluster, what, done))
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "all nodes for which it can be done")
	return cmd
}

func (a *app) completeQueued(k cke.QueueKind) completion {
	return a.complete(func(ctx context.Context, s store, cluster string) ([]cobra.Completion, error) {
		asked, err := s.RequestsOf(ctx, cluster)
		var all []cobra.Completion
		for _, r := range asked.Queue(k).Entries {
			all = append(all, cobra.CompletionWithDesc(r.Node, string(r.State)))
		}
		return all, err
	})
}

func newQueueSwitchCommand(a *app, k cke.QueueKind, use, short string, disabled bool) *cobra.Command {
	return &cobra.Command{
		Use: use, Args: arguments(0, 0), Short: short,
		RunE: a.onStore(func(ctx context.Context, s store, _ []string) error {
			cluster, err := a.theCluster(ctx, s)
			if err != nil {
				return err
			}
			q, err := a.editQueue(ctx, s, cluster, k, func(q cke.Queue) (cke.Queue, error) { q.Disabled = disabled; return q, nil })
			if err != nil {
				return err
			}
			return a.showLine(shownQueue{cluster, q}, cluster, fmt.Sprintf("%s: the %s queue is %sd", cluster, k, use))
		}),
	}
}

func newQueueIsEnabledCommand(a *app, k cke.QueueKind) *cobra.Command {
	return &cobra.Command{
		Use: "is-enabled", Args: arguments(0, 0), Short: "Write true if " + string(k) + "s are started, else false",
		RunE: a.onStore(func(ctx context.Context, s store, _ []string) error {
			cluster, q, err := a.queueOf(ctx, s, k)
			if err != nil {
				return err
			}
			return a.showLine(struct {
				Cluster string `json:"cluster"`
				Enabled bool   `json:"enabled"`
			}{cluster, !q.Disabled}, fmt.Sprint(!q.Disabled), fmt.Sprint(!q.Disabled))
		}),
	}
}

func (a *app) queueOf(ctx context.Context, s store, k cke.QueueKind) (string, cke.Queue, error) {
	cluster, err := a.theCluster(ctx, s)
	if err != nil {
		return "", cke.Queue{}, err
	}
	asked, err := s.RequestsOf(ctx, cluster)
	return cluster, *asked.Queue(k), err
}

func newQueueListCommand(a *app, k cke.QueueKind) *cobra.Command {
	var history bool
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Args: arguments(0, 0),
		Short: "List the " + string(k) + " queue, and what each node waits for",
		RunE:  a.onStore(func(ctx context.Context, s store, _ []string) error { return runQueueList(ctx, a, s, k, history) }),
	}
	cmd.Flags().BoolVar(&history, "history", false, "list the last "+string(k)+"s that are over")
	return cmd
}

// listedQueue is a queue as `reboot-queue list` and `repair-queue list` write it for programs.
type listedQueue struct {
	Cluster  string            `json:"cluster"`
	Disabled bool              `json:"disabled"`
	Entries  []cke.EntryStatus `json:"entries"`
	History  []cke.EndedEntry  `json:"history"`
}

func runQueueList(ctx context.Context, a *app, s store, k cke.QueueKind, history bool) error {
	cluster, q, err := a.queueOf(ctx, s, k)
	if err != nil {
		return err
	}
	st, err := s.Status(ctx, cluster)
	if err != nil && !errors.Is(err, cke.ErrNotFound) {
		return err
	}
	led, err := isLed(ctx, s, cluster)
	if err != nil {
		return err
	}
	l := listedQueue{Cluster: cluster, Disabled: q.Disabled, Entries: []cke.EntryStatus{}, History: append([]cke.EndedEntry{}, q.History...)}
	names := []string{}
	for _, r := range q.Entries {
		names = append(names, r.Node)
		l.Entries = append(l.Entries, cke.EntryStatus{Entry: r, Waits: a.entryWaits(st, led, r)})
	}
	return a.show(view{data: l, names: names, table: func(w io.Writer, colour, wide bool) error {
		if q.Disabled {
			fmt.Fprintf(a.stderr, "The %s queue is disabled.\n", k)
		}
		if history {
			return queueHistory(a, l.History).Write(w, colour)
		}
		if len(l.Entries) == 0 {
			fmt.Fprintf(a.stderr, "No node of %s is in the %s queue.\n", cluster, k)
			return nil
		}
		header := []string{"NODE", "STATE", "SINCE", "ATTEMPT", "WAITS FOR"}
		if k == cke.RepairQueue {
			header = []string{"NODE", "STATE", "SINCE", "ON", "STEP", "ATTEMPT", "WAITS FOR"}
		}
		if wide {
			header = append(header, "ADDRESS", "BY", "ADDED", "REASON", "OUTPUT")
		}
		t := term.NewTable(header...)
		for _, e := range l.Entries {
			state := term.Text(entryState(e.Entry))
			if e.State == cke.EntryFailed {
				state.Style = term.Red
			}
			row := []term.Cell{term.Text(e.Node), state, term.Text(a.ago(e.Since) + " ago")}
			if k == cke.RepairQueue {
				row = append(row, term.Text(e.On), term.Text(fmt.Sprint(e.Step+1)))
			}
			t.Add(append(row, term.Text(fmt.Sprint(e.Attempt)), term.Text(orDash(e.Waits)),
				term.Text(e.Address), term.Text(orDash(e.By)), term.Text(words.Moment(e.AddedAt)), term.Text(e.Reason), term.Text(e.Output))...)
		}
		return t.Write(w, colour)
	}})
}

// entryState is the state of an entry in a word or two.
func entryState(r cke.Entry) string {
	switch {
	case r.Canceled:
		return string(r.State) + ", canceled"
	case r.Skipped:
		return string(r.State) + ", skipped"
	}
	return string(r.State)
}

func queueHistory(a *app, all []cke.EndedEntry) *term.Table {
	t := term.NewTable("NODE", "RESULT", "ENDED", "TOOK", "ATTEMPTS", "BY", "WHY")
	for i := len(all) - 1; i >= 0; i-- {
		e := all[i]
		took := "-"
		if e.Took() > 0 {
			took = term.Took(e.Took())
		}
		t.Add(term.Text(e.Node), term.Text(string(e.Result)), term.Text(a.ago(e.EndedAt)+" ago"), term.Text(took), term.Text(fmt.Sprint(e.Attempts)), term.Text(orDash(e.By)), term.Text(e.Error))
	}
	return t
}

// entryWaits is what an entry waits for, as far as the leader has reported.
func (a *app) entryWaits(st cke.Status, led bool, r cke.Entry) string {
	if r.State == cke.EntryFailed {
		return r.Error
	}
	if !led {
		return "no daemon leads the cluster"
	}
	if q := st.Queue(r.Kind()); q != nil {
		for _, e := range q.Entries {
			if e.ID == r.ID && e.State == r.State {
				return e.Waits
			}
		}
	}
	return "the leader has not reported it yet"
}
