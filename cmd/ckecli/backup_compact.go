package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"cke"
	"cke/backup"
	"cke/internal/term"
)

// compactOptions are the options of `backup compact`, but for the target and the state.
type compactOptions struct {
	recipients []string
	yes        bool
}

func newBackupCompactCommand(a *app) *cobra.Command {
	var o backupOptions
	var point pointOptions
	var at backup.At
	var c compactOptions
	cmd := &cobra.Command{
		Use: "compact", Short: "Merge a full and its deltas into a new full", Args: arguments(0, 0),
		Long: `Merge a full and the deltas up to a revision, a time, or the newest state, into a new full. No etcd is started for it. The full
and the deltas are kept until "backup prune" deletes them, so nothing can be lost, and no confirmation is required. Repeating
the command makes no other full.

The new full is encrypted for the recipients of the cluster in the store, or for those of --recipient. If none of them is a
recipient of the cluster, and no given key opens the new full, those who read the backups now could not read it: confirm
that, or give --yes.`,
		PreRunE: func(cmd *cobra.Command, _ []string) (err error) {
			at, err = point.at(cmd, a.now())
			return err
		},
		RunE: a.onBackups(&o, func(ctx context.Context, b *backups, _ []string) error {
			return runBackupCompact(ctx, a, b, at, c)
		}),
	}
	o.addTarget(cmd)
	o.addKeys(cmd)
	o.addScratch(cmd)
	point.addFlags(cmd)
	cmd.Flags().StringArrayVar(&c.recipients, "recipient", nil, "age recipient, `age1…`, that the new full is encrypted for; may be repeated")
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "do not ask")
	must(cmd.RegisterFlagCompletionFunc("recipient", cobra.NoFileCompletions))
	return cmd
}

// compacted is what `backup compact` writes for programs.
type compacted struct {
	Cluster  string `json:"cluster"`
	ID       string `json:"id"`
	Revision int64  `json:"revision"`
	// New: it was made now; else it was there already.
	New bool `json:"new"`
}

func runBackupCompact(ctx context.Context, a *app, b *backups, at backup.At, o compactOptions) error {
	s, lineages, err := b.lineages(ctx)
	if err != nil {
		return err
	}
	to, err := b.recipients(o.recipients)
	if err != nil {
		return err
	}
	if encrypted, err := anyEncrypted(ctx, s, lineages); err != nil {
		return b.fail(ctx, "compact "+s.Cluster, err)
	} else if encrypted && len(to) == 0 {
		return &cke.Error{Code: cke.CodeBackupRefused, What: "the backups of " + s.Cluster + " are encrypted, and the new one would not be", Unchanged: true,
			Facts: []string{"name the recipients of the new one with --recipient age1…"}}
	}
	if err := a.confirmRecipients(ctx, b, to, o); err != nil {
		return err
	}
	done := a.telling("Merging", b.bucket)
	p, err := s.Compact(ctx, at, backup.CompactOptions{Recipients: to, Writer: a.whoami()})
	done()
	if err != nil {
		return b.fail(ctx, "compact "+s.Cluster, err)
	}
	out := compacted{Cluster: s.Cluster, ID: p.ID(), Revision: p.Revision, New: true}
	if _, _, err := b.findFull(lineages, p.ID()); err == nil {
		out.New = false
	}
	return a.show(view{data: out, names: []string{out.ID}, table: func(w io.Writer, _, _ bool) error { return renderCompacted(w, out) }})
}

func renderCompacted(w io.Writer, c compacted) error {
	text := "%s holds revision %d already: there is nothing to merge\n"
	if c.New {
		text = "%s holds revision %d, merged from the full before it and its deltas\n"
	}
	_, err := fmt.Fprintf(w, text, term.Clean(c.ID), c.Revision)
	return err
}

// confirmRecipients asks before a full is made that nobody may be able to open who reads the backups now: the daemon and others with
// the keys of the cluster file's recipients, and who has the keys that are given.
func (a *app) confirmRecipients(ctx context.Context, b *backups, to []age.Recipient, o compactOptions) error {
	if len(o.recipients) == 0 {
		return nil
	}
	fmt.Fprintf(a.stderr, "The new full can be opened by %s only; for which recipients the backups before it are encrypted is not known.\n", term.Clean(strings.Join(o.recipients, ", ")))
	known := slices.ContainsFunc(o.recipients, func(r string) bool { return slices.Contains(b.spec.Backup.Encryption.Recipients, r) })
	if known || o.yes || backup.Opens(to, b.identities) {
		return nil
	}
	closed := "No given key opens it"
	if b.spec.Name != "" {
		closed = "None of its recipients is in the cluster file, and no given key opens it"
	}
	return a.confirmYes(ctx, "merging backups for other recipients", closed+": those who read the backups now may not be able to read it. Continue?", "the same command with --yes")
}

// recipients are those of the flags, else of the cluster file.
func (b *backups) recipients(given []string) ([]age.Recipient, error) {
	if len(given) == 0 {
		given = b.spec.Backup.Encryption.Recipients
	}
	to, err := backup.ParseRecipients(given)
	if err != nil {
		return nil, usageError{fmt.Errorf("--recipient: %w", err), "ckecli backup compact"}
	}
	return to, nil
}

// anyEncrypted reports whether a full of the cluster is encrypted, or the newest delta of a run: recipients may have been declared since the last full.
func anyEncrypted(ctx context.Context, s *backup.Store, lineages []backup.Lineage) (bool, error) {
	for _, l := range lineages {
		if slices.ContainsFunc(l.Streams, func(st backup.Stream) bool { return st.Tail.Encryption != "" }) {
			return true, nil
		}
		for _, f := range l.Fulls {
			h, err := backup.ReadHeader(ctx, s.Bucket, f.Place)
			if err != nil && !backup.IsDamage(err) && !errors.Is(err, backup.ErrNotFound) {
				return false, err
			}
			if h.Encryption != "" {
				return true, nil
			}
		}
	}
	return false, nil
}
