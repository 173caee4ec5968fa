package keep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/take"
)

// storedWhole takes in that a full was stored.
func (l *line) storedWhole(id string) {
	if l.readsBack.Load() {
		l.whole.Add(id)
	}
}

// notify records what the Taker reports. It must not block.
func (l *line) notify(e take.Event) {
	switch e.Type {
	case take.FullStored:
		full := storedOf(e.Header)
		l.c.Log.Info("full backup stored", "cluster", l.c.Cluster, "id", full.ID, "revision", full.Revision, "size", full.Size)
		l.mu.Lock()
		l.newest, l.events, l.bytes, l.pruneDue = full, 0, 0, l.backup.Retention != cke.Retention{}
		l.added(full)
		l.problem, l.gap, l.lost = nil, false, ""
		l.storedWhole(full.ID)
		l.reached, l.reachedAt = max(full.Revision, l.delta.Revision), e.Header.End
		if l.taker != nil { // what the survey believed may have been anybody's
			l.reached = max(l.reached, l.taker.Status().Revision)
		}
		l.mu.Unlock()
		l.news()
		l.rouse()
	case take.Restorable:
		l.news()
	case take.FullFound:
		l.found(e.Header)
	case take.DeltaStored:
		l.mu.Lock()
		l.delta = storedOf(e.Header)
		if l.taker != nil && l.taker.Status().Connected {
			l.reached, l.reachedAt = e.Header.Last, e.Header.End
		}
		l.events += e.Header.Records
		l.bytes += e.Header.Size
		l.well("", take.TargetFailed, take.ClusterFailed, take.Overflow, take.Faulty)
		l.mu.Unlock()
		l.rouse()
	case take.FullFailed, take.Overflow, take.TargetFailed, take.Faulty:
		l.fail(e.Type, cke.CodeTarget, e.Err)
		if errors.Is(e.Err, backup.ErrLost) {
			l.ask()
		}
	case take.ClusterFailed:
		l.fail(e.Type, cke.CodeMemberSilent, e.Err)
		l.rouse()
	case take.Gap:
		l.c.Log.Warn("backups: changes are missing, a full follows", "cluster", l.c.Cluster, "from", e.From, "to", e.To)
		l.fail(e.Type, cke.CodeStaleBackup, errors.Join(fmt.Errorf("changes %d to %d are in no delta", e.From, e.To), e.Err))
	case take.Bogus:
		l.suffer("objects", e.Damage)
	case take.TargetBack, take.Contended, take.AuthChanged:
		l.c.Log.Info("backups: "+string(e.Type), "cluster", l.c.Cluster)
	}
}

// found takes in which full the Taker found to be the newest one.
func (l *line) found(h backup.Header) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rouse() // a member answered
	full := cke.StoredBackup{}
	if h.Last > 0 {
		full = storedOf(h)
	}
	if full.ID != l.newest.ID {
		l.newest, l.events, l.bytes = full, 0, 0
		l.added(full)
		l.news()
	}
	if l.taker != nil && l.taker.Status().Connected {
		l.gap = false
		l.well(take.Gap, take.FullFailed, take.Faulty)
	}
}

// shownFulls is how many fulls a status names.
const shownFulls = 32

// added takes in a full that was stored. The caller holds the lock, and has not forgotten a gap yet.
func (l *line) added(full cke.StoredBackup) {
	if full.ID == "" {
		return
	}
	if l.fullsAt = lastFulls(append(l.fullsAt, full.At)); l.since.IsZero() || l.gap {
		l.since = full.At
	}
}

func lastFulls(all []time.Time) []time.Time { return all[max(0, len(all)-shownFulls):] }

// listed takes in which fulls are in the target, and since when changes are missing nowhere. The caller holds the lock.
func (l *line) listed(lineage backup.Lineage) {
	chains := lineage.Chains() // ordered by revision
	if l.newest.ID != "" && !slices.ContainsFunc(chains, func(c backup.Chain) bool { return c.Full.ID() == l.newest.ID }) {
		return // it was stored meanwhile, or is lost
	}
	l.fullsAt, l.since = nil, time.Time{}
	last := int64(-1)
	for _, c := range chains {
		l.fullsAt = append(l.fullsAt, c.Full.Time)
		if last < c.Full.Revision {
			l.since = c.Full.Time
		}
		last = max(last, c.Last)
	}
	l.fullsAt = lastFulls(l.fullsAt)
}

func storedOf(h backup.Header) cke.StoredBackup {
	s := cke.StoredBackup{Kind: string(h.Place.Kind), ID: h.Place.ID(), Revision: h.Last, Size: h.Size, At: h.End}
	if h.Place.Kind == backup.KindDelta {
		s.ID = h.Place.Name()
	} else {
		s.At = h.Place.Time
	}
	return s
}

// verifiedOf is a drill that found the backups right, by its mark.
func verifiedOf(v backup.Verified) *cke.VerifiedBackup {
	return &cke.VerifiedBackup{Revision: v.Revision, At: v.At.UTC(), HashChecked: v.HashChecked, HashRevision: v.HashRevision, Booted: v.Booted}
}

// status fills in the state of the line.
func (l *line) status(s *cke.BackupStatus) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.c.Now()
	s.Busy = l.working || l.taker != nil && l.taker.Status().Full
	s.Lineage, s.Compared, s.Lacks, s.Beside = l.lineage, l.compared, l.lacks, l.had
	for _, work := range slices.Sorted(maps.Keys(l.troubles)) {
		s.Troubles = append(s.Troubles, l.troubles[work])
	}
	if l.idle {
		return
	}
	s.Known, s.Full = l.known, l.newest
	if l.target != "" {
		s.TargetID = l.target
	}
	s.Since, s.Fulls = l.since, slices.Clone(l.fullsAt)
	s.Revision, s.Time, s.Connected = l.reached, l.reachedAt, l.newest.Revision > 0 && !l.gap
	if v := l.verified; v != nil {
		copied := *v
		s.Verified = &copied
	}
	s.Resuming = l.taker == nil || !l.taker.Status().Resumed
	s.NextFull = l.after(l.fulls, l.newest.At, now)
	s.NextVerify = l.after(l.drills, l.verifiedAt(), now)
	if l.taker != nil {
		l.taken(s, now)
	}
	s.Problem, s.Lost = clone(l.problem), clone(l.loss)
}

// taken adds what the Taker knows. The caller holds the lock.
func (l *line) taken(s *cke.BackupStatus, now time.Time) {
	t := l.taker.Status()
	s.Connected = s.Connected && (t.Connected || !t.Resumed)
	if t.Revision >= l.reached && t.Revision > 0 {
		s.Revision = t.Revision
		if !t.Time.IsZero() {
			s.Time = t.Time
		}
	}
	s.Buffered = t.Buffered
	s.LagRevisions = max(0, t.Seen-s.Revision)
	// The oldest change that waits is at least as old as the first sight of a revision that is not stored yet.
	if l.behind > 0 && s.Revision >= l.behind {
		l.behind = 0
	}
	if l.behind == 0 && s.LagRevisions > 0 {
		l.behind, l.behindSince = t.Seen, now
	}
	if l.caughtUp = l.caughtUp || t.Seen > 0 && s.LagRevisions == 0; !l.caughtUp && s.LagRevisions > 0 && !s.Time.IsZero() {
		s.LagMost = max(0, now.Sub(s.Time).Seconds())
	}
	if l.behind > 0 {
		s.Lag = max(0, now.Sub(l.behindSince).Seconds())
	}
}

// after is the next time after the last one. A last one in the future means that a clock was put back: it counts as when
// this line started, or when that was noticed. The caller holds the lock.
func (l *line) after(s take.Schedule, last, now time.Time) time.Time {
	if s == nil || last.IsZero() {
		return time.Time{}
	}
	if l.begun.After(now) {
		l.begun = now
	}
	if last.After(now) {
		last = l.begun
	}
	return s.Next(last).UTC()
}

// verifiedAt is what the next drill counts from. The caller holds the lock.
func (l *line) verifiedAt() time.Time {
	return cmp.Or(l.drilled, l.begun)
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// full takes a full now.
func (l *line) full(ctx context.Context, t *take.Taker) (cke.StoredBackup, error) {
	if m, _ := l.opened(); m != nil {
		if err := l.probe(ctx, m, true); errors.Is(err, backup.ErrLost) { // a full waits for its target: the status has to say so meanwhile
			l.ask()
		}
	}
	h, err := t.Full(ctx)
	if err != nil {
		return cke.StoredBackup{}, l.failed("the full backup was not stored", err)
	}
	return storedOf(h), nil
}

// flush stores what has changed by now.
func (l *line) flush(ctx context.Context, t *take.Taker) (cke.StoredBackup, error) {
	before := l.last().ID
	if err := t.Flush(ctx); err != nil {
		return cke.StoredBackup{}, l.failed("the last changes were not stored", err)
	}
	if err := l.complete(ctx); err != nil { // what was stored before may be gone
		l.ask()
		return cke.StoredBackup{}, l.failed("it is not known that all earlier backups are still in the target", err)
	}
	d := l.last()
	if d.ID == before {
		return cke.StoredBackup{Kind: string(backup.KindDelta), Revision: t.Status().Revision, At: l.c.Now().UTC()}, nil
	}
	return d, nil
}

// complete fails unless all that is believed to be in the target is there: a probe sees only the newest objects. It lists
// them unless it has just done so: a restore flushes again while writes are stopped.
func (l *line) complete(ctx context.Context) error {
	m, store := l.opened()
	if store == nil {
		return errOpening
	}
	if err := l.probe(ctx, m, true); err != nil {
		return err
	}
	now := l.c.Now()
	l.mu.Lock()
	just := !l.doubt && backup.Since(l.completed, now) < completeFor
	l.mu.Unlock()
	if just {
		return nil
	}
	if err := l.compare(ctx, store); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.completed = now
	return nil
}

// completeFor is how long a listing shows that nothing is missing. It covers a listing that takes its time, and the stop of
// writes.
const completeFor = listLimit + time.Minute

// opened is the target as it was opened last, and the store in it while there is a Taker; nil: none yet.
func (l *line) opened() (*backup.Marked, *backup.Store) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.marked, l.store
}

func (l *line) last() cke.StoredBackup {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.delta
}

// taking returns the Taker, or why there is none.
func (l *line) taking() (*take.Taker, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taker != nil {
		return l.taker, nil
	}
	e := &cke.Error{Code: cke.CodeTarget, What: "the backup target is not open", Unchanged: true, Err: errOpening}
	if l.problem != nil {
		e.Code, e.Facts, e.Err = l.problem.Code, []string{l.problem.Message}, nil
	}
	return nil, e
}

// failed returns why a request was not carried out, with the known problem.
func (l *line) failed(what string, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &cke.Error{Code: l.trouble("take", cke.CodeTarget, err).Code, What: what, Err: err}
	if l.problem != nil {
		e.Code, e.Facts = l.problem.Code, []string{l.problem.Message}
	}
	return e
}
