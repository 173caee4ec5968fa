package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"cke"
	"cke/internal/term"
	"cke/internal/words"
)

// listed is one cluster in `cluster list`.
type listed struct {
	Name     string     `json:"name"`
	Health   cke.Health `json:"health,omitempty"`
	Declared int        `json:"declared"`
	Ready    int        `json:"ready"`
	// Tolerance is missing while there is no status.
	Tolerance          *int      `json:"tolerance,omitempty"`
	Revision           int64     `json:"revision"`
	ObservedGeneration int64     `json:"observedGeneration"`
	ObservedAt         time.Time `json:"observedAt,omitzero"`
	Version            string    `json:"version"`
	Leader             string    `json:"leader,omitempty"`
	Summary            string    `json:"summary"`
}

func newClusterListCommand(a *app) *cobra.Command {
	return a.listing("List all clusters", func(ctx context.Context, a *app, s store) error { return runList(ctx, a, s) })
}

// readersAtOnce is how many clusters are read side by side.
const readersAtOnce = 16

func runList(ctx context.Context, a *app, s interface {
	specs
	tellings
}) error {
	names, err := s.Clusters(ctx)
	if err != nil {
		return err
	}
	all := make([]listed, len(names))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(readersAtOnce)
	for i, name := range names {
		g.Go(func() (err error) {
			if all[i], err = listCluster(gctx, s, name); errors.Is(err, cke.ErrNotFound) {
				return nil // deleted meanwhile
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(l listed) bool { return l.Name == "" })
	return a.show(view{data: all, names: names, table: func(w io.Writer, colour, wide bool) error {
		if len(all) == 0 {
			fmt.Fprintln(a.stderr, "There is no cluster yet. Declare one with: ckecli cluster set FILE")
			return nil
		}
		header := []string{"CLUSTER", "HEALTH", "MEMBERS", "CAN LOSE", "REVISION", "SEEN"}
		if wide {
			header = append(header, "VERSION", "LEADER", "SUMMARY")
		}
		t := term.NewTable(header...)
		for _, l := range all {
			t.Add(a.listRow(l)...)
		}
		return t.Write(w, colour)
	}})
}

func listCluster(ctx context.Context, s interface {
	specs
	tellings
}, name string) (listed, error) {
	spec, err := s.Spec(ctx, name)
	if err != nil {
		return listed{}, err
	}
	l := listed{Name: name, Declared: len(spec.Cluster.ControlPlane()), Revision: spec.Generation,
		Version: spec.Wanted().Options.Etcd.Version, Summary: "no status yet"}
	st, err := s.Status(ctx, name)
	if errors.Is(err, cke.ErrNotFound) {
		return l, nil
	}
	if err != nil {
		return listed{}, err
	}
	l.Health, l.Ready, l.Tolerance = st.Health, st.Ready, &st.Tolerance
	l.ObservedGeneration, l.ObservedAt, l.Leader, l.Summary = st.ObservedGeneration, st.ObservedAt, st.Leader.Host, st.Summary
	return l, nil
}

func (a *app) listRow(l listed) []term.Cell {
	lose := "-"
	if l.Tolerance != nil && *l.Tolerance >= 0 {
		lose = fmt.Sprint(*l.Tolerance)
	}
	seen := term.Text("never")
	if !l.ObservedAt.IsZero() {
		seen = term.Text(a.ago(l.ObservedAt) + " ago")
		if a.now().Sub(l.ObservedAt) > words.StaleAfter {
			seen.Style = term.Red
		}
	}
	revision := fmt.Sprint(l.Revision)
	if l.ObservedGeneration < l.Revision {
		revision += " (not done yet)"
	}
	health := string(l.Health)
	if health == "" {
		health = "UNKNOWN"
	}
	return []term.Cell{term.Text(l.Name), term.Styled(words.HealthStyle(cke.Health(health)), health),
		term.Textf("%d/%d", l.Ready, l.Declared), term.Text(lose), term.Text(revision), seen,
		term.Text(l.Version), term.Text(l.Leader), term.Text(l.Summary)}
}
