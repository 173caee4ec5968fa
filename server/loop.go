// Package server leads clusters: strategy.Decide chooses one operation from the cluster file and the observation, the Loop
// runs it and observes again, and the Daemon runs a Loop for every cluster that it leads.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// Term is one daemon's time as leader of one cluster. Its writes are fenced: they return ErrDeposed once it is over.
type Term interface {
	cke.Ledger
	op.Journal
	// Spec returns the stored revision of the cluster file, or ErrNotFound once the cluster is gone.
	Spec(ctx context.Context) (cke.Spec, error)
	// Status returns the status that was stored last, by this term or an earlier one, or ErrNotFound. ErrMalformed: it
	// cannot be decoded.
	Status(ctx context.Context) (cke.Status, error)
	PutStatus(ctx context.Context, s cke.Status) error
	// InterruptRunning marks records that earlier terms left running as interrupted.
	InterruptRunning(ctx context.Context) error
	// Context is canceled with the term, at the latest when the session's time to live has passed without a renewal.
	Context() context.Context
	// Check returns ErrDeposed once the term is over, also in a process that was frozen and wakes before its context has ended.
	Check() error
	// Leader returns which daemon leads and since when.
	Leader() cke.Leader
	// Changed receives after anything that decisions depend on has changed in the store; coalesced.
	Changed() <-chan struct{}
	// Requests returns what operators requested, as far as it is known now.
	Requests() cke.Requests
	// FinishTask removes a task that was done or refused; it is no error if the task is gone already.
	FinishTask(ctx context.Context, id string) error
	// ResignRequested reports whether an operator requested the end of this term.
	ResignRequested() bool
	// Resign ends the term and lets the next candidate lead; no operation of the term may be running.
	Resign(ctx context.Context) error
	// HandOver is Resign, but lets the daemon of a session lead, if it waits to.
	HandOver(ctx context.Context, session string) error
	// Prefer shows other daemons which management hosts the cluster file prefers.
	Prefer(ctx context.Context, hosts []string) error
}

// errResigned ends a loop whose term an operator asked to end.
var errResigned = errors.New("asked to resign")

// Observer observes one cluster. Observe never fails, and one node never delays it.
type Observer interface {
	// Update sets what to observe; it may be called at any time. last is the member list that was read last.
	Update(spec cke.Cluster, identity cke.Identity, last ...cke.Member)
	// Observe returns what nodes answered to probes that were sent after the call.
	Observe(ctx context.Context) cke.Observation
	// Glance is Observe, but does not ask for what cannot have changed since it was asked, as far as is known. Not whole: there is
	// such a thing, and nothing may be decided from it but to observe.
	Glance(ctx context.Context) (seen cke.Observation, whole bool)
	// Changed receives after something may have changed; wake-ups are coalesced.
	Changed() <-chan struct{}
	// Retry connects at once to nodes whose next attempt is due later.
	Retry()
}

// Bounds of the loop's rhythm.
const (
	// busyPause is the least pause between two observations while an operation runs: it knows better what it waits for.
	busyPause = 500 * time.Millisecond
	// statusEvery is how old a stored status may get while nothing changes.
	statusEvery = 10 * time.Second
	// electionPause is when to observe again while members may be electing a leader, which is for electionLimit after the
	// quorum went or a member came or went.
	electionPause = 100 * time.Millisecond
	electionLimit = 5 * time.Second
	// sameAgain is the least pause before an operation that has just completed is started again: it had no lasting effect.
	sameAgain = time.Second
	// lastWordLimit bounds a write about how an operation ended, when another one had failed or the loop ends.
	lastWordLimit = 500 * time.Millisecond
)

// Loop observes, decides, runs one operation and observes again, for one cluster during one term.
type Loop struct {
	Term     Term
	Observer Observer
	Env      op.Env
	// Probe is the longest time between two observations.
	Probe   time.Duration
	Now     func() time.Time
	Log     *slog.Logger
	Metrics *Metrics
	// Progress gets each round; nil: it is not reported.
	Progress *Progress
	// Samples get each status that is made; nil: they are not kept.
	Samples *Samples
	// Commands runs commands, and observes machines that reboot or are repaired; nil: none is.
	Commands *Commands
	// Backups get what is declared and return their status; nil: none are taken.
	Backups Backups
	// Inventory gets what is declared and observed, and returns its status; nil: none is read.
	Inventory Inventory

	failures map[string]strategy.Failure
	done     map[string]strategy.Completion
	seen     strategy.Input      // last observed
	status   cke.Status          // last made
	wanted   cke.InventoryWanted // as of the last observation, without the status
	unclosed *cke.Problem        // why records of earlier terms are not closed; nil: nothing that an operator has to decide
	unread   bool                // the status of the terms before could not be read, and is not overwritten
	stored   cke.Status          // last stored
	storedAt time.Time
	calm     bool // the last round had nothing to do, nothing to wait for, and nothing has happened since
	running  *runningOperation
	unsaved  []cke.Record // ended, and not yet so in the store
	over     []string     // tasks that are over, and not yet so in the store
	closed   bool         // nothing of earlier terms is left running
	quorum   quorum
	quorumAt time.Time // since when it holds
	leads    time.Time // since when

	charge    *charge  // nil: the cluster is never handed over
	idle      bool     // the last round had nothing to do, or could do nothing
	preferred []string // as other daemons know it

	problems  problemLog
	sightings Sightings
	took      time.Duration // by the last observation

	completed   string // FailureKey of the operation that completed last
	completedAt time.Time
}

// quorum is what an election depends on.
type quorum struct {
	there   bool
	running int // members
}

// Run leads until the term is over, ctx is canceled, or the cluster is gone. It returns once no operation runs any more.
func (l *Loop) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer l.end(ctx, cancel)
	l.failures, l.done = map[string]strategy.Failure{}, map[string]strategy.Completion{}
	l.leads = l.Now()
	l.takeOver(ctx)
	for {
		if l.running == nil && l.Term.ResignRequested() {
			return errResigned
		}
		again, err := l.round(ctx)
		l.Progress.round(l.Env.Cluster, l.Now())
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, cke.ErrNotFound), errors.Is(err, cke.ErrDeposed):
			return err
		case err != nil:
			l.Log.Warn("round failed", "error", err)
		}
		if h := l.charge.due(); h != nil { // right after an observation: a full may start at any time
			return h
		}
		if h := l.giveUp(); h != nil {
			return h
		}
		if err := l.wait(ctx, again); err != nil {
			return err
		}
	}
}

// takeOver continues from what earlier terms told: since when things are as they are, and which generation was reached, can
// be observed no more.
func (l *Loop) takeOver(ctx context.Context) {
	last, err := l.Term.Status(ctx)
	if l.unread = err != nil && !errors.Is(err, cke.ErrNotFound) && !errors.Is(err, cke.ErrMalformed); err != nil { // what cannot be decoded is lost
		if !errors.Is(err, cke.ErrNotFound) {
			l.Log.Warn("the stored status cannot be read", "tried again", l.unread, "error", err)
		}
		return
	}
	if left := last.Operation; left != nil {
		left.State, left.Description = cke.RecordInterrupted, fmt.Sprintf("%s stopped leading while this ran", last.Leader.Host)
		if last.ObservedAt.After(left.Time) { // it ran at least until then
			left.Time = last.ObservedAt
		}
		last = strategy.Remembered(last)
		last.Operation, last.LastOperation = nil, left
	}
	if l.status.LastOperation != nil { // it ended before this could be read
		last = strategy.Remembered(last)
		for _, t := range []struct{ last, now *time.Time }{{&last.TouchedAt, &l.status.TouchedAt}, {&last.RestoreWorkedAt, &l.status.RestoreWorkedAt}} {
			if t.now.After(*t.last) {
				*t.last = *t.now
			}
		}
		last.InterruptedOrder = cmp.Or(l.status.InterruptedOrder, last.InterruptedOrder)
		last.LastOperation = l.status.LastOperation
	}
	l.status = last
}

// end ends what is under way, waits for it, and reports how it ended: the last status still says that it runs.
func (l *Loop) end(ctx context.Context, cancel context.CancelFunc) {
	cancel()
	defer l.storeSeen(ctx)
	if l.running == nil {
		return
	}
	<-l.running.done
	last := l.running.record
	l.finish()
	if l.Term.Context().Err() != nil || len(l.unsaved) > 0 || l.storedAt.IsZero() {
		return // nobody may, the store does not answer, or there is nothing to correct
	}
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), lastWordLimit)
	defer cancel()
	l.publish(ctx, l.seen, strategy.Decision{Reason: fmt.Sprintf("%s no longer leads; %s ended as %s", l.Term.Leader().Host, last.Operation, last.State)})
}

// round is one look, one decision, and the start of at most one operation.
func (l *Loop) round(ctx context.Context) (again time.Duration, err error) {
	again = min(l.Probe, statusEvery)
	free := false
	l.idle = false
	defer func() { l.charge.settle(free) }()
	if l.unread {
		l.takeOver(ctx)
	}
	in, whole, err := l.look(ctx)
	if err != nil {
		l.publishUndecoded(ctx, err)
		return again, err
	}
	l.closeRecords(ctx, in.Requests)
	in.Unclosed = l.unclosed
	if !in.Seen.Partial {
		l.seen = in
	}
	l.save(ctx)
	l.finishTasks(ctx)
	d := l.decide(in)
	if l.calm = d.Operation == nil && d.Converged && d.Blockers == nil && !in.Seen.Partial; !l.calm && !whole {
		return 0, nil // to be decided from an observation of everything
	}
	if d.Operation != nil && l.running == nil && (l.closed || d.Task == "" || l.unclosed != nil && needsNoRecords(d.Operation)) { // else it may be on record as carried out
		l.start(ctx, d, in.Generation)
	}
	if in.Seen.Partial { // it is acted on, and not told: who was not waited for looks silent
		return strategy.LookAtOnce, nil
	}
	l.publish(ctx, in, d)
	free = l.mayChangeHands(in, d)
	l.idle = l.isIdle(in, d)
	if d.Again > 0 {
		again = min(again, d.Again)
	}
	if l.electing(in) {
		again = min(again, electionPause)
	}
	return again, nil
}

// electing reports whether a leader may be elected any moment. A quorum that stays away is not looked for all the time.
func (l *Loop) electing(in strategy.Input) bool {
	if now := (quorum{in.Seen.Etcd.Quorate, strategy.RunningMembers(&in)}); now != l.quorum || l.quorumAt.IsZero() {
		l.quorum, l.quorumAt = now, l.Now()
	}
	return in.Formed() && !l.quorum.there && l.Now().Sub(l.quorumAt) < electionLimit
}

// look gathers what Decide needs. While there is nothing to do, it asks for little; whole: it asked for everything.
func (l *Loop) look(ctx context.Context) (in strategy.Input, whole bool, err error) {
	spec, err := l.Term.Spec(ctx)
	if err != nil {
		return in, false, fmt.Errorf("read spec: %w", err)
	}
	identity, err := l.Term.Identity(ctx)
	if err != nil {
		return in, false, fmt.Errorf("read identity: %w", err)
	}
	l.prefer(ctx, spec.Cluster.Prefer)
	l.Observer.Update(spec.Wanted(), identity, l.status.LastList(identity.Incarnation)...)
	began := l.Now()
	var seen cke.Observation
	if l.calm {
		seen, whole = l.Observer.Glance(ctx)
	} else {
		seen, whole = l.Observer.Observe(ctx), true
	}
	l.took = l.Now().Sub(began)
	l.Metrics.observed(spec.Cluster.Name, l.took)
	if ctx.Err() != nil {
		return in, false, ctx.Err()
	}
	// What the nodes show, or what an order was confirmed for, may have been put on record while they were observed.
	asked := l.requests()
	if asked.OrderForAnother(identity) || len(identity.Unrecorded(spec.Cluster.Name, seen.Nodes)) > 0 || identity.VotesElsewhere(seen.Etcd) || identity.EndedByMarks(seen.Nodes) != nil {
		if identity, err = l.Term.Identity(ctx); err != nil {
			return in, false, fmt.Errorf("read identity: %w", err)
		}
	}
	in = strategy.NewInput(spec, identity, asked, seen, nil, l.status)
	if err := l.sightings.Record(ctx, l.Term, &in); err != nil { // also while an operation runs
		return in, false, err
	}
	in.Failures, in.Completed, in.LeadsSince = l.failures, l.done, l.leads
	l.Commands.Update(in.Spec, identity, in.Requests)
	in.UnderWay = l.Commands.Seen()
	if l.Backups != nil {
		of := in
		of.Identity = identity.BackedUp()
		if !l.unread { // else the target that is known would be taken for a new one
			target := spec.Cluster.Backup.Target
			w := cke.BackupWanted{Spec: spec, Identity: of.Identity, Idle: strategy.NoBackups(&of), Clock: strategy.ClocksIn(seen).Why(),
				TargetID: l.status.TargetID(target), Beside: l.status.Beside(target)}
			if i := of.Identity.Incarnation; i != nil {
				w.Stored, _ = l.status.Stored(target, i.ID)
			}
			l.Backups.Update(w)
		}
		in.Backup = l.Backups.Status()
	}
	if l.Inventory != nil {
		l.wanted = cke.InventoryWanted{Spec: spec, Identity: identity, Requests: asked}
		in.Inventory = l.Inventory.Status()
	}
	return in, whole, nil
}

// decide returns the operation under way while there is one: at most one change is in flight.
func (l *Loop) decide(in strategy.Input) strategy.Decision {
	if r := l.running; r != nil {
		next := l.next(in)
		r.journal.at(func(now cke.Record) {
			if why := strategy.Superseded(r.operation, next.Operation, in.Failures, op.Away(r.operation, now.Steps)); why != nil {
				r.end(why)
			}
		})
		if why := strategy.Outrun(r.operation, &in); why != nil {
			r.end(why)
		}
		return strategy.Decision{Operation: r.operation, Reason: r.reason, Frozen: next.Frozen, Converged: next.Converged}
	}
	maps.DeleteFunc(l.failures, func(_ string, f strategy.Failure) bool { return l.Now().Sub(f.At) > strategy.ForgetAfter })
	maps.DeleteFunc(l.done, func(_ string, c strategy.Completion) bool { return c.Stale(l.Now()) })
	d := l.next(in)
	if l.unread && needsStatus(d) {
		return strategy.Decision{Reason: "what the last leader daemon knew is not known: the stored status cannot be read", Again: time.Second}
	}
	if d.Converged && d.Operation == nil && d.Blockers == nil {
		maps.DeleteFunc(l.failures, func(key string, _ strategy.Failure) bool { return !strategy.OfQueued(in, key) })
	}
	if d.Operation != nil && d.Task == "" && strategy.FailureKey(d.Operation) == l.completed {
		if wait := sameAgain - l.Now().Sub(l.completedAt); wait > 0 {
			return strategy.Decision{Reason: fmt.Sprintf("%s; %s has just completed", d.Reason, d.Operation.Name()), Again: wait}
		}
	}
	return d
}

// next decides without the tasks if it would choose one of them that waits for records, so that it keeps nothing else waiting. They count
// for all else: a freeze puts on record which ones are there, and what an order to restore is for is left as it is.
func (l *Loop) next(in strategy.Input) strategy.Decision {
	d := strategy.Decide(in)
	restores := slices.ContainsFunc(in.Requests.Tasks, func(t cke.Task) bool { return t.Kind == cke.TaskRestore })
	if l.closed || d.Task == "" || restores || !in.Formed() {
		return d
	}
	in.Requests.Tasks = nil
	other := strategy.Decide(in)
	if _, is := other.Operation.(op.Freeze); is {
		return d
	}
	return other
}

// needsStatus reports whether a decision needs what the status of the terms before says: it may end a restore, or the order for one, because it
// waited, or it takes members away that others may have to be asked for, by the last member list.
func needsStatus(d strategy.Decision) bool {
	switch o := d.Operation.(type) {
	case op.CancelRestore:
		return d.Task == ""
	case op.Refuse:
		return o.Task.Restore != nil
	case op.BeginRestore, op.DeleteCluster:
		return true
	case op.Restore:
		return !o.Started
	}
	return false
}

// wait returns when there is a reason to observe again.
func (l *Loop) wait(ctx context.Context, again time.Duration) error {
	timer := time.NewTimer(again)
	defer timer.Stop()
	var done chan struct{}
	changed, stored := l.Observer.Changed(), l.Term.Changed()
	var backups, commands <-chan struct{}
	if l.Commands != nil {
		commands = l.Commands.Changed()
	}
	if l.Backups != nil {
		backups = l.Backups.Changed()
	}
	var inventory <-chan struct{}
	if l.Inventory != nil {
		inventory = l.Inventory.Changed()
	}
	if l.running != nil {
		done = l.running.done
		changed, stored, backups, inventory, commands = nil, nil, nil, nil, nil
		timer.Reset(min(again, busyPause))
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-done:
		l.finish()
	case <-changed:
	case <-backups:
	case <-inventory:
	case <-commands:
	case <-l.charge.wake():
		return nil
	case <-stored:
		l.Observer.Retry() // a key or a host key may be what a node waited for
	case <-timer.C:
		return nil
	}
	l.calm = false
	return nil
}
