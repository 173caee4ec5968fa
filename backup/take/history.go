package take

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke/backup"
)

// point is how far a history is known: the newest revision in the target, and what identifies the history there.
type point struct {
	revision int64
	mark     string // of all changes of the newest revision of which they are known, since fulls do not tell them; "": of none
	marked   int64  // that revision
	index    uint64 // of raft's log, which the cluster had reached by then; 0: unknown
}

// reached is p, or what a header adds to it.
func (p point) reached(h backup.Header) point {
	p = p.marks(h.Last, h.Mark)
	p.index = max(p.index, h.RaftIndex)
	return p
}

// marks is p, or what a revision adds to it, with the mark of its changes if that is known.
func (p point) marks(revision int64, mark string) point {
	p.revision = max(p.revision, revision)
	if mark != "" && revision >= p.marked {
		p.mark, p.marked = mark, revision
	}
	return p
}

// compare returns an error that is ErrDiverged if the cluster's history is another one than the one that reached a point: a cluster's
// revision and log never go back, and the changes of a revision never become others. now is its revision.
func (k *cluster) compare(ctx context.Context, p point, now int64) error {
	if p.revision > now {
		return fmt.Errorf("%w: it is at revision %d, its backups reach %d", ErrDiverged, now, p.revision)
	}
	if err := k.reaches(ctx, p.index); err != nil || p.mark == "" || p.marked < 2 {
		return err
	}
	mark, err := k.mark(ctx, p.marked)
	if err == nil && mark != "" && mark != p.mark {
		err = fmt.Errorf("%w: its changes of revision %d differ from those in its backups", ErrDiverged, p.marked)
	}
	return err
}

// reaches returns an error that is ErrDiverged if raft's log ends before an index. A member that lags is asked for a read by
// quorum, after which it has applied all that was committed.
func (k *cluster) reaches(ctx context.Context, index uint64) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	all, failed := k.look(ctx)
	for _, c := range all {
		if c.status.RaftAppliedIndex >= index {
			return nil
		}
	}
	for _, c := range all {
		if c.status.IsLearner {
			continue
		}
		caughtUp, err := k.caughtUp(ctx, c.endpoint)
		switch {
		case err != nil:
			failed = errors.Join(failed, err)
		case caughtUp >= index:
			return nil
		default:
			return fmt.Errorf("%w: its Raft log ends at index %d, but was at %d when it was backed up", ErrDiverged, caughtUp, index)
		}
	}
	return fmt.Errorf("ask for the end of the Raft log: %w", errors.Join(failed, errors.New("no voter answers")))
}

// caughtUp has a member read by quorum, after which it has applied all that was committed, and returns how far that is.
func (k *cluster) caughtUp(ctx context.Context, endpoint string) (uint64, error) {
	cli, err := k.member(endpoint)
	if err != nil {
		return 0, err
	}
	if _, err := cli.Get(ctx, "\x00", clientv3.WithCountOnly()); err != nil {
		return 0, err
	}
	s, err := cli.Status(ctx, endpoint)
	if err != nil {
		return 0, err
	}
	return s.RaftAppliedIndex, nil
}

// mark is that of a revision in the cluster; "": its changes were compacted. The watch starts one revision earlier: where it may, no
// compaction has touched the changes asked for, deletions among them.
func (k *cluster) mark(ctx context.Context, revision int64) (string, error) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), requestTimeout)
	defer cancel()
	cli := cmp.Or(k.watching.Load(), k.all)
	for w := range cli.Watch(withOneStream(ctx), "\x00", clientv3.WithFromKey(), clientv3.WithRev(revision-1), clientv3.WithFragment()) {
		if w.CompactRevision > 0 || errors.Is(w.Err(), rpctypes.ErrCompacted) {
			return "", nil
		}
		if err := w.Err(); err != nil {
			return "", fmt.Errorf("ask for the changes of revision %d: %w", revision, err)
		}
		var changes []backup.Change
		reached := false
		for _, e := range w.Events {
			reached = reached || e.Kv.ModRevision >= revision
			if e.Kv.ModRevision == revision {
				changes = append(changes, changeOf(e))
			}
		}
		if reached {
			return backup.MarkOf(changes), nil
		}
	}
	return "", fmt.Errorf("ask for the changes of revision %d: %w", revision, context.Cause(ctx))
}

// changeOf is what an event of a watch says.
func changeOf(e *clientv3.Event) backup.Change {
	return backup.Change{
		Key: e.Kv.Key, Value: e.Kv.Value, CreateRevision: e.Kv.CreateRevision, ModRevision: e.Kv.ModRevision,
		Version: e.Kv.Version, Lease: e.Kv.Lease, Delete: e.Type == mvccpb.Event_DELETE,
	}
}

// refuseHistory returns nil unless the cluster's history is another one than that of the lineage's backups, up to a point. That is
// recorded in the target, and ends Run: once the cluster has overtaken its backups, nothing else might show it any more.
func (t *Taker) refuseHistory(ctx context.Context, k *cluster, p point, now int64) error {
	err := k.compare(ctx, p, now)
	if !errors.Is(err, ErrDiverged) {
		return err
	}
	if guard := t.guard(); guard != nil {
		return guard
	}
	found := backup.Divergence{At: t.c.Now().UTC(), Revision: p.revision, Why: err.Error()}
	if put := t.c.store().MarkDiverged(ctx, t.c.Lineage, found); put != nil {
		t.c.Log.Warn("the different history could not be recorded", "error", put)
	}
	return &stopError{err}
}

// wasRefused returns an error that ends Run if another history was recorded. doubt: it was, in a record that any client may have made: the
// histories are compared, and nothing of what is there is continued.
func (t *Taker) wasRefused(ctx context.Context) (doubt bool, err error) {
	d, trusted, err := t.c.store().Diverged(ctx, t.c.Lineage)
	switch {
	case err != nil:
		return false, fmt.Errorf("read the target: %w", err)
	case d == nil:
		return false, nil
	case t.c.Signer != nil && !trusted:
		t.c.Log.Warn("a record of a different history is not signed: the backups start over", "found", d.At, "why", d.Why)
		return true, nil
	}
	return false, &stopError{fmt.Errorf("%w: found at %s, when the backups reached revision %d: %s", ErrDiverged, d.At.Format("2006-01-02T15:04:05Z"), d.Revision, d.Why)}
}

// known is how far the history of this session is known.
func (s *session) known() point {
	return s.at.known.marks(s.underway.revision, s.underway.mark).marks(s.builder.Last(), s.builder.Mark())
}
