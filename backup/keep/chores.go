package keep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"filippo.io/age"

	"cke"
	"cke/backup"
	"cke/backup/take"
	"cke/internal/contain"
)

// Bounds of the work beside taking.
const (
	// lookEvery is how often the clock is checked, whatever it was put to.
	lookEvery = time.Minute
	// besideEvery is how often what lies beside the backups is compared though nothing is known to have changed: secrets
	// may have.
	besideEvery = time.Hour
	// A chore that failed is tried again after choreRetry, or heavyRetry, doubled up to choreRetryMax. A comparison, for which a deletion waits, is
	// tried again after compareRetry.
	compareRetry  = 10 * time.Second
	choreRetry    = 30 * time.Second
	heavyRetry    = 10 * time.Minute
	choreRetryMax = time.Hour
	// choreLimit is how long a chore may wait for its turn and work before that counts as trouble. A directory on another machine
	// that hangs lets no call return, and what holds the turn then keeps all others waiting.
	choreLimit = 6 * time.Hour
	// turnEvery is how often it is looked whether it is this cluster's turn.
	turnEvery = time.Second
	// checkEvery is how often a problem is checked whose end no event reports, checkLimit bounds one look.
	checkEvery = 5 * time.Second
	checkLimit = 10 * time.Second
)

// chores does the work beside taking, one thing at a time, but for what is brief.
type chores struct {
	l     *line
	store *backup.Store
	files *backup.Store // for those that are brief
	taker *take.Taker
	all   []*chore

	stored   digest // what is known to lie beside the backups
	storedAt time.Time
	read     digest // what was last compared with what lies there
	readAt   time.Time
	renewed  bool      // a full was taken since drills or merges began to meet damage
	checked  time.Time // whether a problem has passed
	// postponed is when backups that are in use were last not pruned.
	postponed time.Time
	unjudged  bool // it could not be read which fulls were found wrong
}

// chore is one kind of work.
type chore struct {
	name string
	due  func(now time.Time) bool
	do   func(ctx context.Context) error
	// heavy: it needs room on the disk for the whole database, and much of a core.
	heavy bool
	// long: it reads much, and takes no more room than others.
	long bool
	// brief: it is done also while a heavy or a long one runs, which may take hours.
	brief bool
	// awaited: others wait for it.
	awaited bool

	failures int
	failedAt time.Time
}

func newChores(l *line, store *backup.Store, taker *take.Taker) *chores {
	files := *store // a heavy chore gives the other one keys, and lasts
	w := &chores{l: l, store: store, files: &files, taker: taker}
	w.all = []*chore{
		{name: "older", due: w.olderDue, do: w.compareBeside, brief: true, awaited: true},
		{name: "beside", due: w.besideDue, do: w.putBeside, brief: true},
		{name: "compact", due: w.compactDue, do: w.compact, heavy: true},
		{name: "prune", due: w.pruneDue, do: w.prune, long: true},
		{name: "verify", due: w.verifyDue, do: w.verify, heavy: true},
	}
	return w
}

// run works until ctx ends.
func (w *chores) run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		again := w.check(ctx)
		if w.unjudged && w.judge(ctx) != nil {
			again = max(again, checkEvery)
		}
		for _, c := range w.all {
			if wait := w.attempt(ctx, c); wait > 0 && (again == 0 || wait < again) {
				again = wait
			}
		}
		var retry <-chan time.Time
		if again > 0 {
			retry = time.After(again)
		}
		select {
		case <-ctx.Done():
		case <-w.l.wake:
		case <-tick.C:
		case <-retry:
		}
	}
}

// attempt does a chore if it is due; wait is when to try it again after it failed.
func (w *chores) attempt(ctx context.Context, c *chore) (wait time.Duration) {
	now := w.l.c.Now()
	if ctx.Err() != nil || !c.due(now) {
		return 0
	}
	if c.failures > 0 {
		if pause := c.pause(); min(pause, pause-now.Sub(c.failedAt)) > 0 { // a clock may be put back
			return min(pause, pause-now.Sub(c.failedAt))
		}
	}
	late := time.AfterFunc(choreLimit, func() {
		w.l.suffer(c.name, fmt.Errorf("it has waited for its turn and run for more than %s: this backup target, or that of another cluster, may hang", choreLimit))
	})
	err := contain.Do(func() error { return w.do(ctx, c) })
	late.Stop()
	switch {
	case ctx.Err() != nil:
		return 0
	case err == nil:
		c.failures = 0
		w.l.settle(c.name)
		return 0
	}
	c.failures++
	c.failedAt = w.l.c.Now()
	w.l.c.Log.Warn("backups: "+c.name+" failed", "cluster", w.l.c.Cluster, "error", err)
	w.l.suffer(c.name, err)
	return c.pause()
}

// pause is how long a chore that failed rests.
func (c *chore) pause() time.Duration {
	first := choreRetry
	if c.awaited {
		return compareRetry
	}
	if c.heavy {
		first = heavyRetry
	}
	return min(first<<min(c.failures-1, 10), choreRetryMax)
}

// do waits for a heavy chore's turn: those of all clusters share it.
func (w *chores) do(ctx context.Context, c *chore) error {
	if c.heavy && w.l.c.Turn != nil {
		if err := w.turn(ctx); err != nil {
			return err
		}
		defer w.l.c.Turn.Release(1)
	}
	if err := w.l.c.Guard(); err != nil {
		return err
	}
	if !c.brief {
		defer w.l.works()()
	}
	if !c.heavy && !c.long {
		return c.do(ctx)
	}
	ended := make(chan error, 1)
	go func() { ended <- contain.Do(func() error { return c.do(ctx) }) }()
	for {
		select {
		case err := <-ended:
			w.l.rouse() // the others may be due
			return err
		case <-w.l.wake:
		case <-time.After(turnEvery):
		}
		w.others(ctx, func(c *chore) bool { return c.brief })
	}
}

// works notes that a chore is under way; the returned function notes that it is over.
func (l *line) works() (over func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.working
	l.working = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.working = was
	}
}

// others does the chores that are due and that are chosen.
func (w *chores) others(ctx context.Context, chosen func(*chore) bool) {
	for _, c := range w.all {
		if chosen(c) {
			w.attempt(ctx, c)
		}
	}
}

// turn waits for the turn of a heavy chore, which may take hours. The others are done meanwhile.
func (w *chores) turn(ctx context.Context) error {
	for !w.l.c.Turn.TryAcquire(1) {
		w.check(ctx)
		w.others(ctx, func(c *chore) bool { return !c.heavy })
		if err := backup.Pause(ctx, turnEvery); err != nil {
			return err
		}
	}
	return nil
}

// check finds out whether trouble with etcd, or with opening the target, is over: the Taker reports it when it comes, and
// its end only with the next change of the data. It returns when to check again.
func (w *chores) check(ctx context.Context) time.Duration {
	w.l.mu.Lock()
	troubled := w.l.problem != nil && (w.l.from == take.ClusterFailed || w.l.from == "")
	w.l.mu.Unlock()
	if !troubled {
		return 0
	}
	if wait := checkEvery - time.Since(w.checked); wait > 0 {
		return wait
	}
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	err := w.taker.Flush(ctx)
	w.checked = time.Now()
	if err != nil {
		return checkEvery
	}
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	w.l.well(take.ClusterFailed, "")
	return 0
}

// suffer notes the trouble of a chore, settle that it is over.
func (l *line) suffer(work string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.trouble(work, cke.CodeTarget, err)
	if before, was := l.troubles[work]; was {
		t.Since = before.Since
	} else {
		l.news()
	}
	l.troubles[work] = t
}

func (l *line) settle(work string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, was := l.troubles[work]; was {
		delete(l.troubles, work)
		l.news()
	}
}

func (w *chores) pruneDue(now time.Time) bool {
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	return w.l.pruneDue && w.compared() && now.Sub(w.postponed).Abs() >= lookEvery
}

// prune deletes what the retention does not keep.
func (w *chores) prune(ctx context.Context) error {
	w.l.mu.Lock()
	clock := w.l.clock
	w.l.pruneDue, w.store.Prunable = clock != "", append([]string{}, w.l.lives...) // nil would be all
	w.l.mu.Unlock()
	if clock != "" {
		return &cke.Error{Code: cke.CodeClock, What: "backups are not pruned: " + clock}
	}
	again := func() {
		w.l.mu.Lock()
		defer w.l.mu.Unlock()
		w.l.pruneDue = true
	}
	if err := w.compareBeside(ctx); err != nil {
		again()
		return err
	}
	if lacks, accepted := w.lacking(); lacks && !accepted {
		again()
		w.postponed = w.l.c.Now()
		return nil
	}
	plan, err := w.pruneOnWhole(ctx)
	if n := len(plan.Delete); n > 0 && (err == nil || len(plan.Failed) > 0) {
		w.l.c.Log.Info("backups pruned", "cluster", w.l.c.Cluster, "deleted", n, "fulls kept", len(plan.Keep))
	}
	for _, d := range plan.Damaged {
		w.l.c.Log.Warn("a delta is damaged or missing; fulls stay that lead to what follows it", "cluster", w.l.c.Cluster, "object", d.Name, "reason", d.Reason)
	}
	if len(plan.Others) > 0 {
		w.l.c.Log.Warn("backups of incarnations that are not on record are not pruned; if no other cluster uses this target, `ckecli backup prune` does that", "cluster", w.l.c.Cluster, "incarnations", plan.Others)
	}
	for _, u := range plan.Signed {
		w.l.c.Log.Warn("backups of an incarnation are not pruned, because only keys that are not trusted here signed them; if the key is one of this cluster's, `ckecli backup prune --trust KEY` does that",
			"cluster", w.l.c.Cluster, "incarnation", u.Lineage, "key", u.Key, "object", u.Object)
	}
	if n := len(plan.Held); n > 0 {
		w.l.c.Log.Info("some backups are not pruned: the target protects them, or protected ones need them", "cluster", w.l.c.Cluster, "objects", n, "first", plan.Held[0].Name)
	}
	if slices.Contains(plan.Failing, w.l.lineage) && err == nil {
		err = &cke.Error{Code: cke.CodeBackupDamaged, What: "nothing is pruned until a restore drill succeeds: the last one failed, or no full is intact"}
	}
	if err != nil {
		again()
	}
	if errors.Is(err, backup.ErrBusy) {
		w.postponed = w.l.c.Now()
		w.l.c.Log.Info("pruning of backups is postponed", "cluster", w.l.c.Cluster, "because", err)
		return nil
	}
	return err
}

// compactDue: past so many changes or bytes in deltas, or when the schedule says so. That counts from the newest full.
func (w *chores) compactDue(now time.Time) bool {
	c := w.l.backup.Compaction
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	switch {
	case w.l.newest.Revision == 0:
		return false
	case w.l.events >= cmp.Or(c.Events, cke.DefaultCompactionEvents), c.Size > 0 && w.l.bytes >= int64(c.Size):
		return true
	}
	last := w.l.newest.At
	if w.l.mergedAt.After(last) {
		last = w.l.mergedAt
	}
	next := w.l.after(w.l.merges, last, now)
	if next.IsZero() || next.After(now) {
		return false
	}
	if w.l.events == 0 {
		w.l.mergedAt = now // there is nothing to merge
	}
	return w.l.events > 0
}

// compact merges the newest chain into a full. Where no key opens it, not all of it is signed, or users have changed, the cluster is asked for a full
// instead.
func (w *chores) compact(ctx context.Context) error {
	recipients, err := recipientsOf(w.l.backup.Encryption)
	if err != nil {
		return err
	}
	if err := w.unlock(ctx, len(recipients) > 0); err != nil {
		return err
	}
	events, bytes := w.unmerged()
	place, err := w.store.Compact(ctx, backup.At{Lineage: w.l.lineage},
		backup.CompactOptions{Recipients: recipients, Guard: w.l.c.Guard, Writer: w.l.c.Writer, Term: w.l.c.Term})
	if errors.Is(err, backup.ErrKey) || errors.Is(err, backup.ErrOlderUsers) || errors.Is(err, backup.ErrUntrusted) && !backup.IsDamage(err) {
		_, err = w.taker.Full(ctx) // counts anew when it is stored
		return err
	}
	if err != nil {
		return w.renew(ctx, err)
	}
	h, err := backup.ReadHeader(ctx, w.store.Bucket, place)
	if err != nil {
		return err
	}
	w.taker.Merged(h)
	w.renewed = false
	w.l.c.Log.Info("full backup and its deltas merged", "cluster", w.l.c.Cluster, "id", place.ID(), "revision", place.Revision, "events", events, "bytes", bytes)
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	w.l.storedWhole(place.ID())
	w.l.events, w.l.bytes, w.l.mergedAt = max(0, w.l.events-events), max(0, w.l.bytes-bytes), w.l.c.Now()
	w.l.pruneDue = w.l.backup.Retention != cke.Retention{}
	return nil
}

// unmerged is how much there is in deltas after the newest full.
func (w *chores) unmerged() (events, bytes int64) {
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	return w.l.events, w.l.bytes
}

// unlock gives the store the key file's key, which opens backups that name it as a recipient.
func (w *chores) unlock(ctx context.Context, encrypted bool) error {
	if !encrypted || w.l.c.Identity == nil {
		return nil
	}
	id, err := w.l.c.Identity(ctx)
	if err != nil {
		return err
	}
	w.store.Identities = []age.Identity{id}
	return nil
}
