package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"cke"
	"cke/backup"
	"cke/backup/boot"
	"cke/internal/term"
)

// verifyOptions are the options of `backup verify`.
type verifyOptions struct {
	restore bool
	point   pointOptions
	at      backup.At
	image   string
}

func newBackupVerifyCommand(a *app) *cobra.Command {
	var o backupOptions
	var v verifyOptions
	cmd := &cobra.Command{
		Use: "verify", Short: "Read every backup and check it; with --restore, restore it to scratch", Args: arguments(0, 0),
		Long: `Read every object of a cluster's backups in full and check names, digests, contents, and that nothing is missing between them.
The contents of encrypted objects are checked with --key. The exit code is 9 if anything is damaged or missing.

With --restore the newest state is also restored to scratch and compared with the HashKV that etcd reported when it was taken,
and an etcd of the same minor version is started on it: from the programs etcd and etcdutl in PATH, or else from its image
in the Docker engine of this host. The output shows what was done, and what could not be. A success leaves a mark beside the
backups, which 'backup list' shows and 'backup prune' respects. If this host has the required etcd, or --image names one, and it
cannot be started, the command fails: the exit code is 1.

--revision and --time restore another state than the newest.`,
		PreRunE: func(cmd *cobra.Command, _ []string) (err error) {
			if v.at, err = v.point.at(cmd, a.now()); err == nil && !v.restore && v.at != (backup.At{Lineage: v.at.Lineage}) {
				err = usageError{errors.New("--revision and --time choose what --restore restores: add --restore"), cmd.CommandPath()}
			}
			return err
		},
		RunE: a.onBackups(&o, func(ctx context.Context, b *backups, _ []string) error {
			return runBackupVerify(ctx, a, b, v)
		}),
	}
	o.addTarget(cmd)
	o.addKeys(cmd)
	o.addScratch(cmd)
	f := cmd.Flags()
	f.BoolVar(&v.restore, "restore", false, "restore the newest state to scratch, too, and start etcd on it")
	v.point.addFlags(cmd)
	f.Lookup("lineage").Usage = "`name` of one incarnation of the cluster (default: all are checked, and the newest is restored)"
	f.StringVar(&v.image, "image", "", "etcd `image` for --restore (default: the cluster's, or the official one of the backup's version)")
	must(cmd.RegisterFlagCompletionFunc("image", cobra.NoFileCompletions))
	return cmd
}

// verified is what `backup verify` writes for programs.
type verified struct {
	Cluster string          `json:"cluster"`
	Sound   bool            `json:"sound"`
	Checks  []backup.Report `json:"checks"`
	Restore *drilled        `json:"restore,omitempty"`
}

// drilled is what was restored to scratch.
type drilled struct {
	backup.Extracted
	// BootedFrom names the programs of the etcd that was started on it; NotBooted says why none was.
	BootedFrom string `json:"bootedFrom,omitempty"`
	NotBooted  string `json:"notBooted,omitempty"`
}

func runBackupVerify(ctx context.Context, a *app, b *backups, v verifyOptions) error {
	s, err := b.store(ctx)
	if err != nil {
		return err
	}
	out := verified{Cluster: s.Cluster}
	if out.Checks, err = checkLineages(ctx, a, b, s, v.at.Lineage); err != nil {
		return err
	}
	bad := out.damage(b.where)
	if v.restore && bad == nil {
		if out.Restore, err = b.drill(ctx, a, s, v); err != nil {
			return err
		}
	}
	if out.Restore != nil {
		if wrong := out.Restore.PassedOver(); wrong != "" {
			bad = &cke.Error{Code: cke.CodeBackupDamaged, What: wrong,
				Facts: []string{"target " + b.where, fmt.Sprintf("revision %d was restored from %s", out.Restore.Revision, out.Restore.Full)}, Try: "ckecli backup now"}
		}
	}
	out.Sound = bad == nil
	err = a.show(view{data: out, names: nil, table: func(w io.Writer, colour, _ bool) error { return renderVerified(w, out, colour) }})
	if bad != nil {
		return bad
	}
	return err
}

// checkLineages checks one lineage, or all.
func checkLineages(ctx context.Context, a *app, b *backups, s *backup.Store, lineage string) ([]backup.Report, error) {
	defer a.telling("Checking", b.bucket)()
	names := []string{lineage}
	var reports []backup.Report
	if lineage == "" {
		lineages, err := s.Lineages(ctx)
		if err != nil {
			return nil, b.fail(ctx, "verify "+s.Cluster, err)
		}
		if names = names[:0]; len(lineages) == 0 {
			names = append(names, "") // Check says what is missing
		}
		for _, l := range lineages {
			if len(l.Fulls)+len(l.Streams) > 0 {
				names = append(names, l.Name)
				continue
			}
			found, err := s.CheckFiles(ctx, l.Name)
			if err != nil {
				return nil, b.fail(ctx, "verify "+s.Cluster, err)
			}
			if found != nil {
				reports = append(reports, backup.Report{Lineage: l.Name, Findings: found, Opened: true})
			}
		}
	}
	for _, name := range names {
		r, err := s.Check(ctx, name)
		if errors.Is(err, backup.ErrEmpty) && len(names) > 1 {
			r, err = backup.Report{Lineage: name, Findings: []backup.Finding{{Object: s.Cluster + "/" + name, Problem: err.Error()}}}, nil
		}
		if err != nil {
			return nil, b.fail(ctx, "verify "+s.Cluster, err)
		}
		reports = append(reports, r)
	}
	return reports, nil
}

// damage is the error that reports findings; nil without any.
func (v verified) damage(where string) error {
	e := &cke.Error{Code: cke.CodeBackupDamaged, Unchanged: true, Facts: []string{"target " + where}}
	n := 0
	for _, r := range v.Checks {
		if n += len(r.Findings); len(r.Findings) > 0 {
			e.Facts = append(e.Facts, "incarnation "+r.Lineage+": "+lastGood(r.LastGood)+lostSpans(r.Lost))
		}
	}
	if n == 0 {
		return nil
	}
	e.What = fmt.Sprintf("%d objects in the backups of %s are damaged or missing", n, v.Cluster)
	if n == 1 {
		e.What = "an object in the backups of " + v.Cluster + " is damaged or missing"
	}
	return e
}

// lostSpans names the revisions that cannot be restored; "" if there are none.
func lostSpans(lost []backup.Span) string {
	var all []string
	for _, s := range lost {
		all = append(all, s.String())
	}
	if len(all) == 0 {
		return ""
	}
	return "; revisions " + strings.Join(all, ", ") + " cannot be restored"
}

// drill restores to scratch. What it learns about etcd's start is shown even if nothing could be started.
func (b *backups) drill(ctx context.Context, a *app, s *backup.Store, v verifyOptions) (*drilled, error) {
	defer a.telling("Restoring to scratch", b.bucket)()
	trial := &boot.Trial{Image: v.image, Insist: v.image != "", Scratch: b.scratch}
	if trial.Image == "" {
		trial.Image = b.spec.Options.Etcd.Image
	}
	x, err := s.Drill(ctx, v.at, trial.Start)
	if errors.Is(err, boot.ErrNotBooted) && ctx.Err() == nil {
		return nil, &cke.Error{Code: cke.CodeNotBooted, What: "no etcd was started on the restored data", Unchanged: !b.bucket.changed.Load(),
			Facts: []string{"target " + b.where, fmt.Sprintf("revision %d of incarnation %s was restored to scratch; HashKV: %s", x.Revision, x.Lineage, hashText(x)), trial.Why},
			Try:   b.command("verify --restore --image IMAGE")}
	}
	if err != nil {
		return nil, b.fail(ctx, "restore "+s.Cluster+" to scratch", err)
	}
	a.notes(x.Notes)
	return &drilled{x, trial.From, trial.Why}, nil
}

func renderVerified(w io.Writer, v verified, colour bool) error {
	t := term.NewTable("INCARNATION", "OBJECTS", "SIZE", "CHECKED", "RESTORABLE TO", "RESULT")
	findings := term.NewTable("OBJECT", "LAST GOOD", "PROBLEM")
	bad := 0
	for _, r := range v.Checks {
		depth, result := "whole", term.Styled(term.Green, "sound")
		if !r.Opened {
			depth = "digests only: encrypted, no --key"
		}
		if n := len(r.Findings); n > 0 {
			result = term.Styled(term.Red, fmt.Sprintf("%d damaged or missing", n))
		}
		for _, f := range r.Findings {
			findings.Add(term.Text(f.Object), term.Textf("%d", f.LastGood), term.Styled(term.Red, f.Problem))
			bad++
		}
		t.Add(term.Text(r.Lineage), term.Textf("%d", r.Objects), sizeCell(r.Bytes), term.Text(depth), term.Textf("%d", r.LastGood), result)
	}
	if err := t.Write(w, colour); err != nil {
		return err
	}
	for _, r := range v.Checks {
		if r.Unlinked > 0 {
			fmt.Fprintf(w, "Note: %s of incarnation %s come from an earlier release and do not name the ones before them, so a replaced object would not be detected there.\n", cke.Count(r.Unlinked, "delta"), r.Lineage)
		}
	}
	if bad > 0 {
		fmt.Fprintln(w)
		return findings.Write(w, colour)
	}
	if v.Restore == nil {
		return nil
	}
	fmt.Fprintln(w)
	var l term.Labels
	l.Add("Restored", term.Text(fmt.Sprintf("revision %d of incarnation %s to scratch, from full %s and %s", v.Restore.Revision, v.Restore.Lineage, v.Restore.Full, cke.Count(v.Restore.Deltas, "delta"))))
	l.Add("HashKV", term.Text(hashText(v.Restore.Extracted)))
	if v.Restore.Booted != "" {
		l.Add("etcd", term.Text(fmt.Sprintf("%s, from %s, started on it and holds revision %d", v.Restore.Booted, v.Restore.BootedFrom, v.Restore.Revision)))
	} else {
		l.Add("etcd", term.Styled(term.Yellow, "not started: "+v.Restore.NotBooted))
	}
	return l.Write(w, colour)
}
