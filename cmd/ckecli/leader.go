package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"cke"
	"cke/internal/follow"
	"cke/internal/term"
)

// leadership is who leads a cluster.
type leadership interface {
	Leader(ctx context.Context, cluster string) (cke.Leader, error)
	RequestResign(ctx context.Context, cluster string) error
}

func newLeaderCommand(a *app) *cobra.Command {
	var resign, noWait bool
	cmd := &cobra.Command{
		Use: "leader", GroupID: groupSee, Args: arguments(0, 0),
		Short: "Show which daemon leads a cluster, or ask it to resign",
		Long: `Show which daemon leads a cluster, and since when.

With --resign the leader is asked to end its term; another daemon, or the same one again, leads then.
Members are not touched.`,
		RunE: a.onStore(func(ctx context.Context, s store, _ []string) error {
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
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "with --resign: do not wait")
	return cmd
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
