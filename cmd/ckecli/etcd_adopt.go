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
		Short: "Replace the foreign member on a node with a new one of cke",
		Long: `Bring a declared control-plane node that carries a foreign member of the cluster under management.

The foreign member is removed from the member list once quorum allows it: one that serves is removed only while all others are
healthy. The container that carries it is stopped and not started again by its engine; it and its volumes are kept. Then a
fresh member with a volume of its own is added on the node and gets its data from the cluster, like every new member.
No data is copied from the foreign member, and its id is not used again.

Fewer members can be lost until the fresh one votes: confirm that, or give --yes. If cke cannot determine which container
carries the member it refuses, and names what you have to stop. It works with every value of policies.foreign.

Ctrl-C stops following; the work continues.`,
		RunE: a.onStore(func(ctx context.Context, s store, args []string) error {
			return runAdopt(ctx, a, s, args[0], o)
		}),
	}
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "confirm")
	cmd.Flags().BoolVar(&o.noWait, "no-wait", false, "return once it is asked for")
	return cmd
}

func runAdopt(ctx context.Context, a *app, s store, node string, o replaceOptions) error {
	cluster, n, sc, err := a.nodeNow(ctx, s, node, "it is not known which member is on %s")
	if err != nil {
		return err
	}
	m, carrier, err := strangerOn(sc.status, n)
	if err != nil {
		return err
	}
	if !o.yes {
		what := "it is not known whether it runs in a container"
		if carrier.ID != "" {
			what = "container " + carrier.Name + " is stopped for good, and kept"
		}
		question := fmt.Sprintf("Member %s on %s is removed from %s for a fresh one; %s. %s can be lost now, %s until the fresh one votes. Continue?",
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
		line := fmt.Sprintf("%s has a member of cke (took %s)", n.Name(), took)
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
		return refuse("there is no foreign member on %s", n.Name())
	case 1:
	default:
		return refuse("there are %d foreign members on %s; remove all but one with etcdctl", len(found), n.Name())
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
