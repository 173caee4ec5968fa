package keep

import "context"

// compareOnly compares what lies beside the backups with the store until ctx ends or the target cannot be used.
func (l *line) compareOnly(ctx context.Context) error {
	t, err := l.c.Open(ctx, l.backup.Target)
	if err != nil {
		return err
	}
	defer t.Close()
	signer, err := l.signer(ctx)
	if err != nil {
		return err
	}
	store := l.storeIn(t, "", signer)
	w := &chores{l: l, store: store, files: store}
	w.all = []*chore{{name: "older", due: w.olderDue, awaited: true, do: func(ctx context.Context) error {
		l.mu.Lock()
		known := l.target
		l.mu.Unlock()
		if err := store.HasMarker(ctx, known); err != nil {
			return err
		}
		return w.compareBeside(ctx)
	}}}
	w.run(ctx)
	return nil
}

// inherit takes over what is known of what lies beside the same backups.
func (l *line) inherit(was *line) {
	if was == nil || was.lineage != l.lineage || was.backup.Target != l.backup.Target {
		return
	}
	was.mu.Lock()
	defer was.mu.Unlock()
	l.compared, l.lacks, l.had = was.compared, was.lacks, was.had
}
