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
	"cke/backup"
	"cke/internal/term"
)

// copyOptions are the options of `backup copy`.
type copyOptions struct {
	to        backupOptions
	newerThan string
	last      int
	since     time.Time
	lineage   string
}

func newBackupCopyCommand(a *app) *cobra.Command {
	var o backupOptions
	var c copyOptions
	cmd := &cobra.Command{
		Use: "copy [SRC] DST", Short: "Copy backups to another target", Args: arguments(1, 2),
		Long: `Copy backups from one target to another, as they are stored: no key is needed. SRC and DST are URLs; without SRC it is the target
of --target, or of the cluster in the store. Each object is checked while it is copied, and read back. Objects that DST already
has are never overwritten, so an interrupted copy continues where it stopped. All undamaged objects are copied. The others are
listed: objects that are damaged in SRC or in DST (exit code 9), or that have other content in DST (6).

Without --cluster and --backup-cluster, all clusters in SRC are copied.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.read(cmd, a.now()); err != nil {
				return err
			}
			if len(args) == 2 {
				if o.target != "" {
					return usageError{errors.New("the source is given twice, by --target and as an argument"), cmd.CommandPath()}
				}
				o.target = args[0]
			}
			c.to.target = args[len(args)-1]
			return runBackupCopy(cmd.Context(), a, o, c)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.addTarget(cmd)
	f := cmd.Flags()
	f.StringVar(&c.to.credentials, "to-credentials", "", "credentials `file` for DST, if it is in S3")
	f.StringVar(&c.to.profile, "to-profile", "", "`section` of the credentials file for DST (default: default)")
	f.StringVar(&c.newerThan, "newer-than", "", "only fulls started after this `time`, and what follows them: RFC 3339, or an age such as 12h or 7d")
	f.IntVar(&c.last, "last", 0, "only the newest `N` undamaged fulls of each cluster, and what follows them")
	f.StringVar(&c.lineage, "lineage", "", "only this incarnation of the cluster, by `name`")
	for _, name := range []string{"to-profile", "newer-than", "last", "lineage"} {
		must(cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions))
	}
	return cmd
}

// read checks the options that are more than text.
func (c *copyOptions) read(cmd *cobra.Command, now time.Time) (err error) {
	if c.last < 0 || c.last == 0 && cmd.Flags().Changed("last") {
		return usageError{fmt.Errorf("--last %d: at least one full is to be copied", c.last), cmd.CommandPath()}
	}
	if c.newerThan == "" {
		return nil
	}
	if c.since, err = parseWhen(c.newerThan, now); err != nil {
		return usageError{fmt.Errorf("--newer-than: %w", err), cmd.CommandPath()}
	}
	return nil
}

// copied is what `backup copy` writes for programs, of one cluster.
type copied struct {
	Cluster string `json:"cluster"`
	backup.Copied
}

func runBackupCopy(ctx context.Context, a *app, o backupOptions, c copyOptions) error {
	src, err := a.openBackups(ctx, o)
	if err != nil {
		return err
	}
	defer src.Close()
	dst := &backups{}
	credentials, err := a.givenCredentials(ctx, c.to)
	if err != nil {
		return err
	}
	if err := dst.open(ctx, c.to.target, credentials); err != nil {
		return err
	}
	defer dst.Close()
	names, err := src.clusters(ctx)
	if err != nil {
		return err
	}
	all := []copied{}
	var bad error
	done := a.telling("Copying to "+dst.where, dst.bucket)
	for _, name := range names {
		n, err := copyCluster(ctx, src, dst, name, c)
		if err != nil && len(n.Problems) == 0 {
			done()
			if n.Objects > 0 {
				fmt.Fprintf(a.stderr, "%s: %s copied; run the same command again to continue from there.\n", name, cke.Plural(n.Objects, "object was", "objects were"))
			}
			return err
		}
		all, bad = append(all, copied{name, n}), worse(bad, err)
	}
	done()
	return cmp.Or(a.show(view{data: all, names: names, table: func(w io.Writer, colour, _ bool) error { return renderCopied(w, all, colour) }}), bad)
}

// worse is the error that decides on the exit code: damage before a conflict.
func worse(a, b error) error {
	if a == nil || b != nil && cke.CodeOf(a) != cke.CodeBackupDamaged {
		return b
	}
	return a
}

func renderCopied(w io.Writer, all []copied, colour bool) error {
	t := term.NewTable("CLUSTER", "COPIED", "SIZE", "THERE ALREADY")
	bad := term.NewTable("NOT COPIED", "WHERE", "PROBLEM")
	problems := 0
	for _, c := range all {
		t.Add(term.Text(c.Cluster), term.Textf("%d", c.Objects), sizeCell(c.Bytes), term.Textf("%d", c.Present))
		for _, p := range c.Problems {
			where := "source"
			if p.There {
				where = "destination"
			}
			bad.Add(term.Text(p.Object), term.Text(where), term.Styled(term.Red, p.Problem))
			problems++
		}
	}
	if err := t.Write(w, colour); err != nil || problems == 0 {
		return err
	}
	fmt.Fprintln(w)
	return bad.Write(w, colour)
}

func copyCluster(ctx context.Context, src, dst *backups, name string, c copyOptions) (backup.Copied, error) {
	s := src.of(name)
	lineages, err := s.Lineages(ctx)
	if err != nil {
		return backup.Copied{}, src.fail(ctx, "list the backups of "+name, err)
	}
	since, err := c.begin(ctx, s, lineages)
	if err != nil {
		return backup.Copied{}, src.fail(ctx, "copy "+name, err)
	}
	n, err := s.Copy(ctx, dst.bucket, backup.CopyFilter{Lineage: c.lineage, Since: since})
	if len(n.Problems) > 0 && (backup.IsDamage(err) || errors.Is(err, backup.ErrExists)) {
		return n, notCopied(src, dst, name, n, backup.IsDamage(err))
	}
	side := src
	if failed := new(backup.CopyError); errors.As(err, &failed) && failed.There {
		side = dst
	}
	return n, dst.changedOr(side.fail(ctx, "copy "+name, err))
}

// changedOr corrects an error about the source: what changes is the destination.
func (b *backups) changedOr(err error) error {
	if coded := new(cke.Error); errors.As(err, &coded) {
		coded.Unchanged = !b.bucket.changed.Load()
	}
	return err
}

// notCopied is the error that names what was skipped.
func notCopied(src, dst *backups, name string, n backup.Copied, damage bool) error {
	e := &cke.Error{Code: cke.CodeBackupRefused, What: fmt.Sprintf("%d objects of %s were not copied", len(n.Problems), name),
		Facts: []string{"source " + src.where, "destination " + dst.where}, Unchanged: !dst.bucket.changed.Load()}
	if len(n.Problems) == 1 {
		e.What = "an object of " + name + " was not copied"
	}
	if damage {
		e.Code = cke.CodeBackupDamaged
	}
	here, there := 0, 0
	for _, p := range n.Problems {
		if p.There {
			there++
		} else {
			here++
		}
	}
	if here > 0 {
		e.Facts = append(e.Facts, fmt.Sprintf("damaged in the source: %d; all undamaged objects that were selected were copied", here))
		e.Try = src.command("verify")
	}
	if there > 0 {
		e.Facts = append(e.Facts, fmt.Sprintf("damaged, or with other content, in the destination: %d; nothing is overwritten: move them away there and copy again", there))
	}
	return e
}

// begin is the time of the oldest full to copy; ErrEmpty if the filters leave none. Of the last fulls those count that can be restored from, as far as
// headers and drills show.
func (c copyOptions) begin(ctx context.Context, s *backup.Store, lineages []backup.Lineage) (time.Time, error) {
	var fulls, wrong []backup.Entry
	for _, l := range lineages {
		if c.lineage != "" && l.Name != c.lineage {
			continue
		}
		for _, f := range l.Fulls {
			if !f.Time.Before(c.since) {
				fulls = append(fulls, f)
			}
		}
		if c.last > 0 {
			some, err := s.LeaveOutWrong(ctx, &l)
			if err != nil {
				return time.Time{}, err
			}
			wrong = append(wrong, some...)
		}
	}
	if len(fulls) == 0 {
		what := fmt.Errorf("%w of cluster %s", backup.ErrEmpty, s.Cluster)
		if c.lineage != "" {
			what = fmt.Errorf("%w, incarnation %s", what, c.lineage)
		}
		if !c.since.IsZero() {
			what = fmt.Errorf("%w, newer than %s", what, c.since.UTC().Format(time.RFC3339))
		}
		return time.Time{}, what
	}
	slices.SortFunc(fulls, func(a, b backup.Entry) int { return b.Time.Compare(a.Time) })
	left := c.last
	for _, f := range fulls {
		if left == 0 || slices.Contains(wrong, f) {
			continue
		}
		if _, err := s.Header(ctx, f); err != nil {
			continue // one that is gone needs no copy, and any other one is named where it is copied
		}
		if left--; left == 0 {
			return f.Time, nil
		}
	}
	return c.since, nil
}
