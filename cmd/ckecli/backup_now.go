package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"cke"
	"cke/backup"
	"cke/internal/term"
)

// nowOptions are the options of `backup now`.
type nowOptions struct {
	delta, noWait bool
}

func newBackupNowCommand(a *app) *cobra.Command {
	var o nowOptions
	cmd := &cobra.Command{
		Use: "now", Short: "Take a full backup now, or store the changes made so far", Args: arguments(0, 0),
		Long: `Ask the leader daemon to take a full backup that starts after the command, and wait until it is stored and checked. With
--delta all changes made before the command are stored instead, which takes a moment.

A backup waits only for its target, also in a paused cluster. Any other operation on the cluster comes first: it interrupts
the backup, which then starts again from the start.`,
		Example: "  ckecli backup now\n  ckecli backup now --delta",
		RunE: a.onStore(func(ctx context.Context, s store, _ []string) error {
			return runBackupNow(ctx, a, s, o)
		}),
	}
	cmd.Flags().BoolVar(&o.delta, "delta", false, "store the changes made so far instead of a full backup")
	cmd.Flags().BoolVar(&o.noWait, "no-wait", false, "return once the leader is asked, with the task's id")
	return cmd
}

// backupDone is what `backup now` writes for programs.
type backupDone struct {
	taskDone
	Backup *cke.StoredBackup `json:"backup,omitempty"`
}

func runBackupNow(ctx context.Context, a *app, s store, o nowOptions) error {
	cluster, err := a.theCluster(ctx, s)
	if err != nil {
		return err
	}
	subject := ""
	if o.delta {
		subject = string(backup.KindDelta)
	}
	task := a.newTask(cke.TaskBackup, "", subject)
	if o.noWait {
		return a.runTask(ctx, s, taskRun{cluster: cluster, task: task, noWait: true})
	}
	begun := a.now()
	r, err := a.followTask(ctx, s, cluster, task)
	if err != nil {
		return err
	}
	took := a.now().Sub(begun)
	d := backupDone{taskDone{cluster, task.ID, r.ID, took.Seconds()}, r.Backup}
	name := task.ID
	if r.Backup != nil && r.Backup.ID != "" {
		name = r.Backup.ID
	}
	return a.showLine(d, name, storedText(r.Backup, term.Took(took)))
}

// storedText is a stored backup in a line.
func storedText(b *cke.StoredBackup, took string) string {
	switch {
	case b == nil:
		return "stored in " + took
	case b.ID == "":
		return fmt.Sprintf("nothing has changed since revision %d; all of it is stored", b.Revision)
	case b.Kind == string(backup.KindDelta):
		return fmt.Sprintf("changes up to revision %d are stored, %s, in %s", b.Revision, term.Size(b.Size), took)
	}
	return fmt.Sprintf("%s  revision %d, %s, in %s", b.ID, b.Revision, term.Size(b.Size), took)
}
