package keep

import (
	"context"
	"errors"

	"cke/backup"
)

// pruneOnWhole prunes. Where a full is damaged on account of which others were to go, nothing is pruned, and another full is taken.
func (w *chores) pruneOnWhole(ctx context.Context) (backup.PrunePlan, error) {
	plan, err := w.store.Prune(ctx, w.l.backup.Retention, false)
	if bad := new(backup.NotWholeError); errors.As(err, &bad) {
		err = errors.Join(err, w.judge(ctx), w.taker.Replace(ctx, bad.Full))
	}
	return plan, err
}
