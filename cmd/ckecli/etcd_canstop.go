package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cke"
	"cke/internal/term"
	"cke/internal/words"
)

func newCanStopCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "can-stop NODE", Args: arguments(1, 1), ValidArgsFunction: first(a.completeNodes()),
		Short: "Report by the exit code whether a node may go down now",
		Long: fmt.Sprintf(`Report by the exit code whether the cluster continues to serve if a node goes down now: 0 yes, 6 no, with the arithmetic, 4 not
known: no daemon leads the cluster, or its status is older than %s. 1: there is no such node.

It is one read of the store and reserves nothing: a moment later another node may have gone down. Automation that takes nodes
down must lease them instead: `+"`ckecli node drain`"+`.`, words.StaleAfter),
		Example: "  ckecli etcd can-stop cp2 && ssh cp2 reboot",
		RunE: a.onStore(func(ctx context.Context, s store, args []string) error {
			return runCanStop(ctx, a, s, args[0])
		}),
	}
}

// canStop is what `etcd can-stop` writes for programs.
type canStop struct {
	Cluster    string    `json:"cluster"`
	Node       string    `json:"node"`
	CanStop    bool      `json:"canStop"`
	Because    string    `json:"because,omitempty"`
	ObservedAt time.Time `json:"observedAt"`
}

func runCanStop(ctx context.Context, a *app, s store, node string) error {
	cluster, n, sc, err := a.nodeNow(ctx, s, node, "whether %s may go down is not known")
	if cke.CodeOf(err) == cke.CodeCannot { // a misspelt name is no answer about a node
		return exitWith{err, exitFailed}
	}
	if err != nil {
		return err
	}
	c := canStop{Cluster: cluster, Node: n.Name(), CanStop: true, ObservedAt: sc.status.ObservedAt}
	carries := "carries no member"
	for _, m := range sc.status.Members { // a member that cke does not know has a row of its own
		if m.Address != n.Address {
			continue
		}
		switch {
		case m.Join != "":
			carries = "its member is " + m.State
		case m.State == "stranger":
			carries = "it carries foreign member " + m.Name
		}
		if c.CanStop {
			c.CanStop, c.Because = m.CanStop, m.CannotStopBecause
		}
	}
	if c.CanStop || a.structured() {
		line := term.Clean(fmt.Sprintf("%s may go down: %s, and %s can be lost now", c.Node, carries, membersLost(sc.status.Tolerance)))
		if zones := words.Meanwhile(sc.status.Spread, c.Node); zones != "" {
			line += "; " + zones
		}
		err := a.showLine(c, c.Node, line)
		if err != nil || c.CanStop {
			return err
		}
		return exitError(exitRefused)
	}
	return &cke.Error{Code: cke.CodeQuorum, What: c.Node + " must not go down now", Facts: strings.Split(c.Because, "; "), Unchanged: true, Try: a.again(cluster, "status")}
}
