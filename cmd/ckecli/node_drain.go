package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"cke"
	"cke/internal/follow"
	"cke/internal/term"
	"cke/internal/words"
	"cke/quorum"
)

// rests are the requests of users that keep members from running.
type rests interface {
	EndDrain(ctx context.Context, cluster, node string) error
	SetHibernation(ctx context.Context, cluster, by string) error
	EndHibernation(ctx context.Context, cluster string) error
}

// defaultLease is how long a node is leased by default.
const defaultLease = time.Hour

// drainOptions are the options of `node drain`.
type drainOptions struct {
	limit       time.Duration
	reason      string
	yes, noWait bool
}

func newNodeDrainCommand(a *app) *cobra.Command {
	var o drainOptions
	cmd := &cobra.Command{
		Use: "drain NODE", Args: arguments(1, 1), ValidArgsFunction: first(a.completeNodes()),
		Short: "Stop a node's member so that the node may be taken down",
		Long: `Lease a node for maintenance: leadership is moved away, its member is stopped cleanly, and it stays stopped until
` + "`ckecli node undrain`" + ` or until the time is over, whichever comes first. Meanwhile no other member that serves is stopped or removed.

The command completes once the member has stopped: the node may then be taken down. It is refused, with the arithmetic and with
nothing changed, if quorum would be lost, and while another node of the cluster is leased. Fewer members can be lost meanwhile:
confirm draining one that serves, or give --yes; a cluster of one or two members does not serve.

A node that is leased already gets a new lease in place of the old one.`,
		Example: "  ckecli node drain cp2 --for 30m --reason 'new kernel'\n  ckecli node drain cp2 --yes",
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if o.limit <= 0 {
				return usageError{fmt.Errorf("--for %s: must be greater than zero", o.limit), cmd.CommandPath()}
			}
			return nil
		},
		RunE: a.onStore(func(ctx context.Context, s store, args []string) error {
			return runDrain(ctx, a, s, args[0], o)
		}),
	}
	f := cmd.Flags()
	f.DurationVar(&o.limit, "for", defaultLease, "how long at most, as 30m or 2h")
	f.StringVar(&o.reason, "reason", "", "`text` for other operators")
	f.BoolVarP(&o.yes, "yes", "y", false, "confirm")
	f.BoolVar(&o.noWait, "no-wait", false, "return once it is asked for")
	must(cmd.RegisterFlagCompletionFunc("reason", cobra.NoFileCompletions))
	must(cmd.RegisterFlagCompletionFunc("for", cobra.NoFileCompletions))
	return cmd
}

func runDrain(ctx context.Context, a *app, s store, node string, o drainOptions) error {
	cluster, n, sc, err := a.seenNode(ctx, s, node)
	if err != nil {
		return err
	}
	t := a.newTask(cke.TaskDrain, n.Name(), "")
	t.Reason, t.For = o.reason, cke.Duration(o.limit)
	m, none := memberOf(sc.status, n.Name())
	v, question := voters(sc.status), ""
	switch {
	case none != nil:
	case v > 0 && v <= 2:
		t.Accepted = true
		question = fmt.Sprintf("%s has %s, and a quorum needs %d: it does not serve while %s is down. Drain it?", cluster, cke.Count(v, "voter"), quorum.Of(v), n.Name())
	case m.Ready:
		zones := words.Meanwhile(sc.status.Spread, n.Name())
		if zones != "" {
			zones = "; " + zones
		}
		question = fmt.Sprintf("%s serves. While it is down %s can be lost, %s now%s. Drain it?", n.Name(), membersLost(sc.status.Tolerance-1), membersLost(sc.status.Tolerance), zones)
	}
	if question != "" && !o.yes {
		if err := a.confirmYes(ctx, "draining "+n.Name(), question, "ckecli node drain "+n.Name()+" --yes"); err != nil {
			return err
		}
	}
	return a.runTask(ctx, s, taskRun{cluster: cluster, task: t, noWait: o.noWait, done: func(_ cke.Record, took string) string {
		return fmt.Sprintf("%s may be taken down; its lease expires in %s at the latest (took %s)", n.Name(), o.limit, took)
	}})
}

func newNodeUndrainCommand(a *app) *cobra.Command {
	var noWait bool
	cmd := &cobra.Command{
		Use: "undrain NODE", Args: arguments(1, 1), ValidArgsFunction: first(a.completeNodes()),
		Short: "End a node's lease, and wait until its member serves again",
		RunE: a.onStore(func(ctx context.Context, s store, args []string) error {
			return runUndrain(ctx, a, s, args[0], noWait)
		}),
	}
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return once the lease is ended")
	return cmd
}

func runUndrain(ctx context.Context, a *app, s store, node string, noWait bool) error {
	begun := a.now()
	cluster, n, err := a.leasedNode(ctx, s, node)
	if err != nil {
		return err
	}
	asked, err := s.RequestsOf(ctx, cluster)
	if err != nil {
		return err
	}
	if d := asked.Drained(n.Name(), begun); d != nil && d.Entry != "" {
		return &cke.Error{Code: cke.CodeDrain, What: fmt.Sprintf("the lease of %s is that of the %s queue", n.Name(), cmp.Or(d.Queue, cke.RebootQueue)),
			Facts: []string{"its command may run, or the machine may be going down"}, Unchanged: true, Try: d.Release(), Err: cke.ErrConflict}
	}
	newest, err := a.change(ctx, s, cluster, "the lease was ended", "status", func() error { return s.EndDrain(ctx, cluster, n.Name()) })
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "%s: the lease of %s is ended\n", cluster, n.Name())
	if noWait {
		return a.showTask(taskDone{Cluster: cluster}, n.Name())
	}
	f := a.newFollower(s, cluster, newest)
	f.Declared = follow.DeclaredStill(cluster)
	f.About = func(st cke.Status) bool { return !isDrained(st, n) }
	carries := false
	_, err = f.Until(ctx, func(st cke.Status) bool {
		i := slices.IndexFunc(st.Members, func(m cke.MemberStatus) bool { return m.Address == n.Address })
		carries = i >= 0
		return !isDrained(st, n) && (!carries || st.Members[i].State == "healthy")
	})
	if err != nil {
		return detached(ctx, err, "the lease of "+n.Name()+" is ended, and its member is started once the node answers", a.again(cluster, "history -f"))
	}
	took, end := a.now().Sub(begun), "serves again"
	switch {
	case n.Address == "":
		end = "is no longer declared"
	case !carries:
		end = "carries no member"
	}
	return a.showTask(taskDone{Cluster: cluster, Took: took.Seconds()}, fmt.Sprintf("%s %s (took %s)", n.Name(), end, term.Took(took)))
}

// leasedNode is theNode, and also a node that the cluster file names no longer and whose lease lasts: while it does, no
// member of another node is taken away.
func (a *app) leasedNode(ctx context.Context, s store, node string) (string, cke.Node, error) {
	cluster, n, unknown := a.theNode(ctx, s, node)
	if cke.CodeOf(unknown) != cke.CodeCannot {
		return cluster, n, unknown
	}
	cluster, err := a.theCluster(ctx, s)
	if err != nil {
		return "", n, err
	}
	asked, err := s.RequestsOf(ctx, cluster)
	if err != nil {
		return "", n, err
	}
	if asked.Drained(node, a.now()) == nil {
		return "", n, unknown
	}
	return cluster, cke.Node{Hostname: node}, nil
}

func isDrained(st cke.Status, n cke.Node) bool {
	return slices.ContainsFunc(st.Drains, func(d cke.Drain) bool { return d.Node == n.Name() })
}
