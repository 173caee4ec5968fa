package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"cke"
	"cke/backup"
	"cke/internal/term"
)

func newBackupDeleteCommand(a *app) *cobra.Command {
	var o backupOptions
	var force bool
	var confirm string
	cmd := &cobra.Command{
		Use: "delete ID", Short: "Delete one full backup, and the deltas that no other needs", Args: arguments(1, 1),
		Long: `Delete one full backup, and the deltas that no other full needs. The only full of an incarnation, or the only one that leads to
its newest state, is deleted only with --force: that state can then no longer be restored. The full that takes its place is read
back first; if that is damaged, nothing is deleted. Confirm by typing the cluster's name, or with --confirm NAME.

Backups of an incarnation of which something is signed are deleted only if a key that is trusted signed some of it: on a
management host of the cluster, or with --trust.`,
		RunE: a.onBackups(&o, func(ctx context.Context, b *backups, args []string) error {
			return runBackupDelete(ctx, a, b, args[0], force, confirm)
		}),
		ValidArgsFunction: first(a.completeBackups(&o)),
	}
	o.addTarget(cmd)
	o.addTrust(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "delete even the only full of an incarnation, or of its newest state")
	cmd.Flags().StringVar(&confirm, "confirm", "", "confirm with the cluster's `name`")
	return cmd
}

// deletedBackup is what `backup delete` writes for programs.
type deletedBackup struct {
	Cluster string           `json:"cluster"`
	ID      string           `json:"id"`
	Deleted []backup.Removal `json:"deleted"`
}

func runBackupDelete(ctx context.Context, a *app, b *backups, id string, force bool, confirm string) error {
	s, full, l, err := b.full(ctx, id)
	if err != nil {
		return err
	}
	tried := "delete " + full.ID()
	plan, err := s.PlanDelete(ctx, full.ID(), force)
	if err != nil {
		err = b.fail(ctx, tried, err)
		if coded := new(cke.Error); errors.As(err, &coded) && coded.Code == cke.CodeBackupRefused {
			coded.Try = b.command("delete " + full.ID() + " --force")
		}
		return err
	}
	if confirm == "" {
		fmt.Fprintln(a.stderr, wouldDelete(s.Cluster, b.where, full, l, plan))
	}
	how := b.command(fmt.Sprintf("delete %s --confirm %s", full.ID(), s.Cluster))
	if err := a.confirmName(ctx, "deleting "+full.ID(), s.Cluster, confirm, how); err != nil {
		return err
	}
	done := a.telling("Deleting", b.bucket)
	gone, err := s.Delete(ctx, full.ID(), force)
	done()
	if err != nil && len(gone) > 0 && ctx.Err() == nil {
		fmt.Fprintf(a.stderr, "%s is deleted, with %d of %s; `ckecli backup prune` deletes the others once it can.\n", full.ID(), len(gone)-1, cke.Count(len(plan)-1, "delta"))
	}
	if err != nil {
		return b.fail(ctx, tried, err)
	}
	return a.show(view{data: deletedBackup{s.Cluster, full.ID(), gone}, names: []string{full.ID()}, table: func(w io.Writer, _, _ bool) error {
		_, err := fmt.Fprintf(w, "%s is deleted, with %s, %s\n", full.ID(), cke.Count(len(gone)-1, "delta"), removed(gone))
		return err
	}})
}

// wouldDelete says what deleting a full means.
func wouldDelete(cluster, where string, full backup.Entry, l *backup.Lineage, plan []backup.Removal) string {
	text := fmt.Sprintf("Backup %s of %s in %s, taken %s, and %s would be deleted, %s.", full.ID(), cluster, where,
		full.Time.UTC().Format(time.RFC3339), cke.Count(len(plan)-1, "delta"), removed(plan))
	if len(l.Fulls) == 1 {
		text += " It is the only full of incarnation " + l.Name + ": no state of it could be restored after that."
	}
	return term.Clean(text)
}
