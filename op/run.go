package op

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"cke"
)

// Journal keeps records. Its writes are fenced like the Ledger's.
type Journal interface {
	// AppendRecord stores a new record and returns it with its id. ErrConflict: it names a withdrawn task.
	AppendRecord(ctx context.Context, r cke.Record) (cke.Record, error)
	// PutRecord stores a changed record.
	PutRecord(ctx context.Context, r cke.Record) error
}

// progressEvery bounds how often a step's progress is stored, stepEvery how often the ends of steps beside others.
const (
	progressEvery = 500 * time.Millisecond
	stepEvery     = 100 * time.Millisecond
)

// closeLimit bounds the write of the end of a step, and the last one of a record, which is made even when ctx has ended.
const closeLimit = 2 * time.Second

// appendPatience is how long the answer to the first write of a record is waited for after ctx has ended. A lost answer
// may leave a record that nobody knows of and that says "running".
const appendPatience = 500 * time.Millisecond

// Run runs an operation to its end and returns its record, with State completed, failed or interrupted. about has
// what the caller knows: reason, generation, host, term. A step is recorded before it runs.
// The error is the cause of a failure; the record has the same as text.
func Run(ctx context.Context, e Env, j Journal, about cke.Record, o Operation) (cke.Record, error) {
	about.Operation, about.Targets, about.Cluster = o.Name(), o.Targets(), e.Cluster
	about.State, about.StartedAt = cke.RecordRunning, e.Now().UTC()
	_, about.Refused = o.(Refuse)
	stages := o.Stages()
	e.Machines = recorded{Machines: e.Machines, ledger: e.Ledger, etcd: e.Etcd}

	r := &run{env: e, journal: j, writing: make(chan struct{}, 1), record: about}
	if len(stages) > 0 {
		r.begin(stages[0])
	}
	late, cancel := patiently(ctx, appendPatience)
	rec, err := j.AppendRecord(late, r.record)
	cancel()
	if err != nil {
		err = fmt.Errorf("record operation %s: %w", o.Name(), err)
		r.record.Steps = nil // none ran
		r.end(ctx, err)
		return r.record, err
	}
	r.record, r.stored = rec, e.Now()
	for i, stage := range stages {
		if err = ctx.Err(); err != nil {
			break
		}
		if i > 0 {
			r.begin(stage)
			if err = r.store(ctx); err != nil {
				break
			}
			if err = ctx.Err(); err != nil { // from its record on, what ends the operation knows what it does
				break
			}
		}
		if err = r.stage(ctx, stage); err != nil {
			break
		}
	}
	return r.close(ctx, err)
}

// run is one operation under way.
type run struct {
	env     Env
	journal Journal
	writing chan struct{} // holds one while the record is being written

	mu     sync.Mutex
	record cke.Record
	first  int  // index of the present stage's first step in record.Steps
	left   int  // steps of the present stage that have not ended
	unsaid bool // a step has ended, which is not stored yet
	stored time.Time
	over   chan struct{} // closed once the last step of the present stage has ended
}

// begin adds the stage's steps to the record as started.
func (r *run) begin(stage Stage) {
	now := r.env.Now().UTC()
	r.first, r.left, r.over = len(r.record.Steps), len(stage), make(chan struct{})
	for _, s := range stage {
		r.record.Steps = append(r.record.Steps, cke.StepRecord{Name: s.Name, Node: s.Node, StartedAt: now})
	}
}

// stage runs the steps side by side and waits for all of them; the error holds every step that failed.
func (r *run) stage(ctx context.Context, stage Stage) error {
	errs := make([]error, len(stage))
	var wg sync.WaitGroup
	for i, s := range stage {
		wg.Go(func() { errs[i] = r.step(ctx, r.first+i, s) })
	}
	wg.Wait()
	var failed StageError
	for i, err := range errs {
		if err != nil {
			failed = append(failed, &StepError{Step: stage[i].Name, Node: stage[i].Node, Err: err})
		}
	}
	if failed == nil {
		return nil
	}
	return failed
}

func (r *run) step(whole context.Context, index int, s Step) error {
	ctx, cancel := context.WithTimeout(whole, limitOf(s))
	defer cancel()
	env := r.env
	var last time.Time
	env.Progress = func(text string) {
		now := r.env.Now()
		r.mu.Lock()
		r.record.Steps[index].Progress = text
		due := now.Sub(last) >= progressEvery
		r.mu.Unlock()
		if due {
			last = now
			if err := r.store(ctx); err != nil {
				r.env.Log.Debug("progress not stored", "error", err)
			}
		}
	}
	env.Note = func(text string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.record.Steps[index].Note = text
	}
	env.Stored = func(b cke.StoredBackup) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.record.Backup = &b
	}
	err := attempt(ctx, env, s)
	r.mu.Lock()
	now := r.env.Now()
	r.record.Steps[index].EndedAt = now.UTC()
	switch {
	case err != nil && errors.Is(err, context.Canceled) && ctx.Err() != nil:
		r.record.Steps[index].Error = "interrupted"
	case err != nil:
		r.record.Steps[index].Error = err.Error()
	}
	r.unsaid = true
	if r.left--; r.left == 0 {
		close(r.over)
	}
	wait := min(stepEvery, stepEvery-now.Sub(r.stored)) // a clock may be set
	r.mu.Unlock()
	r.say(whole, wait)
	return err
}

// say stores the ends of steps after a while, together, unless the stage is over by then: the end of the last step is stored with
// what follows.
func (r *run) say(ctx context.Context, after time.Duration) {
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case <-r.over:
	case <-ctx.Done():
	case <-timer.C:
	}
	r.mu.Lock()
	due := r.unsaid && r.left > 0 && ctx.Err() == nil
	r.unsaid = r.unsaid && !due // of others that wait none stores it once more
	r.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	if err := r.store(ctx); err != nil {
		r.env.Log.Debug("ends of steps not stored", "error", err)
	}
}

// attempt runs a step. A panic fails the step and nothing else: the daemon leads other clusters as well.
func attempt(ctx context.Context, e Env, s Step) (err error) {
	defer func() {
		if p := recover(); p != nil {
			e.Log.Error("a step panicked", "step", s.Name, "node", s.Node, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("fault in cke: %v", p)
		}
	}()
	return s.Run(ctx, e)
}

// patiently returns a context that ends a time after ctx.
func patiently(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(ctx, func() { time.AfterFunc(after, cancel) })
	return late, func() {
		unhook()
		cancel()
	}
}

// store writes a copy of the record as it is now, after the one that is being written. The steps continue meanwhile: a
// store that is slow must not hold up their ends.
func (r *run) store(ctx context.Context) error {
	select {
	case r.writing <- struct{}{}:
		defer func() { <-r.writing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	r.mu.Lock()
	rec := r.record
	rec.Steps = append([]cke.StepRecord(nil), rec.Steps...)
	r.stored, r.unsaid = r.env.Now(), false
	r.mu.Unlock()
	return r.journal.PutRecord(ctx, rec)
}

// end notes in the record how the operation ended.
func (r *run) end(ctx context.Context, err error) {
	r.record.EndedAt = r.env.Now().UTC()
	switch {
	case err == nil:
		r.record.State = cke.RecordCompleted
	case ctx.Err() != nil, errors.Is(err, cke.ErrDeposed), errors.Is(err, errTakenBack):
		r.record.State, r.record.Error = cke.RecordInterrupted, interruption(ctx, r.env.Leader.Host, err)
	default:
		r.record.State, r.record.Error, r.record.Code, r.record.Refusal = cke.RecordFailed, err.Error(), cke.CodeOf(err), cke.RefusalOf(err)
	}
}

// interruption says who interrupted an operation, and what follows.
func interruption(ctx context.Context, host string, err error) string {
	const next = "the next leader observes the cluster again and continues from there"
	why := context.Cause(ctx)
	switch {
	case why == nil && errors.Is(err, errTakenBack):
		return fmt.Sprintf("%v; cke on %s observes the cluster and decides again", err, host)
	case why == nil:
		return fmt.Sprintf("%v; %s", err, next)
	case errors.Is(why, cke.ErrDeposed):
		return fmt.Sprintf("cke on %s lost the leadership (%v); %s", host, why, next)
	case errors.Is(why, context.Canceled), errors.Is(why, context.DeadlineExceeded):
		return fmt.Sprintf("cke on %s was stopped; %s", host, next)
	}
	return fmt.Sprintf("%v; cke on %s observes the cluster and decides again", why, host)
}

// close ends the record and stores it.
func (r *run) close(ctx context.Context, err error) (cke.Record, error) {
	r.end(ctx, err)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	if putErr := r.store(last); putErr != nil && err == nil {
		err = fmt.Errorf("record the end of %s: %w", r.record.Operation, putErr)
	}
	return r.record, err
}

func limitOf(s Step) time.Duration {
	if s.Limit > 0 {
		return s.Limit
	}
	return DefaultStepLimit
}

// StepError is a step that failed.
type StepError struct {
	Step string
	Node string // empty: not about one node
	Err  error
}

func (e *StepError) Error() string {
	if e.Node == "" {
		return fmt.Sprintf("%s: %v", e.Step, e.Err)
	}
	return fmt.Sprintf("%s: %s: %v", e.Node, e.Step, e.Err)
}

func (e *StepError) Unwrap() error { return e.Err }

// StageError holds the steps of a stage that failed, in the order of the stage; never empty.
type StageError []*StepError

func (e StageError) Error() string {
	var all []string
	for _, s := range e {
		all = append(all, s.Error())
	}
	return strings.Join(all, "; ")
}

// Unwrap lets errors.Is and errors.As search every step.
func (e StageError) Unwrap() []error {
	var all []error
	for _, s := range e {
		all = append(all, s)
	}
	return all
}
