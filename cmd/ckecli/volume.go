package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"cke"
	"cke/internal/term"
	"cke/internal/words"
)

func newVolumeCommand(a *app) *cobra.Command {
	return newGroup("volume", groupEtcd, "Show and manage volumes: those in use, and archived data",
		newVolumeListCommand(a), newVolumeUndeleteCommand(a), newVolumePurgeCommand(a))
}

func newVolumeListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the volumes of present and former members", Args: arguments(0, 0),
		Long: `List every volume that holds etcd data of the cluster, or may: those of present members, archived ones of former members
with the time when cke removes them, and what else is on the nodes. A node that does not answer is a row of its own:
what it holds is not known now.`,
		RunE: a.onStore(func(ctx context.Context, s store, _ []string) error {
			return runVolumeList(ctx, a, s)
		}),
	}
}

// States of a volume.
const (
	volumeInUse    = "in use"
	volumeArchived = "archived"
	volumeRemoving = "being removed"
	volumeLeftover = "leftover" // labelled with the cluster, and of no membership on record
	volumeOther    = "of another cluster"
	volumeUnknown  = "unknown" // not labelled
	volumeMissing  = "missing"
	nodeSilent     = "unreachable"
)

// listedVolume is a volume as `volume list` writes it for programs.
type listedVolume struct {
	// Name is empty for a node that does not answer.
	Name  string `json:"name,omitempty"`
	Node  string `json:"node"`
	State string `json:"state"`
	// Seen reports whether the last observation had the volume.
	Seen bool `json:"seen"`
	// KeepUntil is when cke removes it; absent: it is kept until it is purged.
	KeepUntil   time.Time  `json:"keepUntil,omitzero"`
	CreatedAt   time.Time  `json:"createdAt,omitzero"`
	Size        int64      `json:"size,omitempty"` // bytes of the database in use
	Cluster     string     `json:"cluster,omitempty"`
	Incarnation string     `json:"incarnation,omitempty"`
	Join        cke.JoinID `json:"join,omitempty"`
	// Problem is why the node did not answer.
	Problem string `json:"problem,omitempty"`
}

func runVolumeList(ctx context.Context, a *app, s store) error {
	cluster, id, err := a.theIdentity(ctx, s)
	if err != nil {
		return err
	}
	st, err := s.Status(ctx, cluster)
	switch {
	case errors.Is(err, cke.ErrNotFound):
		fmt.Fprintf(a.stderr, "%s has no status yet: volumes are those on record.\n", cluster)
	case err != nil:
		return err
	case a.age(st) > words.StaleAfter:
		fmt.Fprintf(a.stderr, "This is how it was %s ago.\n", term.Age(a.age(st)))
	}
	all, names := listVolumes(cluster, id, st), []string{}
	for _, v := range all {
		if v.Name != "" {
			names = append(names, v.Name)
		}
	}
	return a.show(view{data: all, names: names, table: func(w io.Writer, colour, wide bool) error {
		header := []string{"VOLUME", "NODE", "STATE", "KEPT UNTIL", "CREATED", "SIZE"}
		if wide {
			header = append(header, "SEEN", "JOIN", "INCARNATION", "CLUSTER", "PROBLEM")
		}
		t := term.NewTable(header...)
		for _, v := range all {
			t.Add(term.Text(v.Name), term.Text(v.Node), volumeState(v), term.Text(keptUntil(v)), term.Text(a.created(v)), term.Text(words.DBSize(v.Size)),
				term.Textf("%v", v.Seen), term.Text(string(v.Join)), term.Text(v.Incarnation), term.Text(v.Cluster), term.Text(v.Problem))
		}
		return t.Write(w, colour)
	}})
}

// listVolumes joins what is on record with what was seen on the nodes.
func listVolumes(cluster string, id cke.Identity, st cke.Status) []listedVolume {
	all := []listedVolume{}
	known := map[cke.JoinID]bool{}
	add := func(j cke.Join, state string) {
		known[j.ID] = true
		v := listedVolume{Name: j.Volume, Node: j.Node.Name(), State: state, KeepUntil: j.KeepUntil, Cluster: cluster, Incarnation: j.Incarnation, Join: j.ID}
		answered := false
		for _, n := range st.Nodes {
			if n.Node.Address != j.Node.Address {
				continue
			}
			answered = n.Answered()
			if seen, there := n.VolumeOf(j); there {
				v.Seen, v.CreatedAt = answered, seen.CreatedAt
			}
		}
		if answered && !v.Seen && state != volumeRemoving {
			v.State = volumeMissing
		}
		for _, m := range st.Members {
			if m.Join == j.ID {
				v.Size = m.DBSize
			}
		}
		all = append(all, v)
	}
	for _, j := range id.Joins {
		add(j, volumeInUse)
	}
	for _, j := range id.Ended {
		switch {
		case !j.RemovedAt.IsZero():
			known[j.ID] = true
		case !j.PurgedAt.IsZero():
			add(j, volumeRemoving)
		default:
			add(j, volumeArchived)
		}
	}
	for _, n := range st.Nodes {
		if !n.Answered() {
			all = append(all, listedVolume{Node: n.Node.Name(), State: nodeSilent, Problem: n.Problem.Message})
		}
		for _, v := range n.Volumes {
			if v.Join != "" && known[v.Join] {
				continue
			}
			all = append(all, listedVolume{Name: v.Name, Node: n.Node.Name(), State: stateOfSeen(cluster, v), Seen: n.Answered(), CreatedAt: v.CreatedAt,
				Cluster: v.Cluster, Incarnation: v.Incarnation, Join: v.Join})
		}
	}
	slices.SortStableFunc(all, func(x, y listedVolume) int { return cmp.Compare(x.Node, y.Node) })
	return all
}

// stateOfSeen is what a volume is that no membership on record has.
func stateOfSeen(cluster string, v cke.Volume) string {
	switch v.Cluster {
	case cluster:
		return volumeLeftover
	case "":
		return volumeUnknown
	}
	return volumeOther
}

func volumeState(v listedVolume) term.Cell {
	switch v.State {
	case volumeInUse:
		return term.Styled(term.Green, v.State)
	case volumeMissing, nodeSilent:
		return term.Styled(term.Red, v.State)
	case volumeArchived:
		return term.Text(v.State)
	}
	return term.Styled(term.Yellow, v.State)
}

func keptUntil(v listedVolume) string {
	switch {
	case v.State == volumeArchived && v.KeepUntil.IsZero():
		return "purged"
	case v.State == volumeArchived:
		return words.Moment(v.KeepUntil)
	}
	return ""
}

func (a *app) created(v listedVolume) string {
	if v.CreatedAt.IsZero() {
		return ""
	}
	return a.ago(v.CreatedAt) + " ago"
}

func newVolumeUndeleteCommand(a *app) *cobra.Command {
	var noWait bool
	cmd := &cobra.Command{
		Use: "undelete VOLUME", Short: "Keep an archived volume until it is purged", Args: arguments(1, 1), ValidArgsFunction: first(a.completeVolumes()),
		Long: "Take an archived volume out of the trash: cke no longer removes it when its time is over. It does not become part of the cluster again.",
		RunE: a.onStore(func(ctx context.Context, s store, args []string) error {
			cluster, err := a.theCluster(ctx, s)
			if err != nil {
				return err
			}
			return a.runTask(ctx, s, taskRun{cluster: cluster, task: a.newTask(cke.TaskUndelete, "", args[0]), noWait: noWait, done: func(cke.Record, string) string {
				return fmt.Sprintf("%s is kept until it is purged", args[0])
			}})
		}),
	}
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return once the leader is asked")
	return cmd
}

func newVolumePurgeCommand(a *app) *cobra.Command {
	var noWait bool
	var confirm string
	cmd := &cobra.Command{
		Use: "purge VOLUME", Short: "Remove an archived volume and all data in it, for good", Args: arguments(1, 1), ValidArgsFunction: first(a.completeVolumes()),
		Long: `Remove an archived volume from its node, with all data in it. This cannot be undone: confirm by typing the volume's name, or
with --confirm VOLUME.

It is refused for the volume of a present member, for one of another cluster, for one that cke did not label, and while
not every member serves: until then it may be needed.`,
		RunE: a.onStore(func(ctx context.Context, s store, args []string) error {
			return runPurge(ctx, a, s, args[0], confirm, noWait)
		}),
	}
	cmd.Flags().StringVar(&confirm, "confirm", "", "confirm with the volume's `name`")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return once the leader is asked")
	return cmd
}

func runPurge(ctx context.Context, a *app, s store, volume, confirm string, noWait bool) error {
	cluster, err := a.theCluster(ctx, s)
	if err != nil {
		return err
	}
	if err := a.confirmName(ctx, "purging "+volume, volume, confirm, fmt.Sprintf("ckecli volume purge %s --confirm %s", volume, volume)); err != nil {
		return err
	}
	return a.runTask(ctx, s, taskRun{cluster: cluster, task: a.newTask(cke.TaskPurge, "", volume), noWait: noWait, done: func(r cke.Record, took string) string {
		return fmt.Sprintf("%s is removed (took %s)", volume, took)
	}})
}

// completeVolumes completes names of archived volumes.
func (a *app) completeVolumes() completion {
	return a.complete(func(ctx context.Context, s store, cluster string) ([]cobra.Completion, error) {
		id, err := s.Identity(ctx, cluster)
		var all []cobra.Completion
		for _, j := range id.Ended {
			if j.RemovedAt.IsZero() {
				all = append(all, j.Volume)
			}
		}
		return all, err
	})
}
