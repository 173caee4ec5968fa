package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cke"
	"cke/backup"
	"cke/internal/term"
)

// pointOptions say which state of a cluster is required; none of them: the newest.
type pointOptions struct {
	revision int64
	time     string
	lineage  string
}

func (o *pointOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Int64Var(&o.revision, "revision", 0, "the state at this revision (default: the newest)")
	f.StringVar(&o.time, "time", "", "the state at this `time`: RFC 3339, or an age such as 10m or 3d")
	f.StringVar(&o.lineage, "lineage", "", "`name` of the incarnation of the cluster (default: the newest)")
	for _, name := range []string{"revision", "time", "lineage"} {
		must(cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions))
	}
}

// at reads the options.
func (o pointOptions) at(cmd *cobra.Command, now time.Time) (backup.At, error) {
	at := backup.At{Lineage: o.lineage, Revision: o.revision}
	byRevision := cmd.Flags().Changed("revision")
	switch {
	case byRevision && o.time != "":
		return at, usageError{errors.New("--revision and --time cannot be used together"), cmd.CommandPath()}
	case byRevision && o.revision <= 0:
		return at, usageError{fmt.Errorf("--revision %d: revisions start at 1", o.revision), cmd.CommandPath()}
	case o.time == "":
		return at, nil
	}
	t, err := parseWhen(o.time, now)
	if err != nil {
		return at, usageError{fmt.Errorf("--time: %w", err), cmd.CommandPath()}
	}
	at.Time = t
	return at, nil
}

// parseWhen reads a time, or a span of time before now, as 90s, 10m, 12h, 3d.
func parseWhen(s string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	d, err := parseSpan(s)
	if err != nil {
		return time.Time{}, fmt.Errorf("invalid time %q: want a time such as %s, or a duration such as 10m or 3d", s, now.UTC().Format(time.RFC3339))
	}
	return now.Add(-time.Duration(d)), nil
}

// parseSpan reads a span of time, as 90s, 10m, 12h, 3d.
func parseSpan(s string) (cke.Duration, error) {
	const most = 36500 // days
	if n, err := strconv.ParseUint(strings.TrimSuffix(s, "d"), 10, 32); err == nil && strings.HasSuffix(s, "d") && n <= most {
		return cke.Duration(n) * cke.Duration(24*time.Hour), nil
	}
	d, err := cke.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("invalid duration %q: want a duration such as 10m, 12h or 3d", s)
	}
	return d, nil
}

func newBackupExtractCommand(a *app) *cobra.Command {
	var o backupOptions
	var point pointOptions
	var at backup.At
	options := backup.ExtractOptions{CheckHash: true}
	cmd := &cobra.Command{
		Use: "extract FILE", Short: "Write the state at a revision or time to a snapshot file", Args: arguments(1, 1),
		Long: `Write the state of a cluster at a revision, at a time, or the newest one, to FILE, which must not exist yet: a snapshot as etcd
itself makes it, for "etcdutl snapshot restore". Everything is read and checked before FILE is created. If something is damaged
or missing, FILE is not created and the last good revision is shown (exit code 9); --allow-partial accepts it.`,
		PreRunE: func(cmd *cobra.Command, args []string) (err error) {
			if args[0] == "-" {
				return usageError{errors.New("a snapshot is not written to standard output, because it is checked before its file is created: name a file, or ./- for a file named -"), cmd.CommandPath()}
			}
			at, err = point.at(cmd, a.now())
			return err
		},
		RunE: a.onBackups(&o, func(ctx context.Context, b *backups, args []string) error {
			return runBackupExtract(ctx, a, b, at, args[0], options)
		}),
	}
	o.addTarget(cmd)
	o.addKeys(cmd)
	point.addFlags(cmd)
	cmd.Flags().BoolVar(&options.AllowPartial, "allow-partial", false, "if objects are damaged or missing, accept the last good revision")
	addIgnoreHash(cmd, &options.IgnoreHash)
	return cmd
}

func addIgnoreHash(cmd *cobra.Command, ignore *bool) {
	cmd.Flags().BoolVar(ignore, "ignore-hash", false, "accept a state whose hash differs from the one that a member reported, if all full backups that lead to it agree")
}

// extracted is what `backup extract` writes for programs.
type extracted struct {
	Cluster string `json:"cluster"`
	File    string `json:"file"`
	backup.Extracted
	// Damage says why the result ends before the requested state.
	Damage string `json:"damage,omitempty"`
}

func runBackupExtract(ctx context.Context, a *app, b *backups, at backup.At, file string, o backup.ExtractOptions) error {
	if _, err := os.Lstat(file); err == nil {
		return &cke.Error{Code: cke.CodeBackupRefused, What: file + " already exists", Unchanged: true, Facts: []string{"name a new file: nothing is overwritten"}}
	}
	s, err := b.store(ctx)
	if err != nil {
		return err
	}
	done := a.telling("Extracting", b.bucket)
	x, err := s.Extract(ctx, at, file, o)
	done()
	if err != nil {
		return b.failExtract(ctx, s.Cluster, file, err)
	}
	out := extracted{Cluster: s.Cluster, File: file, Extracted: x}
	if x.Damage != nil {
		out.Damage = fmt.Sprintf("%s: %s; %s", x.Damage.Object, damageText(x.Damage), lastGood(x.Damage.LastGood))
		fmt.Fprintf(a.stderr, "warning: %s; the requested state is later than the revision that was written\n", term.Clean(out.Damage))
	}
	a.notes(x.Notes)
	fmt.Fprintf(a.stderr, "To restore it, on each node: %s\n", restoreHint(file))
	return a.show(view{data: out, names: []string{file}, table: func(w io.Writer, colour, _ bool) error {
		return renderExtracted(w, out, colour)
	}})
}

// notes writes what came of reading backups and is no error.
func (a *app) notes(notes []string) {
	for _, note := range notes {
		fmt.Fprintf(a.stderr, "note: %s\n", term.Clean(note))
	}
}

// failExtract adds to damage how to accept less, and distinguishes a file that cannot be written from a target that fails.
func (b *backups) failExtract(ctx context.Context, cluster, file string, err error) error {
	if here := new(backup.LocalError); errors.As(err, &here) && ctx.Err() == nil {
		e := &cke.Error{Code: cke.CodeBackupRefused, What: "cannot write " + file, Err: plainError(here.Err), Unchanged: true}
		dir := filepath.Dir(file)
		switch info, err := os.Stat(dir); {
		case errors.Is(err, fs.ErrNotExist):
			e.Facts, e.Try = []string{"there is no directory " + dir + " on this host; the backups are not at fault"}, "mkdir -p "+shellQuote(dir)
		case err == nil && !info.IsDir():
			e.Facts = []string{dir + " is not a directory; the backups are not at fault"}
		default:
			e.Facts = []string{"the file is written on this host, and needs room for the whole database; the backups are not at fault"}
		}
		return e
	}
	var damage *backup.DamagedError
	var coded *cke.Error
	partly := errors.As(err, &damage) && damage.LastGood > 0
	err = b.fail(ctx, "extract "+cluster, err)
	if partly && errors.As(err, &coded) {
		coded.Try = b.command("extract " + shellQuote(file) + " --allow-partial")
	}
	return err
}

// restoreHint is how etcd's own tool makes a data directory of the file. Clients must see that history went back.
func restoreHint(file string) string {
	return "etcdutl snapshot restore " + shellQuote(file) + " --data-dir DIR --bump-revision 1000000000 --mark-compacted …"
}

func renderExtracted(w io.Writer, x extracted, colour bool) error {
	var l term.Labels
	l.Add("File", term.Text(fmt.Sprintf("%s (%s)", x.File, term.Size(x.Size))))
	l.Add("Cluster", term.Text(x.Cluster+", incarnation "+x.Lineage))
	l.Add("Revision", term.Textf("%d", x.Revision))
	l.Add("Received", term.Text(x.End.UTC().Format(time.RFC3339)))
	l.Add("Made of", term.Text(fmt.Sprintf("full %s and %s with %s", x.Full, cke.Count(x.Deltas, "delta"), cke.Count(x.Records, "change"))))
	l.Add("HashKV", term.Text(hashText(x.Extracted)))
	if x.Damage != "" {
		l.Add("Damage", term.Styled(term.Red, x.Damage))
	}
	return l.Write(w, colour)
}

// hashText reports whether a state was compared with etcd's own hash of it.
func hashText(x backup.Extracted) string {
	switch h := x.Compared; {
	case x.HashIgnored:
		return "not equal to the cluster's, which was ignored"
	case h == nil:
	case h.Revision == x.Revision:
		return fmt.Sprintf("%d, equal to the cluster's at this revision", h.Hash)
	default:
		return fmt.Sprintf("%d, equal to the cluster's at revision %d, the newest that it was recorded for", h.Hash, h.Revision)
	}
	return "none was recorded for this revision"
}
