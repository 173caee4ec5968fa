package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cke"
	"cke/backup"
	"cke/internal/term"
)

// pruneOptions are the options of `backup prune`.
type pruneOptions struct {
	keep    cke.Retention
	within  string
	maxAge  string
	dryRun  bool
	confirm string
}

func newBackupPruneCommand(a *app) *cobra.Command {
	var o backupOptions
	var p pruneOptions
	cmd := &cobra.Command{
		Use: "prune", Short: "Delete the backups that the retention does not keep", Args: arguments(0, 0),
		Long: `Delete what the retention does not keep: that of the flags, if any is given, else that of the cluster in the store. A full is
kept if it is one of the last, or the newest of one of the last hours, days, weeks or months (UTC) that have any. All deltas from
the oldest of the last fulls on are kept; --keep-within keeps all that is needed to restore any revision of that time. --max-age
deletes what is older, even if another rule keeps it; alone it keeps all that is younger. The newest full of every incarnation,
and what was last verified, are always kept. The newest full that counts is read back first, and so are the oldest one with all
its deltas and others on whose account something is deleted; if one is damaged, nothing is deleted, and it does not count any
more. Where a delta that stays is damaged or missing, the full stays that leads to what follows it.

Backups of an incarnation of which something is signed are deleted only if a key that is trusted signed some of it: on a
management host of the cluster, or with --trust. The others stay and are named.

The plan is shown first. Confirm it by typing the cluster's name, or with --confirm NAME. What cannot be deleted is skipped, with
what it is restored from: this is no error if the target protects it (an immutable file, an object lock); any other reason
gives exit code 1.`,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			for _, f := range p.rules() {
				if *f.count < 0 {
					return usageError{fmt.Errorf("--%s %d is negative", f.flag, *f.count), cmd.CommandPath()}
				}
			}
			return p.readSpans(cmd)
		},
		RunE: a.onBackups(&o, func(ctx context.Context, b *backups, _ []string) error {
			return runBackupPrune(ctx, a, b, p)
		}),
	}
	o.addTarget(cmd)
	o.addTrust(cmd)
	f := cmd.Flags()
	for _, r := range p.rules() {
		f.IntVar(r.count, r.flag, 0, r.help)
		must(cmd.RegisterFlagCompletionFunc(r.flag, cobra.NoFileCompletions))
	}
	f.StringVar(&p.within, "keep-within", "", "keep what is needed to restore any revision of the last `SPAN`, as 12h or 3d")
	f.StringVar(&p.maxAge, "max-age", "", "keep nothing that is older than `SPAN`, as 12h or 90d")
	for _, name := range []string{"keep-within", "max-age"} {
		must(cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions))
	}
	f.BoolVar(&p.dryRun, "dry-run", false, "show the plan; delete nothing")
	f.StringVar(&p.confirm, "confirm", "", "confirm with the cluster's `name`")
	return cmd
}

// readSpans reads the rules that go by age.
func (p *pruneOptions) readSpans(cmd *cobra.Command) (err error) {
	for _, r := range []struct {
		flag, text string
		into       *cke.Duration
	}{{"keep-within", p.within, &p.keep.Within}, {"max-age", p.maxAge, &p.keep.MaxAge}} {
		if !cmd.Flags().Changed(r.flag) {
			continue
		}
		if *r.into, err = parseSpan(r.text); err == nil && *r.into == 0 {
			err = errors.New("must be greater than zero")
		}
		if err != nil {
			return usageError{fmt.Errorf("--%s: %w", r.flag, err), cmd.CommandPath()}
		}
	}
	if p.keep.MaxAge > 0 && p.keep.Within > p.keep.MaxAge {
		return usageError{errors.New("--max-age is shorter than --keep-within, and would delete what --keep-within keeps"), cmd.CommandPath()}
	}
	return nil
}

type keepRule struct {
	flag, help string
	count      *int
}

func (p *pruneOptions) rules() []keepRule {
	return []keepRule{
		{"keep-last", "keep the newest `N` fulls, and all deltas from the oldest of them on", &p.keep.Last},
		{"keep-hourly", "keep the newest full of each of the last `N` hours that have any", &p.keep.Hourly},
		{"keep-daily", "keep the newest full of each of the last `N` days", &p.keep.Daily},
		{"keep-weekly", "keep the newest full of each of the last `N` weeks", &p.keep.Weekly},
		{"keep-monthly", "keep the newest full of each of the last `N` months", &p.keep.Monthly},
	}
}

// pruned is what `backup prune` writes for programs.
type pruned struct {
	Cluster string `json:"cluster"`
	// Deleted: the plan was carried out.
	Deleted bool `json:"deleted"`
	backup.PrunePlan
}

func runBackupPrune(ctx context.Context, a *app, b *backups, p pruneOptions) error {
	keep := p.keep
	if keep == (cke.Retention{}) {
		keep = b.spec.Backup.Retention
	}
	if keep == (cke.Retention{}) {
		return &cke.Error{Code: cke.CodeBackupRefused, What: "there is no retention, so it is not known what to delete", Unchanged: true,
			Facts: []string{"give --keep-last, --keep-hourly, --keep-daily, --keep-weekly, --keep-monthly, --keep-within or --max-age, or backup.retention in the cluster file"}}
	}
	s, err := b.store(ctx)
	if err != nil {
		return err
	}
	tried := "prune " + s.Cluster
	plan, err := s.Prune(ctx, keep, true)
	if err == nil && len(plan.Keep) == 0 {
		err = fmt.Errorf("%w of cluster %s", backup.ErrEmpty, s.Cluster)
	}
	if err != nil {
		return b.fail(ctx, tried, err)
	}
	out := pruned{Cluster: s.Cluster, PrunePlan: plan}
	if p.dryRun || len(plan.Delete) == 0 {
		return a.showPruned(out)
	}
	if err := a.confirmPrune(ctx, b, out, p); err != nil {
		return err
	}
	done := a.telling("Deleting", b.bucket)
	out.PrunePlan, err = s.Prune(ctx, keep, false)
	done()
	if err != nil && len(out.Failed) == 0 {
		return b.fail(ctx, tried, err)
	}
	out.Deleted = true
	return cmp.Or(a.showPruned(out), out.failure(b.where))
}

// failure is the error that names what could not be deleted; nil without any.
func (p pruned) failure(where string) error {
	if len(p.Failed) == 0 {
		return nil
	}
	e := &cke.Error{Code: cke.CodeTarget, What: fmt.Sprintf("%s of %s could not be deleted", cke.Count(len(p.Failed), "object"), p.Cluster),
		Facts: []string{"target " + where}, Unchanged: len(p.Delete) == 0}
	for _, r := range p.Failed[:min(len(p.Failed), mostFacts)] {
		e.Facts = append(e.Facts, r.Name+": "+r.Reason)
	}
	return e
}

// mostFacts is how many objects an error names; the output has all of them.
const mostFacts = 5

// confirmPrune shows the plan to the user.
func (a *app) confirmPrune(ctx context.Context, b *backups, p pruned, o pruneOptions) error {
	if o.confirm == "" {
		if err := a.planTable(p).Write(a.stderr, a.colour(a.stderr)); err != nil {
			return err
		}
		fmt.Fprintf(a.stderr, "%s of %s in %s would be deleted, %s.\n", cke.Count(len(p.Delete), "object"), p.Cluster, b.where, removed(p.Delete))
	}
	return a.confirmName(ctx, "deleting backups of "+p.Cluster, p.Cluster, o.confirm, "the same command with --confirm "+p.Cluster)
}

func (a *app) showPruned(p pruned) error {
	for _, u := range p.Signed {
		fmt.Fprintf(a.stderr, "note: nothing of incarnation %s is deleted: %s is signed by a key that is not trusted here; if the key is one of this cluster's, repeat with --trust %s\n",
			u.Lineage, u.Object, term.Clean(string(u.Key)))
	}
	for _, r := range p.Damaged {
		fmt.Fprintf(a.stderr, "note: a delta that stays cannot be restored from: %s: %s\n", r.Name, term.Clean(r.Reason))
	}
	names := []string{}
	for _, r := range p.Delete {
		names = append(names, r.Name)
	}
	err := a.show(view{data: p, names: names, table: func(w io.Writer, colour, wide bool) error {
		t := a.planTable(p)
		if wide {
			for _, r := range p.Delete {
				t.Add(term.Text(r.Name), term.Cell{}, sizeCell(r.Size), term.Styled(term.Yellow, "delete"), term.Text(r.Reason))
			}
		}
		return t.Write(w, colour)
	}})
	switch {
	case err != nil:
	case p.Deleted:
		if len(p.Delete) == 0 {
			fmt.Fprintln(a.stderr, "Nothing was deleted.")
		} else {
			fmt.Fprintf(a.stderr, "%s deleted, %s.\n", cke.Plural(len(p.Delete), "object was", "objects were"), removed(p.Delete))
		}
		if n := len(p.Held); n > 0 {
			fmt.Fprintf(a.stderr, "%s, %s: the target protects them, or protected backups are restored from them.\n", cke.Plural(n, "object is kept", "objects are kept"), removed(p.Held))
		}
	case len(p.Delete) == 0:
		fmt.Fprintln(a.stderr, "There is nothing to delete.")
	default:
		fmt.Fprintf(a.stderr, "%s would be deleted, %s; nothing was deleted.\n", cke.Count(len(p.Delete), "object"), removed(p.Delete))
	}
	return err
}

// planTable has a row for every full, in order of their ids, and one for the deltas that go.
func (a *app) planTable(p pruned) *term.Table {
	type row struct {
		full backup.Place
		size int64
		plan term.Cell
		why  string
	}
	var rows []row
	for _, k := range p.Keep {
		why := strings.Join(k.Reasons, ", ")
		if k.PointInTime {
			why += "; with its deltas"
		}
		rows = append(rows, row{k.Full.Place, k.Full.Size, term.Text("keep"), why})
	}
	deltas, size := 0, int64(0)
	for _, r := range p.Delete {
		place, _ := backup.ParsePlace(r.Name)
		if place.Kind == backup.KindDelta {
			deltas, size = deltas+1, size+r.Size
			continue
		}
		rows = append(rows, row{place, r.Size, term.Styled(term.Yellow, "delete"), r.Reason})
	}
	var left []row // deltas that were to go
	for _, r := range slices.Concat(p.Held, p.Failed) {
		place, _ := backup.ParsePlace(r.Name)
		this := row{place, r.Size, term.Styled(term.Red, "stays"), r.Reason}
		if place.Kind == backup.KindDelta {
			left = append(left, this)
		} else {
			rows = append(rows, this)
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(a.full.ID(), b.full.ID()) })
	t := term.NewTable("BACKUP", "TAKEN", "SIZE", "PLAN", "WHY")
	for _, r := range rows {
		t.Add(term.Text(r.full.ID()), a.whenCell(r.full.Time), sizeCell(r.size), r.plan, term.Text(r.why))
	}
	if deltas > 0 {
		t.Add(term.Text(cke.Count(deltas, "delta")), term.Cell{}, sizeCell(size), term.Styled(term.Yellow, "delete"), term.Text("no full that is kept needs them"))
	}
	for _, r := range left {
		t.Add(term.Text(r.full.Name()), term.Cell{}, sizeCell(r.size), r.plan, term.Text(r.why))
	}
	return t
}

func removed(all []backup.Removal) string {
	size := int64(0)
	for _, r := range all {
		size += r.Size
	}
	return term.Size(size)
}
