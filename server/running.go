package server

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// runningOperation is an operation in its own goroutine.
type runningOperation struct {
	operation op.Operation
	reason    string
	task      string // that it is for, or ""
	part      bool   // the task continues after it
	journal   *lastRecord
	end       context.CancelCauseFunc // interrupts it
	done      chan struct{}
	record    cke.Record
	err       error
}

// start starts an operation and returns once it is on record, or has ended.
func (l *Loop) start(ctx context.Context, d strategy.Decision, generation int64) {
	ctx, end := context.WithCancelCause(ctx)
	r := &runningOperation{operation: d.Operation, reason: d.Reason, task: d.Task, part: d.Part, end: end, done: make(chan struct{}),
		journal: &lastRecord{Journal: l.Term, begun: make(chan struct{})}}
	l.running = r
	leader := l.Term.Leader()
	about := cke.Record{Reason: d.Reason, Task: d.Task, Part: d.Part, Generation: generation, Host: leader.Host, Term: leader.Term}
	l.Log.Info("operation started", "operation", d.Operation.Name(), "targets", d.Operation.Targets(), "reason", d.Reason)
	go func() {
		defer close(r.done)
		defer end(nil)
		r.record, r.err = l.operate(ctx, r.journal, about, d.Operation)
	}()
	select {
	case <-r.journal.begun:
	case <-r.done:
	}
}

// operate runs an operation. A panic is a failure of the operation and of nothing else.
func (l *Loop) operate(ctx context.Context, j *lastRecord, about cke.Record, o op.Operation) (r cke.Record, err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		l.Log.Error("an operation panicked", "panic", p, "stack", string(debug.Stack()))
		if r, err = j.record(), fmt.Errorf("fault in cke: %v", p); r.ID == 0 {
			r = about
			r.Cluster, r.Operation, r.Targets, r.StartedAt = l.Env.Cluster, o.Name(), o.Targets(), l.Now().UTC()
		}
		r.State, r.Error, r.Code, r.EndedAt = cke.RecordFailed, err.Error(), cke.CodeInternal, l.Now().UTC()
	}()
	e := l.Env
	e.Saw = l.sightings.Keep
	return op.Run(ctx, e, j, about, o)
}

// finish takes note of how the operation ended.
func (l *Loop) finish() {
	r := l.running
	l.running = nil
	if r.task != "" && r.record.ID == 0 && errors.Is(r.err, cke.ErrConflict) {
		l.Log.Info("a task was withdrawn before it started", "operation", r.record.Operation, "task", r.task)
		l.over = append(l.over, r.task) // the watch of the store may still have it
		return
	}
	if r.record.ID > 0 && !r.journal.saved(r.record.State) {
		l.unsaved = append(l.unsaved, r.record)
	}
	answered := r.task != "" && !r.part && r.record.ID > 0 // one without a record was not begun
	if answered && r.record.EndsTask() {
		l.over = append(l.over, r.task)
	}
	took := r.record.Took(l.Now())
	l.Metrics.operated(l.Env.Cluster, r.record)
	l.status = strategy.Remembered(l.status)
	l.status.Operation, l.status.LastOperation = nil, operationStatus(r.record)
	key := strategy.FailureKey(r.operation)
	switch r.record.State {
	case cke.RecordCompleted:
		l.Log.Info("operation completed", "operation", r.record.Operation, "record", r.record.ID, "took", took)
		delete(l.failures, key)
		strategy.Completed(l.done, r.operation, r.reason, l.Now())
		l.completed, l.completedAt = key, l.Now()
	case cke.RecordFailed:
		if !answered { // what was asked for once is not tried again, and another wish is not held back for it
			l.failures[key] = l.failures[key].Again(l.Now(), r.err.Error(), problemsOf(r.err, l.Now()))
		}
		l.Log.Warn("operation "+r.record.Outcome(), "operation", r.record.Operation, "record", r.record.ID, "took", took, "error", r.err)
	default:
		l.Log.Warn("operation interrupted", "operation", r.record.Operation, "record", r.record.ID, "took", took, "error", r.err)
	}
}
