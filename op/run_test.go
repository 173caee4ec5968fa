package op_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cke"
	"cke/op"
)

// script is an operation made of stages written down in a test.
type script []op.Stage

func (script) Name() string         { return "script" }
func (script) Targets() []string    { return []string{"n1"} }
func (s script) Stages() []op.Stage { return s }
func (script) Traits() op.Traits    { return op.Traits{} }

// journal keeps every version of every record.
type journal struct {
	mu       sync.Mutex
	versions []cke.Record
	fail     error
}

func (j *journal) AppendRecord(_ context.Context, r cke.Record) (cke.Record, error) {
	r.ID = 7
	return r, j.put(r)
}

func (j *journal) PutRecord(_ context.Context, r cke.Record) error { return j.put(r) }

func (j *journal) put(r cke.Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.fail != nil {
		return j.fail
	}
	j.versions = append(j.versions, r)
	return nil
}

func (j *journal) last() cke.Record {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.versions[len(j.versions)-1]
}

func runScript(ctx context.Context, j *journal, s script) (cke.Record, error) {
	e := op.Env{Cluster: "demo", Now: time.Now, Pause: pause, Log: slog.New(slog.DiscardHandler)}
	return op.Run(ctx, e, j, cke.Record{Reason: "a test", Generation: 3, Host: "h", Term: 9}, s)
}

func step(name string, run func(context.Context, op.Env) error) op.Step {
	return op.Step{Name: name, Node: "n1", Run: run}
}

func TestRun_RecordsAStepBeforeItRuns(t *testing.T) {
	var j journal
	look := func(want string) func(context.Context, op.Env) error {
		return func(context.Context, op.Env) error {
			r := j.last()
			if got := steps(r); got != want || r.State != cke.RecordRunning || !r.Steps[len(r.Steps)-1].EndedAt.IsZero() {
				t.Errorf("on record when the step runs: %s %q", r.State, got)
			}
			return nil
		}
	}
	r, err := runScript(t.Context(), &j, script{{step("one", look("one n1"))}, {step("two", look("one n1, two n1"))}})
	if err != nil || r.State != cke.RecordCompleted || r.ID != 7 || r.Operation != "script" || r.Reason != "a test" || r.Generation != 3 || r.Term != 9 {
		t.Fatalf("%+v %v", r, err)
	}
	if last := j.last(); last.State != cke.RecordCompleted || last.EndedAt.IsZero() || last.Steps[1].EndedAt.IsZero() {
		t.Errorf("on record at the end: %+v", last)
	}
}

// Requirement A20: a failed step ends the operation, which is recorded as failed, never as cancelled.
func TestRun_EndsAtTheStageThatFailedAndTellsOfEveryStep(t *testing.T) {
	var j journal
	fail := func(err error) func(context.Context, op.Env) error {
		return func(context.Context, op.Env) error { return err }
	}
	full := &cke.Error{Code: cke.CodeDiskFull, What: "no room"}
	r, err := runScript(t.Context(), &j, script{
		{step("one", fail(full)), step("two", fail(nil)), step("three", fail(errors.New("three failed")))},
		{step("never", fail(errors.New("ran")))},
	})
	var all op.StageError
	if !errors.As(err, &all) || len(all) != 2 || !errors.Is(err, full) {
		t.Fatalf("error %v", err)
	}
	if r.State != cke.RecordFailed || r.Code != cke.CodeDiskFull || r.Error != "n1: one: no room; n1: three: three failed" {
		t.Errorf("record %+v", r)
	}
	if got := steps(r); got != "one n1, two n1, three n1" {
		t.Errorf("steps %s", got)
	}
	if r.Steps[0].Error != "no room" || r.Steps[1].Error != "" {
		t.Errorf("errors of steps: %+v", r.Steps)
	}
}

func TestRun_IsInterruptedWhenTheTermEnds(t *testing.T) {
	var j journal
	ctx, cancel := context.WithCancelCause(t.Context())
	r, err := runScript(ctx, &j, script{{step("one", func(ctx context.Context, _ op.Env) error {
		cancel(cke.ErrDeposed)
		return ctx.Err()
	})}, {step("never", nil)}})
	if err == nil || r.State != cke.RecordInterrupted || j.last().State != cke.RecordInterrupted {
		t.Errorf("%v %+v", err, r)
	}
	r, err = runScript(t.Context(), &j, script{{step("one", func(context.Context, op.Env) error { return cke.ErrDeposed })}})
	if !errors.Is(err, cke.ErrDeposed) || r.State != cke.RecordInterrupted {
		t.Errorf("%v %+v", err, r)
	}
}

// Without a record nothing may run, and it counts as a failure, so that back-off holds the next try.
func TestRun_FailsWithoutRunningAnythingWhenItCannotBeRecorded(t *testing.T) {
	j := journal{fail: &cke.Error{Code: cke.CodeStore, What: "no answer"}}
	r, err := runScript(t.Context(), &j, script{{step("never", func(context.Context, op.Env) error { t.Error("ran"); return nil })}})
	if err == nil || r.State != cke.RecordFailed || r.Code != cke.CodeStore || r.Error == "" || r.EndedAt.IsZero() {
		t.Errorf("%v %+v", err, r)
	}
	j.fail = cke.ErrDeposed
	if r, _ := runScript(t.Context(), &j, script{{step("never", nil)}}); r.State != cke.RecordInterrupted {
		t.Errorf("deposed: %+v", r)
	}
}

func TestRun_BoundsEveryStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		wait := func(ctx context.Context, _ op.Env) error { <-ctx.Done(); return ctx.Err() }
		began := time.Now()
		short := step("short", wait)
		short.Limit = time.Second
		r, err := runScript(t.Context(), &j, script{{short, step("usual", wait)}})
		if took := time.Since(began); took != op.DefaultStepLimit || !errors.Is(err, context.DeadlineExceeded) || r.State != cke.RecordFailed {
			t.Errorf("after %v: %v %s", took, err, r.State)
		}
	})
}

func TestRun_StoresProgressSparingly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		r, err := runScript(t.Context(), &j, script{{step("load", func(ctx context.Context, e op.Env) error {
			for range 100 {
				e.Progress("some more")
				time.Sleep(10 * time.Millisecond)
			}
			e.Progress("all of it")
			return nil
		})}})
		if err != nil || r.Steps[0].Progress != "all of it" {
			t.Errorf("%v %+v", err, r.Steps)
		}
		if n := len(j.versions); n < 3 || n > 6 {
			t.Errorf("%d versions stored in one second", n)
		}
	})
}

// Who follows an operation sees that a step has ended while others run, however soon after the last write it ended.
func TestRun_StoresTheEndOfAStepWhileOthersRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		ends := func(name string, after time.Duration) op.Step {
			return step(name, func(ctx context.Context, e op.Env) error { return e.Pause(ctx, after) })
		}
		r, err := runScript(t.Context(), &j, script{{ends("at once", 0), ends("soon", 10*time.Millisecond), step("long", func(ctx context.Context, e op.Env) error {
			if err := e.Pause(ctx, time.Second); err != nil {
				return err
			}
			for _, s := range j.last().Steps[:2] {
				if s.EndedAt.IsZero() || s.EndedAt.Sub(s.StartedAt) > 20*time.Millisecond {
					t.Errorf("on record while another step runs: %+v", s)
				}
			}
			return nil
		})}})
		if took := r.EndedAt.Sub(r.StartedAt); err != nil || took != time.Second {
			t.Errorf("%v, after %s", err, took)
		}
		if n := len(j.versions); n != 3 {
			t.Errorf("%d versions stored, want the start, the ends of both, and the end", n)
		}
	})
}

func TestStageError_NamesNodeAndStep(t *testing.T) {
	err := op.StageError{{Step: "image", Node: "n1", Err: errors.New("gone")}, {Step: "record", Err: errors.New("no")}}
	if got := err.Error(); !strings.Contains(got, "n1: image: gone") || !strings.HasSuffix(got, "record: no") {
		t.Error(got)
	}
}

func TestRun_APanicInAStepFailsTheStepAndNothingElse(t *testing.T) {
	var j journal
	ran := false
	r, err := runScript(t.Context(), &j, script{
		{step("one", func(context.Context, op.Env) error { panic("no such index") }), step("two", func(context.Context, op.Env) error {
			ran = true
			return nil
		})},
		{step("never", nil)},
	})
	if err == nil || r.State != cke.RecordFailed || r.Code != cke.CodeInternal || !strings.Contains(r.Error, "one: fault in cke: no such index") || !ran {
		t.Errorf("%v %+v, the other step ran: %v", err, r, ran)
	}
	if last := j.last(); last.State != cke.RecordFailed || last.Steps[0].Error == "" || last.Steps[0].EndedAt.IsZero() {
		t.Errorf("on record %+v", last)
	}
}

// slowJournal answers the first write only when it is told to, and not after its context has ended.
type slowJournal struct {
	journal
	asked, answer chan struct{}
}

func (j *slowJournal) AppendRecord(ctx context.Context, r cke.Record) (cke.Record, error) {
	close(j.asked)
	select {
	case <-j.answer:
		return j.journal.AppendRecord(ctx, r)
	case <-ctx.Done():
		return r, ctx.Err()
	}
}

func TestRun_TheFirstWriteIsWaitedForAWhileWhenTheTermEndsInIt(t *testing.T) {
	for _, answers := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			j := &slowJournal{asked: make(chan struct{}), answer: make(chan struct{})}
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-j.asked
				cancel()
				if answers {
					synctest.Wait()
					close(j.answer)
				}
			}()
			began := time.Now()
			e := op.Env{Cluster: "demo", Now: time.Now, Pause: pause, Log: slog.New(slog.DiscardHandler)}
			r, err := op.Run(ctx, e, j, cke.Record{}, script{{step("one", func(context.Context, op.Env) error {
				t.Error("a step ran after the term")
				return nil
			})}})
			if !errors.Is(err, context.Canceled) || r.State != cke.RecordInterrupted {
				t.Errorf("%v %+v", err, r)
			}
			if answers && (len(j.versions) != 2 || j.last().State != cke.RecordInterrupted) {
				t.Errorf("on record %+v", j.versions)
			}
			if took := time.Since(began); !answers && (len(j.versions) != 0 || took == 0 || took > time.Second) {
				t.Errorf("gave up after %s, on record %+v", took, j.versions)
			}
		})
	}
}

// stuckJournal takes as long as its callers let it.
type stuckJournal struct{ journal }

func (j *stuckJournal) PutRecord(ctx context.Context, r cke.Record) error {
	if r.State == cke.RecordRunning {
		<-ctx.Done()
		return ctx.Err()
	}
	return j.journal.PutRecord(ctx, r)
}

func TestRun_AStoreThatHangsHoldsUpNoStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j stuckJournal
		e := op.Env{Cluster: "demo", Now: time.Now, Pause: pause, Log: slog.New(slog.DiscardHandler)}
		tells := step("tells", func(_ context.Context, e op.Env) error { e.Progress("something"); return nil })
		works := step("works", func(ctx context.Context, e op.Env) error { return e.Pause(ctx, time.Second) })
		r, err := op.Run(t.Context(), e, &j, cke.Record{}, script{{tells, works}})
		if err != nil || r.State != cke.RecordCompleted {
			t.Fatalf("%v %+v", err, r)
		}
		if took := r.Steps[1].EndedAt.Sub(r.Steps[1].StartedAt); took > 2*time.Second {
			t.Errorf("a step that needs a second ended after %v", took)
		}
	})
}
