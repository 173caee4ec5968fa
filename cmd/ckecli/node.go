package main

import (
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

func newNodeCommand(a *app) *cobra.Command {
	return newGroup("node", groupEtcd, "Show nodes, let cke in, take them down, and accept changed host keys",
		newNodeListCommand(a), newNodeAuthorizeCommand(a), newNodeDrainCommand(a), newNodeUndrainCommand(a), newNodeAcceptKeyCommand(a))
}

func newNodeListCommand(a *app) *cobra.Command {
	cmd := a.watched("list", "List the nodes and what is known of them", runNodeList)
	cmd.Aliases = []string{"ls"}
	return cmd
}

func runNodeList(ctx context.Context, a *app, s store, watch bool) error {
	name, spec, err := a.theSpec(ctx, s)
	if err != nil {
		return err
	}
	if watch {
		return a.watchStatus(ctx, s, name, func(sc screen) view { return a.nodesView(spec, sc.status) })
	}
	st, err := s.Status(ctx, name)
	switch {
	case errors.Is(err, cke.ErrNotFound):
		fmt.Fprintf(a.stderr, "%s has no status yet: its nodes are as declared, and nothing is known of them.\n", name)
	case err != nil:
		return err
	case a.age(st) > words.StaleAfter:
		fmt.Fprintf(a.stderr, "This is how it was %s ago.\n", term.Age(a.age(st)))
	}
	return a.show(a.nodesView(spec, st))
}

// listedNode is a node as `node list` writes it for programs.
type listedNode struct {
	Name     string `json:"name"`
	Declared bool   `json:"declared"`
	// Observed reports whether the status has the node.
	Observed bool `json:"observed"`
	cke.NodeStatus
}

// listNodes joins the declared nodes with what was seen; nodes of members that are declared no more come last.
func listNodes(spec cke.Spec, st cke.Status) []listedNode {
	all := []listedNode{}
	seen := map[string]bool{}
	for _, n := range spec.Wanted().Nodes {
		l := listedNode{Name: n.Name(), Declared: true, NodeStatus: cke.NodeStatus{Node: n}}
		for _, ns := range st.Nodes {
			if ns.Node.Address == n.Address {
				l.NodeStatus, l.Observed = ns, true
				l.Node = n
			}
		}
		seen[n.Address] = true
		all = append(all, l)
	}
	for _, ns := range st.Nodes {
		if !seen[ns.Node.Address] {
			all = append(all, listedNode{Name: ns.Node.Name(), Observed: true, NodeStatus: ns})
		}
	}
	return all
}

func (a *app) nodesView(spec cke.Spec, st cke.Status) view {
	all, names := listNodes(spec, st), []string{}
	for _, n := range all {
		names = append(names, n.Name)
	}
	return view{data: all, names: names, table: func(w io.Writer, colour, wide bool) error {
		header := []string{"NODE", "ADDRESS", "USER", "CARRIES", "ENGINE", "CONTAINER", "SEEN", "PROBLEM"}
		if wide {
			header = append(header, "ZONE", "SSH PORT", "VOLUMES")
		}
		t := term.NewTable(header...)
		for _, n := range all {
			t.Add(a.nodeRow(spec.Cluster.Name, n)...)
		}
		return t.Write(w, colour)
	}}
}

func (a *app) nodeRow(cluster string, n listedNode) []term.Cell {
	carries := term.Text("")
	switch {
	case !n.Declared:
		carries = term.Styled(term.Yellow, "not declared")
	case n.Node.ControlPlane:
		carries = term.Text("member")
	}
	seen, problem := term.Text("never"), term.Text("")
	if !n.SeenAt.IsZero() {
		seen = term.Text(a.ago(n.SeenAt) + " ago")
	}
	if n.Problem != nil {
		problem = term.Styled(term.Red, words.Problem(cke.Problem{Code: n.Problem.Code, Message: strings.TrimPrefix(n.Problem.Message, n.Name+": ")}))
	}
	return []term.Cell{term.Text(n.Name), term.Text(n.Node.Address), term.Text(n.Node.User), carries, term.Text(n.EngineVersion),
		containerCell(cluster, n.NodeStatus), seen, problem, term.Text(n.Node.Zone), term.Textf("%d", n.Node.SSH.Port), term.Text(volumeNames(n.NodeStatus))}
}

// containerCell shows the states of the node's etcd containers; those of others than the cluster are named.
func containerCell(cluster string, n cke.NodeStatus) term.Cell {
	var all []string
	style := term.Plain
	for _, c := range n.Containers {
		text := string(c.State)
		if c.Cluster != cluster {
			text = c.Name + " (not of " + cluster + ") " + text
		}
		if c.State != cke.ContainerRunning {
			style = term.Yellow
		}
		all = append(all, text)
	}
	if n.Problem != nil && len(all) > 0 {
		return term.Styled(term.Dim, "was "+strings.Join(all, ", "))
	}
	return term.Styled(style, strings.Join(all, ", "))
}

func volumeNames(n cke.NodeStatus) string {
	return commaList(n.Volumes, func(v cke.Volume) string { return v.Name })
}
