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
	"cke/server/balance"
)

// leadership is who leads clusters.
type leadership interface {
	Leader(ctx context.Context, cluster string) (cke.Leader, error)
	RequestResign(ctx context.Context, cluster string) error
}

// fleets is which daemons are alive, and who leads what.
type fleets interface {
	Fleet(ctx context.Context) (cke.Fleet, error)
	WatchFleet(ctx context.Context) <-chan cke.Fleet
	RequestBalance(ctx context.Context, by string) error
}

func newLeaderCommand(a *app) *cobra.Command {
	var resign, even, all, noWait bool
	cmd := &cobra.Command{
		Use: "leader", GroupID: groupSee, Args: arguments(0, 0),
		Short: "Show which daemons are alive and which clusters they lead, balance them, or ask one to resign",
		Long: `Show which daemons are alive, how many clusters each leads and would lead once they are balanced, and which daemon leads which
cluster. With --cluster or CKECLI_CLUSTER it shows only the leader of that cluster, unless --all is given.

With --balance all daemons are asked to spread the clusters evenly now, also where they differ by little. With --resign the leader
of one cluster is asked to end its term; another daemon, or the same one again, leads then. Members are not touched.`,
		RunE: a.onStore(func(ctx context.Context, s store, _ []string) error {
			switch {
			case even:
				return runBalance(ctx, a, s, noWait)
			case !resign && (all || a.cluster == ""):
				return runFleet(ctx, a, s)
			}
			cluster, err := a.theCluster(ctx, s)
			if err != nil {
				return err
			}
			if resign {
				return runResign(ctx, a, s, cluster, noWait)
			}
			return runLeader(ctx, a, s, cluster)
		}),
	}
	cmd.Flags().BoolVar(&resign, "resign", false, "ask the leader to resign, and wait for the next one")
	cmd.Flags().BoolVar(&even, "balance", false, "ask all daemons to spread the clusters evenly now, and wait for it")
	cmd.Flags().BoolVar(&all, "all", false, "show all clusters, although one is chosen")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "with --resign or --balance: do not wait")
	cmd.MarkFlagsMutuallyExclusive("resign", "balance", "all")
	return cmd
}

// shownDaemon is one live daemon in `leader`.
type shownDaemon struct {
	cke.Daemon
	// Leads is how many clusters it leads, Balanced how many it would.
	Leads    int `json:"leads"`
	Balanced int `json:"balanced"`
}

// shownLeader is one cluster in `leader`.
type shownLeader struct {
	Cluster string     `json:"cluster"`
	Leader  cke.Leader `json:"leader,omitzero"`
	Prefer  []string   `json:"prefer,omitempty"`
	// Next is the host whose daemon gets the cluster, and Reason why; empty: it stays.
	Next   string         `json:"next,omitempty"`
	Reason balance.Reason `json:"reason,omitempty"`
}

// shownFleet is what `leader` writes for programs.
type shownFleet struct {
	Daemons  []shownDaemon `json:"daemons"`
	Clusters []shownLeader `json:"clusters"`
	Notes    []string      `json:"notes"`
}

func runFleet(ctx context.Context, a *app, s interface {
	fleets
	specs
}) error {
	names, err := s.Clusters(ctx)
	if err != nil {
		return err
	}
	f, err := s.Fleet(ctx)
	if err != nil {
		return err
	}
	return a.showFleet(f, names)
}

func (a *app) showFleet(f cke.Fleet, names []string) error {
	if len(f.Daemons) == 0 {
		return noDaemon(names)
	}
	shown := fleetShown(f, names)
	var hosts []string
	for _, d := range shown.Daemons {
		hosts = append(hosts, d.Host)
	}
	return a.show(view{data: shown, names: hosts, table: func(w io.Writer, colour, _ bool) error {
		t := term.NewTable("DAEMON", "VERSION", "SCHEMA", "ALIVE", "LEADS", "BALANCED")
		for _, d := range shown.Daemons {
			version, alive := "-", "-"
			if d.Version != "" {
				version, alive = d.Version, a.ago(d.Since)
			}
			t.Add(term.Text(d.Host), term.Text(version), term.Textf("%d", d.Schema), term.Text(alive), term.Textf("%d", d.Leads), term.Textf("%d", d.Balanced))
		}
		if err := t.Write(w, colour); err != nil {
			return err
		}
		if len(shown.Clusters) > 0 {
			fmt.Fprintln(w)
			t = term.NewTable("CLUSTER", "HOST", "TERM", "SINCE", "PREFER", "NEXT")
			for _, c := range shown.Clusters {
				t.Add(a.leaderRow(c)...)
			}
			if err := t.Write(w, colour); err != nil {
				return err
			}
		}
		for _, note := range shown.Notes {
			fmt.Fprintln(a.stderr, "note: "+note)
		}
		return nil
	}})
}

func (a *app) leaderRow(c shownLeader) []term.Cell {
	host, number, since, next := "-", "-", "-", "-"
	if c.Leader.Term > 0 {
		host, number, since = c.Leader.Host, fmt.Sprint(c.Leader.Term), a.ago(c.Leader.Since)
	}
	if c.Next != "" {
		next = fmt.Sprintf("%s (%s)", c.Next, c.Reason)
	}
	prefer := "-"
	if len(c.Prefer) > 0 {
		prefer = strings.Join(c.Prefer, ",")
	}
	return []term.Cell{term.Text(c.Cluster), term.Text(host), term.Text(number), term.Text(since), term.Text(prefer), term.Text(next)}
}

// fleetShown is what is shown of all daemons, and of these clusters.
func fleetShown(f cke.Fleet, names []string) shownFleet {
	plan := balance.Plan(f, balance.Options{})
	now, then := balance.Loads(f, nil), balance.Loads(f, plan)
	shown := shownFleet{Daemons: []shownDaemon{}, Clusters: []shownLeader{}, Notes: []string{}}
	for _, d := range f.Daemons {
		shown.Daemons = append(shown.Daemons, shownDaemon{d, now[d.ID], then[d.ID]})
		if d.Schema < f.Schema {
			shown.Notes = append(shown.Notes, fmt.Sprintf("the daemon on %s knows schema %d, the store has %d: it gets no cluster", d.Host, d.Schema, f.Schema))
		}
	}
	if len(f.Daemons) == 1 {
		shown.Notes = append(shown.Notes, onlyOne(f))
	}
	for _, name := range names {
		c := shownLeader{Cluster: name}
		if i := slices.IndexFunc(f.Clusters, func(l cke.Led) bool { return l.Cluster == name }); i >= 0 {
			c.Leader, c.Prefer = f.Clusters[i].Leader, f.Clusters[i].Prefer
		}
		if i := slices.IndexFunc(plan, func(m balance.Move) bool { return m.Cluster == name }); i >= 0 {
			to, _ := f.Daemon(plan[i].To)
			c.Next, c.Reason = to.Host, plan[i].Reason
		}
		shown.Notes = append(shown.Notes, absent(f, name, c.Prefer)...)
		shown.Clusters = append(shown.Clusters, c)
	}
	return shown
}

// absent names hosts that a cluster prefers and that have no live daemon: there may be one later.
func absent(f cke.Fleet, cluster string, prefer []string) (notes []string) {
	for _, host := range prefer {
		if !slices.ContainsFunc(f.Daemons, func(d cke.Daemon) bool { return d.Host == host }) {
			notes = append(notes, fmt.Sprintf("%s prefers %s, where no daemon is alive", cluster, host))
		}
	}
	return notes
}

func onlyOne(f cke.Fleet) string {
	return fmt.Sprintf("only the daemon on %s is alive: it leads every cluster until another one is started with the same store", f.Daemons[0].Host)
}

// runBalance asks all daemons to balance, and waits until they have.
func runBalance(ctx context.Context, a *app, s interface {
	fleets
	specs
}, noWait bool) error {
	names, err := s.Clusters(ctx)
	if err != nil {
		return err
	}
	f, err := s.Fleet(ctx)
	if err != nil {
		return err
	}
	if len(f.Daemons) == 0 {
		return noDaemon(names)
	}
	eager := balance.Options{Eager: true}
	moves := balance.Plan(f, eager)
	switch {
	case len(f.Daemons) == 1:
		fmt.Fprintln(a.stderr, "Nothing to balance.")
	case len(moves) == 0:
		fmt.Fprintln(a.stderr, "The clusters are balanced already.")
	default:
		if err := s.RequestBalance(ctx, a.whoami()); err != nil {
			return err
		}
		fmt.Fprintf(a.stderr, "%d of %d clusters change hands, each once nothing is under way in it\n", len(moves), len(names))
		if noWait {
			return nil
		}
		if f, err = balanced(ctx, s, len(f.Clusters)); err != nil {
			return detached(ctx, err, "the request stays for a minute; leaders hand over when they read it", "ckecli leader")
		}
		if left := len(balance.Plan(f, eager)); left > 0 {
			fmt.Fprintf(a.stderr, "%d clusters stay for now: something is under way in them, or their leader daemon is too old to hand over\n", left)
		}
	}
	return a.showFleet(f, names)
}

// balanced waits until all that is planned was done and so many clusters are led, or the request has expired.
func balanced(ctx context.Context, s fleets, led int) (cke.Fleet, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	asked := false
	for f := range s.WatchFleet(ctx) {
		if asked = asked || f.Asked != nil; len(f.Clusters) >= led && len(balance.Plan(f, balance.Options{Eager: true})) == 0 || asked && f.Asked == nil {
			return f, nil
		}
	}
	return cke.Fleet{}, follow.WatchEnded(ctx)
}

func runLeader(ctx context.Context, a *app, s leadership, cluster string) error {
	l, err := s.Leader(ctx, cluster)
	if errors.Is(err, cke.ErrNotFound) {
		return noLeader(cluster)
	}
	if err != nil {
		return err
	}
	return a.showLeader(l)
}

func (a *app) showLeader(l cke.Leader) error {
	return a.show(view{data: l, names: []string{l.Host}, table: func(w io.Writer, colour, _ bool) error {
		t := term.NewTable("HOST", "TERM", "SINCE")
		t.Add(term.Text(l.Host), term.Textf("%d", l.Term), term.Text(a.ago(l.Since)))
		return t.Write(w, colour)
	}})
}

// noDaemon is what there is to say when none is alive.
func noDaemon(names []string) error {
	if len(names) == 0 {
		return noLeader("any cluster")
	}
	return noLeader(strings.Join(names, ", "))
}

func noLeader(cluster string) error {
	return &cke.Error{Code: cke.CodeNoLeader, What: "no daemon leads " + cluster,
		Facts: []string{"start cke on a management host, or read its log there: journalctl -u cke"}, Try: "systemctl start cke"}
}

// runResign asks the leader to resign and waits until a later term leads.
func runResign(ctx context.Context, a *app, s interface {
	leadership
	tellings
}, cluster string, noWait bool) error {
	before, err := s.Leader(ctx, cluster)
	if errors.Is(err, cke.ErrNotFound) {
		return noLeader(cluster)
	}
	if err != nil {
		return err
	}
	if err := s.RequestResign(ctx, cluster); err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "%s, which leads %s in term %d, was asked to resign\n", before.Host, cluster, before.Term)
	if noWait {
		return nil
	}
	for st := range s.WatchStatus(ctx, cluster) {
		if st.Leader.Term <= before.Term {
			continue
		}
		return a.showLeader(st.Leader)
	}
	return detached(ctx, follow.WatchEnded(ctx), "the request stays; the leader resigns when it reads it", "ckecli leader")
}
