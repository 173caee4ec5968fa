package keep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/boot"
)

// verifyDue: counted from the last success; before the first one from when this line started. At once while the last one left trouble.
func (w *chores) verifyDue(now time.Time) bool {
	if w.l.drills == nil {
		return false
	}
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	if w.l.newest.Revision == 0 && !w.l.wrong { // a drill may prove that one is correct
		return false
	}
	if _, bad := w.l.troubles["verify"]; bad {
		return true
	}
	next := w.l.after(w.l.drills, w.l.verifiedAt(), now)
	return !next.IsZero() && !next.After(now)
}

// verify restores the newest state to scratch, compares it, and starts an etcd on it if this
// host has one.
func (w *chores) verify(ctx context.Context) error {
	if err := w.unlock(ctx, len(w.l.backup.Encryption.Recipients) > 0); err != nil {
		return err
	}
	begun := time.Now()
	_, spec := w.l.noted()
	trial := boot.Trial{Image: spec.Cluster.Options.Etcd.Image, Scratch: w.store.Scratch}
	x, err := w.store.Drill(ctx, backup.At{Lineage: w.l.lineage}, trial.Start)
	if errors.Is(err, backup.ErrKey) {
		return fmt.Errorf("%w: name the public key of secret_key_file among backup.encryption.recipients, or verify elsewhere with `ckecli backup verify --restore --key FILE`", err)
	}
	if err == nil {
		err = w.restored(x, trial.Why, time.Since(begun))
	}
	if err == nil {
		w.renewed = false
	}
	return w.renew(ctx, err)
}

// renew takes a full after damage was found, once until a drill or a merge succeeds: a full of now has all that the cluster still holds, whatever is lost of its past.
func (w *chores) renew(ctx context.Context, found error) error {
	if !backup.IsDamage(found) && !errors.Is(found, backup.ErrNotServed) && cke.CodeOf(found) != cke.CodeBackupDamaged {
		return found
	}
	if err := w.judge(ctx); err != nil {
		found = errors.Join(found, err)
	}
	if w.renewed {
		return found
	}
	if _, err := w.taker.Full(ctx); err != nil {
		return errors.Join(found, err)
	}
	w.renewed = true
	return found
}

// restored takes in that a drill restored the newest state. It returns as an error that the newest full is of no use for that.
func (w *chores) restored(x backup.Extracted, notBooted string, took time.Duration) error {
	w.l.c.Log.Info("backup restored to scratch and verified", "cluster", w.l.c.Cluster, "revision", x.Revision, "hash", x.Compared != nil, "etcd", cmp.Or(x.Booted, "not started: "+notBooted), "notes", x.Notes, "took", took)
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	defer w.l.news()
	mark := x.Verified(w.l.c.Now())
	w.l.verified = verifiedOf(mark)
	w.l.whole.Add(x.Full)
	w.l.verified.NotBooted = notBooted // the mark in the target does not record it
	if wrong := x.PassedOver(); wrong != "" {
		return &cke.Error{Code: cke.CodeBackupDamaged, What: fmt.Sprintf("%s; revision %d was restored from %s", wrong, x.Revision, x.Full)}
	}
	w.l.drilled = mark.At
	return nil
}
