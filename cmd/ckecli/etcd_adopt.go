package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cke"
	"cke/quorum"
)

func newAdoptCommand(a *app) *cobra.Command {
	var o replaceOptions
	cmd := &cobra.Command{
		Use: "adopt NODE", Args: arguments(1, 1), ValidArgsFunction: first(a.completeNodes()),
		Short: "Put a member of cke's in the place of a foreign one on a node",
		Long: `Bring a declared control-plane node on which somebody else runs a member of the cluster under management.

The foreign member is removed from the member list, as the quorum gate allows: one that serves only while all others are
well. The container that carries it is stopped and not started again by its engine; it and its volumes are kept. Then a
fresh member with a volume of its own is added on the node and is given the data by the cluster, as every new member is.
No data is copied from the foreign one, whose id ends.

Fewer members can be lost until the fresh one votes, so it is confirmed, or asked for with --yes. Where cke cannot tell
which container carries the member it refuses, and says what a person has to stop. It works whatever policies.foreign is.

Ctrl-C stops following; the work goes on.`,
		RunE: a.onStore(func(ctx context.Context, s store, args []string) error {
			return runAdopt(ctx, a, s, args[0], o)
		}),
	}
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "confirm")
	cmd.Flags().BoolVar(&o.noWait, "no-wait", false, "return once it is asked for")
	return cmd
}

func runAdopt(ctx context.Context, a *app, s store, node string, o replaceOptions) error {
	cluster, n, sc, err := a.nodeNow(ctx, s, node, "which member stands on %s is not known")
	if err != nil {
		return err
	}
	m, carrier, err := strangerOn(sc.status, n)
	if err != nil {
		return err
	}
	if !o.yes {
		what := "what it runs in is not known to be a container"
		if carrier.ID != "" {
			what = "container " + carrier.Name + " is stopped for good, and kept"
		}
		question := fmt.Sprintf("Member %s on %s is removed from %s for a fresh one; %s. %s can be lost now, %s until the fresh one votes. Go on?",
			m.Name, n.Name(), cluster, what, membersLost(sc.status.Tolerance), membersLost(toleranceAfter(sc.status, m)))
		if err := a.confirmYes(ctx, "adopting the member of "+n.Name(), question, "ckecli etcd adopt "+n.Name()+" --yes"); err != nil {
			return err
		}
	}
	task := a.newTask(cke.TaskAdopt, n.Name(), m.ID)
	task.Adopt = &cke.Adoption{Member: m, Container: carrier.ID}
	return a.runTask(ctx, s, taskRun{cluster: cluster, task: task, noWait: o.noWait, done: func(r cke.Record, took string) string {
		if r.Operation == string(cke.TaskAdopt) && r.Reason != "" && !strings.Contains(r.Reason, "has its new member") {
			return r.Reason // what kept the fresh member from being added now
		}
		line := fmt.Sprintf("%s has a member of cke's (took %s)", n.Name(), took)
		if carrier.ID != "" {
			line += fmt.Sprintf("\ncontainer %s is stopped, not started again, and kept", carrier.Name)
			if len(carrier.Mounts) > 0 {
				line += ", with " + strings.Join(carrier.Mounts, ", ")
			}
		}
		return line
	}})
}

// strangerOn returns the only member on a node that cke does not know, and the foreign container that carries it; none,
// if it cannot be told.
func strangerOn(st cke.Status, n cke.Node) (cke.Member, cke.Container, error) {
	var found []cke.Member
	for _, m := range st.Members {
		i := slices.IndexFunc(st.Etcd.Members, func(e cke.Member) bool { return e.ID == m.ID })
		if m.State == "stranger" && m.Address == n.Address && i >= 0 {
			found = append(found, st.Etcd.Members[i])
		}
	}
	refuse := func(format string, args ...any) (cke.Member, cke.Container, error) {
		return cke.Member{}, cke.Container{}, refused(&cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf(format, args...), Unchanged: true, Try: "ckecli etcd members"})
	}
	switch len(found) {
	case 0:
		return refuse("no member that cke does not know stands on %s", n.Name())
	case 1:
	default:
		return refuse("%d members that cke does not know stand on %s; remove all but one with etcdctl", len(found), n.Name())
	}
	for _, s := range st.Nodes {
		if carriers := s.Carriers(found[0].PeerURLs); s.Node.Address == n.Address && len(carriers) == 1 {
			return found[0], carriers[0], nil
		}
	}
	return found[0], cke.Container{}, nil
}

// toleranceAfter is how many members can be lost while a stranger is no member any more.
func toleranceAfter(st cke.Status, m cke.Member) int {
	if m.Learner {
		return st.Tolerance
	}
	n := voters(st)
	healthy := st.Tolerance + quorum.Of(n)
	for _, e := range st.Etcd.Endpoints {
		if e.MemberID == m.ID && e.Healthy() {
			return max(0, healthy-1-quorum.Of(n-1))
		}
	}
	return max(0, healthy-quorum.Of(n-1))
}
