package op

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"cke"
)

// stoppedLimit bounds how long writes are stopped before the restore is called off.
const stoppedLimit = 20 * time.Second

// storeLast has all that the life before acknowledged in its backups before any of its members is stopped: what is new by now
// is stored while clients continue, then writes are stopped, and what is left is stored. If that cannot be done the restore is
// called off where the operator was told that it would be, and a rule lets the cluster take writes again.
func (r Restore) storeLast(ctx context.Context, e Env) error {
	id, err := r.restoring(ctx, e)
	if err != nil {
		return err
	}
	rest := id.Incarnation.Restore
	if rest.Before == nil {
		return nil // nobody was served
	}
	if err := r.destroyedGone(ctx, e, *id.Incarnation); err != nil {
		return err
	}
	if rest.Order.Survivor != "" {
		return r.ranSince(ctx, e, *id.Incarnation)
	}
	if err := r.stopAbandoned(ctx, e, *id.Incarnation); err != nil {
		return err // clients are still served; they would wait for it once writes are stopped
	}
	last, err := r.lastStored(ctx, e, *id.Incarnation)
	switch {
	case err == nil && last > rest.Last:
		return recordWrites(ctx, e, *id.Incarnation, true, last)
	case err == nil, ctx.Err() != nil:
		return ctx.Err()
	case rest.Last > 0 && !r.mayWrite(ctx, e, *rest):
		return nil // its members were being stopped, and took no write since
	case !rest.Order.Stored:
		e.Log.Warn("no last backup before the restore", "error", err)
		e.Note("not stored: " + err.Error())
		return nil
	}
	return r.callOff(ctx, e, *id.Incarnation, notStored(err))
}

// lastStored stops the writes and returns the newest revision, up to which everything is stored. That they are about to be
// stopped is on record first: whoever cannot continue knows that they have to be allowed again.
func (r Restore) lastStored(ctx context.Context, e Env, inc cke.Incarnation) (int64, error) {
	rest := *inc.Restore
	if e.Backups == nil {
		return 0, errors.New("no backups are taken of this cluster")
	}
	url, err := servingBefore(ctx, e, r.Fence, rest)
	if err != nil {
		return 0, err
	}
	early, err := flush(ctx, e, finalLimit)
	if err != nil {
		return 0, err
	}
	if err := r.stopHolds(ctx, e, rest); err != nil {
		return 0, err
	}
	rest.Stops++
	inc.Restore = &rest
	if err := recordWrites(ctx, e, inc, true, rest.Last); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, stoppedLimit)
	defer cancel()
	if err := e.Etcd.Arm(ctx, url, cke.WriteStop(r.Incarnation, rest.Stops)); err != nil {
		return 0, fmt.Errorf("stop the writes of the cluster: %w", err)
	}
	if err := r.stopHolds(ctx, e, rest); err != nil { // the size is that of the last commit
		return 0, err
	}
	s := e.Etcd.Endpoint(ctx, url)
	if !s.Linearizable || !rest.Replaces(s.ClusterID) {
		return 0, fmt.Errorf("%s does not report the newest revision: %s", url, s.Problem)
	}
	if s.Revision <= rest.Last {
		return rest.Last, nil
	}
	late, err := flush(ctx, e, stoppedLimit)
	if err == nil && late.Revision < s.Revision {
		err = fmt.Errorf("the backups end at revision %d", late.Revision)
	}
	if err != nil {
		return 0, fmt.Errorf("revisions %d to %d are in no backup: %w", early.Revision+1, s.Revision, err)
	}
	e.Note(fmt.Sprintf("all is stored, up to revision %d", s.Revision))
	return s.Revision, nil
}

// stopHolds is an error if a stop of the writes may not hold. A member that this restore stopped already does not answer:
// where its container is known not to run, it counts for nothing.
func (r Restore) stopHolds(ctx context.Context, e Env, rest cke.Restoration) error {
	reply := func(j cke.Join) cke.EndpointStatus { return e.Etcd.Endpoint(ctx, j.ClientURL()) }
	joins := slices.DeleteFunc(serving(r.Fence, rest), func(j cke.Join) bool {
		return !j.StartedAt.IsZero() && reply(j).Version == "" && isFenced(ctx, e, j) == nil
	})
	if why := cke.NoWriteStop(joins, rest.Believed(), reply); why != "" {
		return errors.New(why)
	}
	return nil
}

// mayWrite reports whether the life before serves through a quorum, and took a write after the last one on record, or
// may take one.
func (r Restore) mayWrite(ctx context.Context, e Env, rest cke.Restoration) bool {
	url, err := servingBefore(ctx, e, r.Fence, rest)
	if err != nil {
		return false
	}
	s := e.Etcd.Endpoint(ctx, url)
	return !s.Linearizable || s.Revision > rest.Last || r.stopHolds(ctx, e, rest) != nil
}

// servingBefore is the URL of a member of the life before that serves through a quorum.
func servingBefore(ctx context.Context, e Env, fence []cke.Join, rest cke.Restoration) (string, error) {
	urls, err := allServingBefore(ctx, e, fence, rest)
	if err != nil {
		return "", err
	}
	return urls[0], nil
}

// allServingBefore are the URLs of all of them; there is at least one.
func allServingBefore(ctx context.Context, e Env, fence []cke.Join, rest cke.Restoration) (urls []string, err error) {
	unfit := func(s cke.EndpointStatus) string {
		if s.Linearizable && rest.Replaces(s.ClusterID) {
			return ""
		}
		return "does not serve: " + s.Problem
	}
	err = throughThese(ctx, e, serving(fence, rest), unfit, true, func(url string) error {
		urls = append(urls, url)
		return nil
	})
	if urls == nil {
		return nil, errors.Join(err, errors.New("the cluster has no quorum"))
	}
	return urls, nil
}

// serving are the memberships of the life before that answer and were not put aside.
func serving(fence []cke.Join, rest cke.Restoration) []cke.Join {
	return slices.DeleteFunc(cke.Chosen(fence), func(j cke.Join) bool { return !slices.Contains(rest.Fence, j.ID) })
}

// flush stores what the cluster holds. What no full leads to cannot be restored, and counts as not stored.
func flush(ctx context.Context, e Env, limit time.Duration) (cke.StoredBackup, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s, err := e.Backups.Flush(ctx)
	if b := e.Backups.Status(); err == nil && (b == nil || !b.Connected) {
		err = errors.New("no full backup leads to what is stored")
	}
	if err == nil && s.ID != "" {
		e.Stored(s)
	}
	return s, err
}

// recordWrites stores whether the writes of the life before are stopped, and the newest revision if nothing is written after
// it. It is stored before a member of that life is stopped: whoever continues when some of them are finds no quorum to ask.
func recordWrites(ctx context.Context, e Env, inc cke.Incarnation, stopping bool, last int64) error {
	rest := *inc.Restore
	rest.Stopping, rest.Last, inc.Restore = stopping, last, &rest
	return e.Ledger.UpdateIncarnation(ctx, inc)
}

// stopAbandoned stops what runs of abandoned lives, as CancelRestore does: where the restore is called off, the life before continues.
func (r Restore) stopAbandoned(ctx context.Context, e Env, inc cke.Incarnation) error {
	for _, j := range r.Fence {
		if !inc.WasAbandoned(j.Incarnation) {
			continue
		}
		if err := stopStep(j).Run(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// callOff goes back to the life before, and marks what is called off as over on the nodes of both.
func (r Restore) callOff(ctx context.Context, e Env, inc cke.Incarnation, called *cke.Error) error {
	if err := e.Ledger.CancelRestore(ctx, inc); err != nil {
		return errors.Join(called, err)
	}
	marks := e
	marks.Note = func(string) {} // several at once, and what they have to say is logged
	var wg sync.WaitGroup
	for _, s := range markOver(nodesOf(slices.Concat(r.Fence, r.Founders)), cke.Identity.Over) {
		wg.Go(func() {
			if err := attempt(ctx, marks, s); err != nil {
				e.Log.Warn("what was called off is not marked as over", "node", s.Node, "error", err)
			}
		})
	}
	wg.Wait()
	called.What += ", so the restore was called off"
	if e.Snapshots == nil {
		return called
	}
	if err := e.Snapshots.Forget(ctx, inc.Restore.ID); err != nil {
		e.Log.Warn("cannot remove what was fetched for the restore", "error", err)
	}
	return called
}

// notStored is why a restore ends before a member was stopped.
func notStored(why error) *cke.Error {
	return cke.NotStored(why.Error(), "the cluster continues unchanged")
}
