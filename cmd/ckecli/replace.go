package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"cke"
	"cke/clusterfile"
	"cke/quorum"
	"cke/storage"
)

// replaceOptions are the options of `replace`.
type replaceOptions struct {
	yes    bool
	noWait bool
}

func newReplaceCommand(a *app) *cobra.Command {
	var o replaceOptions
	cmd := &cobra.Command{
		Use: "replace NODE [NEW]", GroupID: groupWant, Args: arguments(1, 2), ValidArgsFunction: a.completeNodes(),
		Short: "Replace a member with a fresh one, on its node or on another one",
		Long: `Replace the member on NODE with a fresh one that has a volume of its own. The old volume is kept.

Without NEW the fresh member is on NODE itself. A dead member is removed at once, if quorum allows it; one that serves is removed
only while all others are healthy, and fewer members can be lost until the fresh one has caught up: confirm that, or give --yes.
Use the command also to replace members with policies.replace: manual. On a node whose new members did not start to vote
(CKE224) it tries another one at once.

With NEW, a declared node that is no control-plane node, the membership moves there: a new revision of the cluster file is
stored in which NEW has control_plane instead of NODE, and nothing else differs. If the member on NODE serves, the fresh one is
added first; if it is dead, it is removed first. It is refused while quorum would be lost either way: replace the dead member
first. Confirm a move after which more zones cannot be lost, or give --yes.

Ctrl-C stops following; the work continues.`,
		Example: "  ckecli replace cp3\n  ckecli replace cp3 cp4",
		RunE: a.onStore(func(ctx context.Context, s store, args []string) error {
			if len(args) == 2 {
				return runReplaceNode(ctx, a, s, args[0], args[1], o)
			}
			return runReplace(ctx, a, s, args[0], o)
		}),
	}
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "confirm")
	cmd.Flags().BoolVar(&o.noWait, "no-wait", false, "return once it is asked for")
	return cmd
}

// runReplace asks for a fresh member on the same node.
func runReplace(ctx context.Context, a *app, s store, node string, o replaceOptions) error {
	cluster, st, err := a.statusOf(ctx, s)
	if err != nil {
		return err
	}
	m, err := memberOf(st, node)
	if err != nil { // a node whose learners were withdrawn one after the other: another one is tried at once
		id, idErr := s.Identity(ctx, cluster)
		ended := slices.DeleteFunc(id.Ended, func(j cke.Join) bool { return j.Node.Name() != node && j.Node.Address != node })
		if idErr != nil || len(ended) == 0 {
			return err
		}
		last := slices.MaxFunc(ended, func(a, b cke.Join) int { return a.EndedAt.Compare(b.EndedAt) })
		m = cke.MemberStatus{Name: last.Node.Name(), Join: last.ID}
	}
	if m.Ready && !o.yes {
		question := fmt.Sprintf("%s serves. It is missing until a fresh member has caught up; %s can be lost now, %s meanwhile. Replace it?",
			m.Name, membersLost(st.Tolerance), membersLost(toleranceWithout(st)))
		if err := a.confirmYes(ctx, "replacing the member of "+m.Name, question, "ckecli replace "+m.Name+" --yes"); err != nil {
			return err
		}
	}
	return a.runTask(ctx, s, taskRun{cluster: cluster, task: a.newTask(cke.TaskReplace, m.Name, string(m.Join)), noWait: o.noWait,
		done: func(r cke.Record, took string) string {
			if r.Operation == string(cke.TaskReplace) {
				return r.Reason // what kept the fresh member from being added now
			}
			return fmt.Sprintf("%s has a fresh member (took %s)", m.Name, took)
		}})
}

// statusOf returns the name and the status of the cluster that a command is about.
func (a *app) statusOf(ctx context.Context, s store) (string, cke.Status, error) {
	cluster, err := a.theCluster(ctx, s)
	if err != nil {
		return "", cke.Status{}, err
	}
	sc, err := readScreen(ctx, s, cluster)
	return cluster, sc.status, err
}

// memberOf returns the member on a node, by the node's name or address.
func memberOf(st cke.Status, node string) (cke.MemberStatus, error) {
	i := slices.IndexFunc(st.Members, func(m cke.MemberStatus) bool { return m.Join != "" && (m.Name == node || m.Address == node) })
	if i < 0 {
		return cke.MemberStatus{}, &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("%s carries no member of %s", node, st.Cluster), Unchanged: true, Try: "ckecli etcd members"}
	}
	return st.Members[i], nil
}

// voters counts the members that vote.
func voters(st cke.Status) int {
	n := 0
	for _, m := range st.Etcd.Members {
		if !m.Learner {
			n++
		}
	}
	return n
}

// toleranceWithout is how many members can be lost while one that serves is no member.
func toleranceWithout(st cke.Status) int {
	n := voters(st)
	healthy := st.Tolerance + quorum.Of(n)
	return max(0, healthy-1-quorum.Of(n-1))
}

func membersLost(n int) string {
	return cke.Count(max(n, 0), "more member")
}

// runReplaceNode moves a membership to another node by a new revision of the cluster file.
func runReplaceNode(ctx context.Context, a *app, s store, from, to string, o replaceOptions) error {
	begun := a.now()
	cluster, spec, err := a.theSpec(ctx, s)
	if err != nil {
		return err
	}
	next, source, err := movedControlPlane(spec, from, to)
	if err != nil {
		return err
	}
	if _, err := a.checkPlan(ctx, s, edition{cluster: next}, &setOptions{}); err != nil {
		return err
	}
	if question := worseZones(spec.Cluster, next); question != "" && !o.yes {
		if err := a.confirmYes(ctx, worseSpread(cluster), question+" Store it?", a.again(cluster, fmt.Sprintf("replace %s %s --yes", from, to))); err != nil {
			return err
		}
	}
	var stored cke.Spec
	newest, err := a.change(ctx, s, cluster, "the revision was stored", "cluster log", func() (err error) {
		stored, err = s.SetSpec(ctx, cluster, next, source, a.whoami(), storage.SetOptions{IfGeneration: &spec.Generation, IfSource: &spec.Source})
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "%s: stored as revision %d: control_plane moved from %s to %s\n", cluster, stored.Generation, from, to)
	fmt.Fprintf(a.stderr, "A copy of the file elsewhere is out of date now: ckecli cluster get\n")
	r := setResult{Cluster: cluster, Revision: stored.Generation, Changed: true}
	if o.noWait {
		return a.showSet(r, fmt.Sprint(stored.Generation))
	}
	var line string
	r.outcome, line, err = a.followReady(ctx, s, goal{cluster: cluster, revision: stored.Generation, is: "stored", newest: newest, begun: begun})
	if err != nil {
		return err
	}
	return a.showSet(r, line)
}

// movedControlPlane is the cluster file with another control-plane node, as value and as text.
func movedControlPlane(spec cke.Spec, from, to string) (cke.Cluster, []byte, error) {
	refuse := func(try, format string, args ...any) (cke.Cluster, []byte, error) {
		return cke.Cluster{}, nil, &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf(format, args...), Unchanged: true, Try: try}
	}
	old, known := spec.Cluster.Node(from)
	if !known {
		return refuse("ckecli node list", "cluster %s declares no node %s", spec.Cluster.Name, from)
	}
	if !old.ControlPlane {
		return refuse("ckecli node list", "%s is no control-plane node, so there is nothing to move away from it", from)
	}
	n, known := spec.Cluster.Node(to)
	switch {
	case !known:
		return refuse("ckecli cluster get > cluster.yml, add `- {address: …, hostname: "+to+"}` under nodes:, ckecli cluster set cluster.yml",
			"cluster %s declares no node %s", spec.Cluster.Name, to)
	case n.ControlPlane:
		return refuse("name a declared node without control_plane: true", "%s is a control-plane node already and has a member of its own", to)
	}
	source, err := clusterfile.MoveControlPlane([]byte(spec.Source), old.Address, n.Address)
	if err == nil {
		var next cke.Cluster
		if next, _, err = clusterfile.ParseCluster("the stored file", source); err == nil {
			return next, source, nil
		}
	}
	return cke.Cluster{}, nil, &cke.Error{Code: cke.CodeConfig, What: "the stored cluster file cannot be edited by ckecli", Unchanged: true, Err: errors.Unwrap(err),
		Facts: []string{err.Error()}, Try: "ckecli cluster get > cluster.yml, move control_plane: true there, ckecli cluster set cluster.yml"}
}
