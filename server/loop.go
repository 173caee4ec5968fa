// Package server decides and drives: Decide chooses one operation from what is wanted and what is seen, the Loop
// runs it and looks again, the Daemon runs a Loop for every cluster that it leads.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"cke"
	"cke/op"
)

// Term is one daemon's time as leader of one cluster. Its writes are fenced: ErrDeposed once it has ended.
type Term interface {
	cke.Ledger
	op.Journal
	// Spec returns the present spec. ErrNotFound once the cluster is gone.
	Spec(ctx context.Context) (cke.Spec, error)
	PutStatus(ctx context.Context, s cke.Status) error
	// InterruptRunning marks records that earlier terms left running.
	InterruptRunning(ctx context.Context) error
	// Context ends with the term, at the latest when the session's time to live has passed without a renewal.
	Context() context.Context
	// Leader says who leads and since when.
	Leader() cke.Leader
	// Changed receives after anything that decisions need has changed in the store; coalesced.
	Changed() <-chan struct{}
	// ResignRequested reports whether a person asked this term to end.
	ResignRequested() bool
	// Resign ends the term and lets the next candidate lead; nothing may be under way in its name.
	Resign(ctx context.Context) error
}

// errResigned ends a loop whose term a person asked to end.
var errResigned = errors.New("asked to resign")

// Observer looks at one cluster. Observe never fails and is never held up by one node.
type Observer interface {
	// Update tells what to look at; it may be called at any time.
	Update(spec cke.Cluster, identity cke.Identity)
	// Observe returns facts that were asked for after the call, as far as nodes answer.
	Observe(ctx context.Context) cke.Observation
	// Changed receives after something may have changed; wake-ups are coalesced.
	Changed() <-chan struct{}
	// Retry connects at once to nodes that wait for their next try.
	Retry()
}

// Bounds of the loop's rhythm.
const (
	// busyPause is the least pause between two looks while an operation runs: it knows better what it waits for.
	busyPause = 500 * time.Millisecond
	// statusEvery is how old a stored status may get while nothing changes.
	statusEvery = 10 * time.Second
	// electionPause is when to look again while members elect a leader.
	electionPause = 100 * time.Millisecond
)

// Loop observes, decides, runs one operation and looks again, for one cluster during one term.
type Loop struct {
	Term     Term
	Observer Observer
	Env      op.Env
	// Probe is the longest time between two looks.
	Probe   time.Duration
	Now     func() time.Time
	Log     *slog.Logger
	Metrics *Metrics

	failures map[string]Failure
	status   cke.Status // last made
	stored   cke.Status // last stored
	storedAt time.Time
	running  *runningOperation
}

// runningOperation is an operation in its own goroutine.
type runningOperation struct {
	operation op.Operation
	reason    string
	journal   *lastRecord
	end       context.CancelCauseFunc // interrupts it
	done      chan struct{}
	record    cke.Record
	err       error
}

// Run works until the term ends, ctx ends, or the cluster is gone. It returns once no operation runs any more.
func (l *Loop) Run(ctx context.Context) error {
	if err := l.Term.InterruptRunning(ctx); err != nil {
		return fmt.Errorf("close records of earlier terms: %w", err)
	}
	l.failures = map[string]Failure{}
	defer func() {
		if l.running != nil {
			<-l.running.done
		}
	}()
	for {
		again, err := l.round(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, cke.ErrNotFound), errors.Is(err, cke.ErrDeposed):
			return err
		case err != nil:
			l.Log.Warn("round failed", "error", err)
		case l.running == nil && l.Term.ResignRequested():
			return errResigned
		}
		if err := l.wait(ctx, again); err != nil {
			return err
		}
	}
}

// round is one look, one decision, and the start of at most one operation.
func (l *Loop) round(ctx context.Context) (again time.Duration, err error) {
	in, err := l.look(ctx)
	if err != nil {
		return l.Probe, err
	}
	d := l.decide(in)
	if d.Operation != nil && l.running == nil {
		l.start(ctx, d, in.Generation) // its record tells of it at once; the status follows with the next look
		return busyPause, nil
	}
	l.publish(ctx, in, d)
	again = l.Probe
	if d.Again > 0 {
		again = min(again, d.Again)
	}
	if inc := in.Identity.Incarnation; inc != nil && inc.State == cke.Formed && !in.Seen.Etcd.Quorate {
		again = min(again, electionPause)
	}
	return again, nil
}

// look gathers what Decide needs.
func (l *Loop) look(ctx context.Context) (Input, error) {
	spec, err := l.Term.Spec(ctx)
	if err != nil {
		return Input{}, fmt.Errorf("read spec: %w", err)
	}
	identity, err := l.Term.Identity(ctx)
	if err != nil {
		return Input{}, fmt.Errorf("read identity: %w", err)
	}
	wanted := spec.Cluster.WithDefaults()
	l.Observer.Update(wanted, identity)
	began := l.Now()
	seen := l.Observer.Observe(ctx)
	l.Metrics.observed(wanted.Name, l.Now().Sub(began))
	if ctx.Err() != nil {
		return Input{}, ctx.Err()
	}
	return Input{Spec: wanted, Generation: spec.Generation, Deleting: spec.Deleting(), Identity: identity, Seen: seen, Before: l.status, Failures: l.failures}, nil
}

// decide returns the operation under way while there is one: at most one change is in flight.
func (l *Loop) decide(in Input) Decision {
	if r := l.running; r != nil {
		if why := superseded(r.operation, Decide(in).Operation); why != nil {
			r.end(why)
		}
		return Decision{Operation: r.operation, Reason: r.reason}
	}
	d := Decide(in)
	if d.Converged {
		clear(l.failures)
	}
	return d
}

func (l *Loop) start(ctx context.Context, d Decision, generation int64) {
	ctx, end := context.WithCancelCause(ctx)
	r := &runningOperation{operation: d.Operation, reason: d.Reason, end: end, done: make(chan struct{}), journal: &lastRecord{Journal: l.Term}}
	l.running = r
	leader := l.Term.Leader()
	about := cke.Record{Reason: d.Reason, Generation: generation, Host: leader.Host, Term: leader.Term}
	l.Log.Info("operation begins", "operation", d.Operation.Name(), "targets", d.Operation.Targets(), "reason", d.Reason)
	go func() {
		defer close(r.done)
		defer end(nil)
		r.record, r.err = op.Run(ctx, l.Env, r.journal, about, d.Operation)
	}()
}

// finish takes note of how the operation ended.
func (l *Loop) finish() {
	r := l.running
	l.running = nil
	took := r.record.Took(l.Now())
	l.Metrics.operated(l.Env.Cluster, r.record)
	l.status.Operation, l.status.LastOperation = nil, operationStatus(r.record)
	key := FailureKey(r.operation)
	switch r.record.State {
	case cke.RecordCompleted:
		l.Log.Info("operation completed", "operation", r.record.Operation, "record", r.record.ID, "took", took)
		delete(l.failures, key)
	case cke.RecordFailed:
		f := l.failures[key]
		l.failures[key] = Failure{Count: f.Count + 1, At: l.Now(), Error: r.err.Error(), Problems: problemsOf(r.err, l.Now())}
		l.Log.Warn("operation failed", "operation", r.record.Operation, "record", r.record.ID, "took", took, "error", r.err)
	default:
		l.Log.Warn("operation interrupted", "operation", r.record.Operation, "record", r.record.ID, "took", took, "error", r.err)
	}
}

// wait returns when there is a reason to look again.
func (l *Loop) wait(ctx context.Context, again time.Duration) error {
	timer := time.NewTimer(again)
	defer timer.Stop()
	var done chan struct{}
	changed, stored := l.Observer.Changed(), l.Term.Changed()
	if l.running != nil {
		done = l.running.done
		changed, stored = nil, nil
		timer.Reset(min(again, busyPause))
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-done:
		l.finish()
	case <-changed:
	case <-stored:
		l.Observer.Retry() // a key or a host key may be what a node waited for
	case <-timer.C:
	}
	return nil
}

// publish stores the status when it tells something new, or when the stored one grows old.
func (l *Loop) publish(ctx context.Context, in Input, d Decision) {
	s := Report(in, d, l.status)
	s.Leader = l.Term.Leader()
	s.Operation = nil
	if l.running != nil {
		s.Operation = operationStatus(l.running.journal.record())
	}
	l.status = s
	l.Metrics.status(s)
	if sameNews(s, l.stored) && l.Now().Sub(l.storedAt) < statusEvery {
		return
	}
	if err := l.Term.PutStatus(ctx, s); err != nil {
		l.Log.Warn("status not stored", "error", err)
		return
	}
	l.stored, l.storedAt = s, l.Now()
}

func operationStatus(r cke.Record) *cke.OperationStatus {
	if r.Operation == "" {
		return nil
	}
	s := &cke.OperationStatus{ID: r.ID, Type: r.Operation, State: r.State, Description: r.Reason, Time: r.StartedAt}
	if !r.EndedAt.IsZero() {
		s.Time = r.EndedAt
	}
	if r.Error != "" {
		s.Description = r.Error
	}
	return s
}
