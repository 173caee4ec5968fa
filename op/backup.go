package op

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cke"
)

// backupLimit bounds a backup that is asked for; lastBackupLimit the one before a change, which holds the change up.
const (
	backupLimit     = time.Hour
	lastBackupLimit = 30 * time.Second
)

// Backup stores a full, or all changes made so far.
type Backup struct {
	// Delta: store only the changes.
	Delta bool
}

var _ Operation = Backup{}

// Name implements Operation.
func (Backup) Name() string { return "backup" }

// Targets implements Operation.
func (Backup) Targets() []string { return nil }

// Stages implements Operation.
func (b Backup) Stages() []Stage {
	name := "full"
	if b.Delta {
		name = "delta"
	}
	return []Stage{{{Name: name, Limit: backupLimit, Run: b.take}}}
}

func (b Backup) take(ctx context.Context, e Env) error {
	if e.Backups == nil {
		return &cke.Error{Code: cke.CodeNotBackedUp, What: "no backups are taken of " + e.Cluster, Unchanged: true}
	}
	store := e.Backups.Full
	if b.Delta {
		store = e.Backups.Flush
	}
	stored, err := store(ctx)
	if err != nil {
		return err
	}
	e.Stored(stored)
	return nil
}

// LastBackup returns the first stage of an operation that could cost data if it fails: it stores all that the cluster
// holds in its backup target, and changes nothing else.
//
// A target that cannot be reached delays the operation for at most lastBackupLimit: if the backups in it are fresh
// (cke.BackupStatus.Stale), the operation continues and the record says so; else it fails with CodeStaleBackup. A
// cluster without a target has no last backup.
func LastBackup() Stage {
	return Stage{{Name: "last-backup", Limit: lastBackupLimit + DefaultStepLimit, Run: lastBackup}}
}

func lastBackup(ctx context.Context, e Env) error {
	if e.Backups == nil {
		e.Note("no backups are taken of this cluster")
		return nil
	}
	try, cancel := context.WithTimeout(ctx, lastBackupLimit)
	defer cancel()
	stored, err := e.Backups.Flush(try)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, cke.ErrNoTarget):
		e.Note("the cluster file declares no backup target")
		return nil
	}
	stale := "the status of the backups is unknown"
	s := e.Backups.Status()
	if s != nil {
		stale = s.Stale(e.Now())
	}
	switch {
	case stale != "":
		facts := []string{stale}
		if err != nil {
			facts = append(facts, err.Error())
		}
		return &cke.Error{Code: cke.CodeStaleBackup, What: "there is no fresh backup to fall back on", Facts: facts, Unchanged: true, Try: "ckecli status"}
	case err != nil:
		e.Note(fmt.Sprintf("not stored: %v; the existing backup is fresh, up to revision %d", err, s.Revision))
	default:
		e.Note(fmt.Sprintf("all is stored, up to revision %d", stored.Revision))
	}
	return nil
}
