package keep

import (
	"context"
	"errors"

	"cke/backup"
)

// errUnread: a plan deletes something on account of fulls that are not known to be whole.
var errUnread = errors.New("not read back")

// pruneOnWhole prunes. The fulls on account of which others go are read whole before, unless that was done: a process may have been killed
// after it uploaded one and before it read that back. Where one is damaged, nothing is pruned, another full is taken, and this one
// counts for nothing from then on, also once another session or daemon prunes: that is recorded in the target.
func (w *chores) pruneOnWhole(ctx context.Context) (backup.PrunePlan, error) {
	for {
		var unread []backup.Entry
		w.store.Approve = func(p backup.PrunePlan) error {
			if unread = w.unread(p); len(unread) > 0 {
				return errUnread
			}
			return nil
		}
		plan, err := w.store.Prune(ctx, w.l.backup.Retention, false)
		if !errors.Is(err, errUnread) {
			return plan, err
		}
		for _, full := range unread { // while the target is not locked for deletion
			if err := w.store.ReadBack(ctx, full); backup.IsDamage(err) {
				return plan, errors.Join(err, w.store.MarkDamaged(ctx, full, err), w.judge(ctx), w.taker.Replace(ctx, full))
			} else if err != nil {
				return plan, err
			}
			w.l.mu.Lock()
			w.l.whole[full.ID()] = true
			w.l.mu.Unlock()
		}
	}
}

// unread are the newest fulls that a plan keeps of the lineages of which it deletes something, where they are not known to be whole.
func (w *chores) unread(plan backup.PrunePlan) (fulls []backup.Entry) {
	newest := map[string]backup.Entry{}
	for _, k := range plan.Keep {
		if k.PointInTime { // one that counts for nothing is not kept with deltas
			newest[k.Full.Lineage] = k.Full
		}
	}
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	asked := map[string]bool{}
	for _, gone := range plan.Delete {
		p, _ := backup.ParsePlace(gone.Name)
		full, there := newest[p.Lineage]
		if there && !asked[p.Lineage] && !w.l.whole[full.ID()] {
			fulls = append(fulls, full)
		}
		asked[p.Lineage] = true
	}
	return fulls
}
