package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"cke"
	"cke/internal/term"
)

// reclaimOptions are the options of `cluster reclaim`.
type reclaimOptions struct {
	plan    bool
	confirm string
	noWait  bool
}

func newClusterReclaimCommand(a *app) *cobra.Command {
	var o reclaimOptions
	cmd := &cobra.Command{
		Use:   "reclaim NAME",
		Short: "Put memberships on record again that an older store does not have",
		Long: `Put memberships on record again after the store was restored from a copy that is older than the cluster. cke freezes
the cluster when it finds containers or volumes of memberships that the store does not have, and never stops them.

It reads the labels of containers and volumes on the nodes and etcd's member list, and shows what it will put on record:
members, and archived volumes of members that have left. No node is changed. The command also lifts the freeze, and cke continues
with the cluster file that is stored: if the file in the store is older, too, store the newest one first
("ckecli cluster set --no-wait FILE").

The certificate authorities are those of the store. If they were replaced after the copy was made, members do not accept
its certificates, no member list can be read, and only a newer copy of the store helps.

Confirm by typing the cluster's name, or with --confirm NAME. --plan only shows what would be put on record.`,
		Args: arguments(1, 1), ValidArgsFunction: first(a.completeClusters()),
		RunE: a.onCluster(func(ctx context.Context, s store, args []string) error {
			return runReclaim(ctx, a, s, args[0], o)
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&o.plan, "plan", false, "show what would be put on record, and change nothing")
	f.StringVar(&o.confirm, "confirm", "", "confirm with the cluster's `name`")
	f.BoolVar(&o.noWait, "no-wait", false, "return once the leader is asked")
	return cmd
}

// reclaimRow is a membership as `cluster reclaim` shows it.
type reclaimRow struct {
	Node   string     `json:"node"`
	Join   cke.JoinID `json:"join"`
	Volume string     `json:"volume"`
	// Member is etcd's id of its member; empty: it has none.
	Member string `json:"member,omitempty"`
	Then   string `json:"then"` // member, archived, ended or apart
}

func runReclaim(ctx context.Context, a *app, s store, name string, o reclaimOptions) error {
	spec, err := s.Spec(ctx, name)
	if err != nil {
		return err
	}
	id, err := s.Identity(ctx, name)
	if err != nil {
		return err
	}
	st, err := s.Status(ctx, name)
	if err != nil {
		return err
	}
	r, why := cke.PlanReclaim(spec.Wanted(), id, cke.Observation{ObservedAt: st.ObservedAt, Nodes: st.Nodes, Etcd: st.Etcd}, st.Backup)
	if why != nil {
		return refused(why)
	}
	frozen := id.Freeze.Active() && id.Freeze.Kind == cke.FreezeOlderStore
	if len(r.IDs()) == 0 && !frozen {
		return refused(&cke.Error{Code: cke.CodeCannot, What: "every membership that the nodes of " + name + " carry is on record", Unchanged: true, Try: "ckecli status " + name})
	}
	if o.plan {
		return a.showReclaim(r)
	}
	if err := writeReclaim(a.stderr, r, a.colour(a.stderr)); err != nil {
		return err
	}
	how := fmt.Sprintf("ckecli cluster reclaim %s --confirm %s", name, name)
	if err := a.confirmName(ctx, "reclaiming memberships of "+name, name, o.confirm, how); err != nil {
		return err
	}
	t := a.newTask(cke.TaskReclaim, "", "")
	t.Reclaim, t.ReclaimChanges = r.IDs(), r.Changes()
	return a.runTask(ctx, s, taskRun{cluster: name, task: t, noWait: o.noWait, done: func(_ cke.Record, took string) string {
		return fmt.Sprintf("%s: %s on record again (took %s)", name, cke.Plural(len(t.Reclaim), "membership is", "memberships are"), took)
	}})
}

func reclaimRows(r cke.Reclaim) []reclaimRow {
	rows := []reclaimRow{}
	add := func(then string, joins []cke.Join) {
		for _, j := range joins {
			then := then
			if j.Apart {
				then = "apart"
			}
			rows = append(rows, reclaimRow{Node: j.Node.Name(), Join: j.ID, Volume: j.Volume, Member: j.MemberID, Then: then})
		}
	}
	add("member", r.Members)
	add("archived", r.Archived)
	add("ended", r.Ends)
	add("apart", r.Apart)
	return rows
}

func (a *app) showReclaim(r cke.Reclaim) error {
	var names []string
	for _, id := range r.IDs() {
		names = append(names, string(id))
	}
	return a.show(view{data: reclaimRows(r), names: names, table: func(w io.Writer, colour, _ bool) error {
		return writeReclaim(w, r, colour)
	}})
}

func writeReclaim(w io.Writer, r cke.Reclaim, colour bool) error {
	t := term.NewTable("NODE", "VOLUME", "MEMBER", "THEN")
	texts := map[string]string{"member": "member on record", "archived": "archived volume on record, kept", "ended": "membership ends: its member has left the list",
		"apart": "put aside: its member is not started, and is to be replaced"}
	for _, row := range reclaimRows(r) {
		member := row.Member
		if member == "" {
			member = "-"
		}
		t.Add(term.Text(row.Node), term.Text(row.Volume), term.Text(member), term.Text(texts[row.Then]))
	}
	if err := t.Write(w, colour); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}
