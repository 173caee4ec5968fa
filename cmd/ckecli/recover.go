package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"cke"
	"cke/internal/term"
	"cke/quorum"
)

func newRecoverCommand(a *app) *cobra.Command {
	var o orderOptions
	var from string
	cmd := &cobra.Command{
		Use: "recover", GroupID: groupBackup, Short: "Go on from a surviving member after the quorum was lost for good", Args: arguments(0, 0),
		Long: `Bring a cluster back whose quorum is lost for good, from the data of a member that is left. It shows what each member has, and
takes the one that has applied most, or that of --from. All members are stopped, a copy is read, and the cluster goes on
from it as with "restore": new members, the old volumes are kept, and no original is ever changed.

Writes that the lost members had acknowledged and the survivor had not applied are lost. Try everything first to bring the
lost machines or their disks back: cke then goes on by itself, and nothing is lost. Newer backups may hold more: see
"ckecli restore".

Machines that do not answer could be running, cut off, with a quorum among themselves: one that is switched off or wiped for
good is named with --destroyed.`,
		RunE: a.onStore(func(ctx context.Context, s store, _ []string) error {
			return runRecover(ctx, a, s, from, o)
		}),
	}
	cmd.Flags().StringVar(&from, "from", "", "`node` whose data is taken (default: the one that has applied most)")
	must(cmd.RegisterFlagCompletionFunc("from", a.completeNodes()))
	o.addFlags(a, cmd)
	return cmd
}

// survivor is what a member has, as `recover` writes it for programs.
type survivor struct {
	Node     string `json:"node"`
	State    string `json:"state"`
	Term     uint64 `json:"term,omitempty"`
	Applied  uint64 `json:"applied,omitempty"`
	Revision int64  `json:"revision,omitempty"`
	DBSize   int64  `json:"dbSize,omitempty"`
	Reason   string `json:"reason,omitempty"`
	// Holds: there may be data that can be taken.
	Holds  bool `json:"holds"`
	Chosen bool `json:"chosen,omitempty"`
}

func runRecover(ctx context.Context, a *app, s store, from string, o orderOptions) error {
	cluster, spec, err := a.theSpec(ctx, s)
	if err != nil {
		return err
	}
	st, err := s.Status(ctx, cluster)
	if err != nil {
		return err
	}
	if st.Etcd.Quorate {
		return refused(&cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("cluster %s has its quorum, and needs no recovery", cluster), Unchanged: true, Try: "ckecli status"})
	}
	all := survivors(st)
	chosen := choose(all, from)
	if chosen == nil {
		e := &cke.Error{Code: cke.CodeDataMissing, What: "no member is left to recover " + cluster + " from", Unchanged: true, Try: "ckecli restore"}
		if slices.ContainsFunc(all, func(v survivor) bool { return v.Holds }) && from == "" {
			e.What, e.Try = "what the members hold cannot be compared: not all of them answer", "ckecli recover once they do, or name one with --from"
		}
		if from != "" {
			e.What = "cannot recover " + cluster + " from " + from
		}
		for _, v := range all {
			e.Facts = append(e.Facts, fmt.Sprintf("%s: %s", v.Node, cmp.Or(v.Reason, v.State)))
		}
		return refused(e)
	}
	chosen.Chosen = true
	if !a.structured() {
		if err := showSurvivors(a.stderr, all, a.colour(a.stderr)); err != nil {
			return err
		}
	}
	r := restoring{app: a, store: s, options: o, cluster: cluster, spec: spec.Wanted(), order: cke.RestoreOrder{Survivor: chosen.Node}}
	r.plan.Notes = append(r.plan.Notes, lossOf(*chosen, st))
	return r.run(ctx, "recovering "+cluster)
}

// survivors are the members and what they have, the furthest first.
func survivors(st cke.Status) []survivor {
	var all []survivor
	for _, m := range st.Members {
		if m.Join == "" {
			continue
		}
		v := survivor{Node: m.Name, State: m.State, Reason: m.Reason, Holds: m.State != "missing" && m.State != "unreachable"}
		if e, ok := st.Etcd.Endpoint(m.Join); ok && e.Problem == "" {
			v.Term, v.Applied, v.Revision, v.DBSize = e.RaftTerm, e.RaftApplied, e.Revision, e.DBSize
		}
		all = append(all, v)
	}
	slices.SortStableFunc(all, func(a, b survivor) int {
		return cmp.Or(cmp.Compare(b.Applied, a.Applied), cmp.Compare(b.Term, a.Term))
	})
	return all
}

// choose picks the survivor: the named one, the only one that holds anything, or the one that has applied most. nil: there
// is none, or what several hold cannot be compared because not all of them answer.
func choose(all []survivor, from string) *survivor {
	var holders []*survivor
	silent := 0
	for i := range all {
		v := &all[i]
		if !v.Holds {
			continue
		}
		if v.Node == from {
			return v
		}
		holders = append(holders, v) // the furthest first
		if v.Applied == 0 {
			silent++
		}
	}
	if from != "" || len(holders) == 0 || len(holders) > 1 && silent > 0 {
		return nil
	}
	return holders[0]
}

func showSurvivors(w io.Writer, all []survivor, colour bool) error {
	t := term.NewTable("MEMBER", "STATE", "TERM", "APPLIED", "REVISION", "DB", "")
	number := func(n uint64) term.Cell {
		if n == 0 {
			return term.Text("-")
		}
		return term.Textf("%d", n)
	}
	for _, v := range all {
		mark, size := "", "-"
		if v.Chosen {
			mark = "taken"
		}
		if v.DBSize > 0 {
			size = dbSize(v.DBSize)
		}
		t.Add(term.Text(v.Node), term.Text(v.State), number(v.Term), number(v.Applied), number(uint64(v.Revision)), term.Text(size), term.Text(mark))
	}
	if err := t.Write(w, colour); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}

// lossOf tells what a recovery can lose. Any quorum that acknowledged a write holds it: only when so many members are left
// that every quorum has one of them, and the furthest is taken, nothing is lost. What a member has that does not answer is not known.
func lossOf(chosen survivor, st cke.Status) string {
	all := survivors(st)
	left, furthest := 0, true
	for _, v := range all {
		if v.Holds {
			left++
			furthest = furthest && (v.Node == chosen.Node || v.Applied > 0 && v.Applied <= chosen.Applied)
		}
	}
	n := len(all)
	if furthest && left >= n-quorum.Of(n)+1 {
		return fmt.Sprintf("%d of %d members are left, and every quorum had one of them; what %s has applied is kept", left, n, chosen.Node)
	}
	return fmt.Sprintf("%d of %d members are left: writes that the others acknowledged and %s has not applied (index %d, revision %d) are lost", left, n, chosen.Node, chosen.Applied, chosen.Revision)
}
