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
	"cke/internal/words"
	"cke/server/strategy"
)

func newRecoverCommand(a *app) *cobra.Command {
	var o orderOptions
	var from string
	cmd := &cobra.Command{
		Use: "recover", GroupID: groupBackup, Short: "Continue from a surviving member after quorum was lost for good", Args: arguments(0, 0),
		Long: `Recover a cluster whose quorum is lost for good, from the data of a surviving member. It shows what each member has, and takes
the one that has applied most, or that of --from. All members are stopped, a copy is read, and the cluster continues from it as
with "restore": new members, the old volumes are kept, and no original is ever changed.

Writes that the lost members had acknowledged and the survivor had not applied are lost. Try everything first to repair the
lost machines or their disks: cke then continues by itself, and nothing is lost. Newer backups may hold more: see
"ckecli restore".

Machines that do not answer could still run, cut off, with a quorum among themselves: name a machine that is switched off or
wiped for good with --destroyed.`,
		RunE: a.onStore(func(ctx context.Context, s store, _ []string) error {
			return runRecover(ctx, a, s, from, o)
		}),
	}
	cmd.Flags().StringVar(&from, "from", "", "`node` whose data is taken (default: the one that has applied most)")
	must(cmd.RegisterFlagCompletionFunc("from", a.completeNodes()))
	o.addFlags(a, cmd)
	return cmd
}

func runRecover(ctx context.Context, a *app, s store, from string, o orderOptions) error {
	cluster, spec, err := a.theSpec(ctx, s)
	if err != nil {
		return err
	}
	st, err := a.freshStatus(ctx, s, cluster)
	if err != nil {
		return err
	}
	id, err := s.Identity(ctx, cluster)
	if err != nil {
		return err
	}
	if st.Etcd.Quorate {
		return refused(strategy.NeedsNoRecovery(cluster, id, cke.RestoreOrder{Survivor: from, Named: from != ""}))
	}
	if id.Freeze.Active() && id.Freeze.Kind.TwoClusters() && from == "" {
		return refused(&cke.Error{Code: cke.CodeSplitBrain, What: "two clusters were found, and it is not decided which data is right", Unchanged: true, Facts: []string{"name a member with the right data: --from NODE"}, Try: "ckecli cluster evidence " + cluster})
	}
	all := strategy.Survivors(st, id)
	chosen := strategy.ChooseSurvivor(all, from)
	if chosen == nil {
		e := &cke.Error{Code: cke.CodeDataMissing, What: "no member survives to recover " + cluster + " from", Unchanged: true, Try: "ckecli restore"}
		if slices.ContainsFunc(all, func(v strategy.Survivor) bool { return v.Holds }) && from == "" {
			e.What, e.Try = "what the members hold cannot be compared: not all of them answer", "ckecli recover once they do, or name one with --from"
		}
		if from != "" {
			e.What = "cannot recover " + cluster + " from " + from
		}
		for _, v := range all {
			e.Facts = append(e.Facts, fmt.Sprintf("%s: %s", v.Node, cmp.Or(v.Apart, v.Reason, v.State)))
		}
		return refused(e)
	}
	chosen.Chosen = true
	if !a.structured() {
		if err := showSurvivors(a.stderr, all, a.colour(a.stderr)); err != nil {
			return err
		}
	}
	r := restoring{app: a, store: s, options: o, cluster: cluster, spec: spec.Wanted(), order: cke.RestoreOrder{Survivor: chosen.Node, Named: from != "", ShownApplied: chosen.Applied, ShownGeneration: spec.Generation}}
	r.plan.Notes = append(r.plan.Notes, strategy.LossOf(*chosen, all, st.Etcd.Members))
	if inc := id.Incarnation; inc != nil {
		for _, t := range st.KnownTargets(nil) {
			if stored := t.Revisions[inc.ID]; stored > chosen.Revision {
				r.plan.Notes = append(r.plan.Notes, fmt.Sprintf("the backups in %s led to revision %d when they were last seen: if %s has less, a restore from them restores more", t.URL, stored, chosen.Node))
			}
		}
	}
	return r.run(ctx, "recovering "+cluster)
}

// freshStatus returns a status that is not old, or the next one, whatever the clocks. What members had applied hours ago, before they served
// on without each other or failed, says nothing about which of them to continue from.
func (a *app) freshStatus(ctx context.Context, s store, cluster string) (cke.Status, error) {
	st, err := s.Status(ctx, cluster)
	if err != nil || a.age(st).Abs() <= words.StaleAfter { // one from the future is of a clock that is behind here, and may be hours old
		return st, err
	}
	waiting, cancel := context.WithTimeout(ctx, a.silence)
	defer cancel()
	for next := range s.WatchStatus(waiting, cluster) {
		if !next.ObservedAt.Equal(st.ObservedAt) {
			return next, nil
		}
	}
	if ctx.Err() != nil {
		return st, ctx.Err()
	}
	age := term.Age(a.age(st)) + " old"
	if a.age(st) < 0 {
		age = "from " + term.Age(-a.age(st)) + " ahead of this host's clock"
	}
	return st, refused(&cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("what the members of %s have is not known: its status is %s, and no daemon stores another one", cluster, age),
		Unchanged: true, Try: "ckecli status"})
}

func showSurvivors(w io.Writer, all []strategy.Survivor, colour bool) error {
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
			size = words.DBSize(v.DBSize)
		}
		t.Add(term.Text(v.Node), term.Text(v.State), number(v.Term), number(v.Applied), number(uint64(v.Revision)), term.Text(size), term.Text(mark))
	}
	if err := t.Write(w, colour); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}
