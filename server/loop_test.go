package server_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"cke"
)

// gate lets a call on a node wait until it is opened, or until ctx ends.
func gate(call string) (do func(ctx context.Context, call, node string) error, open func()) {
	opened := make(chan struct{})
	return func(ctx context.Context, c, _ string) error {
		if c != call {
			return nil
		}
		select {
		case <-opened:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}, func() { close(opened) }
}

// Requirements N13, C13, D9: one change, then a look.
func TestLoop_RunsOneOperationAtATime(t *testing.T) {
	onStage(t, formed(3).stopped(1), func(g *stage) {
		var open func()
		g.do, open = gate("start")
		p := g.perform()
		// It is on record and told before anything else happens.
		s := g.status()
		if s.Operation == nil || s.Operation.ID != 1 || s.Operation.Type != "start-members" || s.Operation.State != cke.RecordRunning || s.LastOperation != nil {
			t.Errorf("operation in the status: %+v", s.Operation)
		}
		if c := condition(s, cke.CondProgressing); c != "True Operation" || s.Reason == "" || s.Leader.Term != 1 {
			t.Errorf("progressing %s, %q, leader %+v", c, s.Reason, s.Leader)
		}
		for range 20 {
			p.nodes.wake()
			p.term.wake()
			g.pass(700 * time.Millisecond)
		}
		if got := g.told(); !cmp.Equal(got, []string{"1 start-members running"}) {
			t.Errorf("history %v", got)
		}
		open()
		synctest.Wait()
		s = g.status()
		if s.Operation != nil || s.LastOperation == nil || s.LastOperation.ID != 1 || s.LastOperation.State != cke.RecordCompleted {
			t.Errorf("operation %+v, last operation %+v", s.Operation, s.LastOperation)
		}
		if s.Health != cke.HealthReady || s.ObservedGeneration != 1 {
			t.Errorf("%s, generation %d", s.Health, s.ObservedGeneration)
		}
		if got, calls := g.told(), g.called(); !cmp.Equal(got, []string{"1 start-members completed"}) || !cmp.Equal(calls, []string{"start n1"}) {
			t.Errorf("history %v, calls %v", got, calls)
		}
		if err := p.over(); !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestLoop_RetriesAFailedOperationWithGrowingPauses(t *testing.T) {
	onStage(t, formed(3).stopped(1), func(g *stage) {
		var tries []time.Time
		full := &cke.Error{Code: cke.CodeDiskFull, What: "no room"}
		g.do = func(context.Context, string, string) error {
			tries = append(tries, time.Now())
			return full
		}
		p := g.perform()
		g.pass(0)
		s := g.status()
		if s.Operation != nil || s.LastOperation == nil || s.LastOperation.State != cke.RecordFailed || !strings.Contains(s.LastOperation.Description, "no room") {
			t.Errorf("last operation %+v", s.LastOperation)
		}
		if len(s.LastErrors) != 1 || s.LastErrors[0].Code != cke.CodeDiskFull || !strings.Contains(s.Reason, "failed once and is tried again in") {
			t.Errorf("last errors %+v, reason %q", s.LastErrors, s.Reason)
		}
		if c := condition(s, cke.CondProgressing); c != "False Failing" || s.Problems[0].Code != cke.CodeDiskFull || s.Problems[0].Node != "n1" || s.Problems[0].Remedy == "" {
			t.Errorf("progressing %s, problems %+v", c, s.Problems)
		}
		g.pass(10 * time.Minute)
		synctest.Wait()
		var before time.Duration
		for i := 1; i < len(tries); i++ {
			pause := tries[i].Sub(tries[i-1])
			if pause < 800*time.Millisecond || pause > 37*time.Second || i < 5 && pause <= before {
				t.Errorf("pause %d is %s, after %s", i, pause, before)
			}
			before = pause
		}
		if n := len(tries); n < 15 || n > 35 {
			t.Errorf("%d tries in ten minutes", n)
		}
		if got := g.told(); len(got) != len(tries) {
			t.Errorf("%d records of %d tries", len(got), len(tries))
		}
		g.change(func() { g.do = nil })
		g.pass(time.Minute)
		if s := g.status(); s.Health != cke.HealthReady || s.LastErrors != nil || s.LastOperation.State != cke.RecordCompleted {
			t.Errorf("%s, last errors %+v, last operation %+v", s.Health, s.LastErrors, s.LastOperation)
		}
		// The next failure is a first one again.
		g.change(func() {
			g.scene.stopped(1)
			g.do = func(context.Context, string, string) error { return full }
		})
		p.nodes.wake()
		g.pass(0)
		if s := g.status(); !strings.Contains(s.Reason, "failed once and") {
			t.Errorf("reason %q", s.Reason)
		}
		p.over()
	})
}

func TestLoop_AnOperationWithoutALastingEffectIsNotRepeatedAtOnce(t *testing.T) {
	onStage(t, formed(3).stopped(1), func(g *stage) {
		g.storeDo = func(_ context.Context, call string) error {
			if call == "put-record completed" {
				g.change(func() { g.scene.stopped(1) })
			}
			return nil
		}
		p := g.perform()
		s := g.status()
		if s.Operation != nil || !strings.Contains(s.Reason, "start-members completed once and is needed again") || s.Health != cke.HealthDegraded {
			t.Errorf("%s, %q", s.Health, s.Reason)
		}
		g.pass(10 * time.Second)
		if n := len(g.told()); n < 7 || n > 9 {
			t.Errorf("%d operations in ten seconds", n)
		}
		p.over()
	})
}

func TestLoop_ForgetsAFailureThatIsLongPast(t *testing.T) {
	onStage(t, formed(3).stopped(1).silent(2), func(g *stage) {
		g.do = func(context.Context, string, string) error { return errors.New("not now") }
		p := g.perform()
		g.change(func() { g.scene.started(1) }) // by the engine; n2 stays silent, so that not all is well
		g.pass(time.Minute)
		if s := g.status(); len(s.LastErrors) != 1 || condition(s, cke.CondProgressing) != "False Waiting" {
			t.Errorf("last errors %+v, progressing %s", s.LastErrors, condition(s, cke.CondProgressing))
		}
		g.pass(time.Hour)
		if s := g.status(); len(s.LastErrors) != 0 {
			t.Errorf("last errors %+v", s.LastErrors)
		}
		p.over()
	})
}

// Requirement N13: a change is not waited for until the next probe.
func TestLoop_WakesOnAChangeInTheStore(t *testing.T) {
	onStage(t, formed(3), func(g *stage) {
		p := g.perform()
		g.pass(time.Second)
		g.change(func() { g.scene.Generation = 2 })
		p.term.wake()
		synctest.Wait()
		if s := g.status(); s.Generation != 2 || s.ObservedGeneration != 2 || g.retries != 1 {
			t.Errorf("generation %d, reached %d, %d retries", s.Generation, s.ObservedGeneration, g.retries)
		}
		p.over()
	})
}

// Requirements N13, C13: an event on a node is not waited for until the next probe.
func TestLoop_WakesOnAChangeOnANode(t *testing.T) {
	onStage(t, formed(3), func(g *stage) {
		p := g.perform()
		g.pass(time.Second)
		began := time.Now()
		g.change(func() { g.scene.stopped(2) })
		p.nodes.wake()
		synctest.Wait()
		if got := g.told(); !cmp.Equal(got, []string{"1 start-members completed"}) || time.Since(began) > busyPause {
			t.Errorf("history %v after %s", got, time.Since(began))
		}
		p.over()
	})
}

// busyPause is the least pause between two looks while an operation runs.
const busyPause = 500 * time.Millisecond

func TestLoop_WakeUpsDuringALookMakeOneMore(t *testing.T) {
	onStage(t, formed(3), func(g *stage) {
		p := g.perform()
		before := g.looked()
		hold := make(chan struct{})
		var once sync.Once
		g.change(func() { g.look = func() { once.Do(func() { <-hold }) } })
		p.nodes.wake()
		synctest.Wait()
		for range 100 {
			p.nodes.wake()
			p.term.wake()
		}
		close(hold)
		g.pass(0)
		if n := g.looked() - before; n < 2 || n > 3 {
			t.Errorf("%d looks", n)
		}
		p.over()
	})
}

// Requirements A2, N7, D8: looked at periodically, and told with the time of the look.
func TestLoop_StoresTheStatusWhenItTellsSomethingNewOrGrowsOld(t *testing.T) {
	for _, tt := range []struct {
		every time.Duration
		looks int
	}{{probe, 12}, {time.Hour, 6}} {
		onStage(t, formed(3), func(g *stage) {
			p := g.performEvery(tt.every)
			looks, stored := g.looked(), g.stored()
			g.pass(time.Minute)
			if l, s := g.looked()-looks, g.stored()-stored; l != tt.looks || s != 6 {
				t.Errorf("%d looks and %d writes in a minute with a probe every %s", l, s, tt.every)
			}
			// Counters that move all the time are no news.
			stored = g.stored()
			for range 5 {
				g.change(func() {
					e := g.scene.endpoint(1)
					e.RaftIndex, e.RaftApplied, e.DBSize, e.Revision = e.RaftIndex+9, e.RaftApplied+9, e.DBSize+4096, e.Revision+9
				})
				p.nodes.wake()
				g.pass(0)
			}
			if n := g.stored() - stored; n > 1 { // the first ones tell the lag
				t.Errorf("%d writes of counters", n)
			}
			p.over()
		})
	}
}

func TestLoop_StoresTheStatusAgainWhenTheStoreDidNotTakeIt(t *testing.T) {
	onStage(t, formed(3), func(g *stage) {
		down := true
		g.storeDo = func(_ context.Context, call string) error {
			if call == "put-status" && down {
				return errors.New("not now")
			}
			return nil
		}
		p := g.perform()
		g.pass(probe)
		g.change(func() { down = false })
		g.pass(probe)
		if g.stored() != 1 {
			t.Errorf("%d statuses", g.stored())
		}
		p.over()
	})
}

// The end of an operation that the store did not take note of is stored later, in the same term.
func TestLoop_LooksOftenOnlyWhileALeaderMayBeElected(t *testing.T) {
	onStage(t, formed(3), func(g *stage) {
		p := g.perform()
		g.change(func() { g.scene.silent(2, 3).lost() })
		p.nodes.wake()
		g.pass(2 * time.Second)
		before := g.looked()
		g.change(func() { // n2 is back and votes
			g.scene.node(2).Problem = nil
		})
		p.nodes.wake()
		g.pass(time.Second)
		if n := g.looked() - before; n < 10 {
			t.Errorf("%d looks in a second after a member came back", n)
		}
		g.pass(10 * time.Second)
		before = g.looked()
		g.pass(10 * time.Minute)
		if n := g.looked() - before; n > 121 {
			t.Errorf("%d looks in ten minutes without a quorum", n)
		}
		p.over()
	})
}

func TestLoop_AnOperationThatIsSupersededMakesRoom(t *testing.T) {
	onStage(t, formed(5).stopped(1), func(g *stage) {
		var once atomic.Bool
		g.do = func(ctx context.Context, _, _ string) error {
			if once.CompareAndSwap(false, true) {
				return hang(ctx)
			}
			return nil
		}
		p := g.perform()
		g.change(func() { g.scene.stopped(2) })
		g.pass(busyPause)
		if got := g.told(); !cmp.Equal(got, []string{"1 start-members interrupted", "2 start-members completed"}) {
			t.Errorf("history %v", got)
		}
		if g.records[0].Error == "" || !strings.Contains(g.records[0].Error, "n2 stopped meanwhile") {
			t.Errorf("error %q", g.records[0].Error)
		}
		p.over()
	})
}

func TestLoop_ASuccessClearsItsFailureAlsoWhereNotAllIsWell(t *testing.T) {
	onStage(t, formed(3).stopped(1).silent(2), func(g *stage) {
		g.do = func(context.Context, string, string) error { return errors.New("not now") }
		p := g.perform()
		g.pass(0)
		if s := g.status(); len(s.LastErrors) != 1 {
			t.Errorf("last errors %+v", s.LastErrors)
		}
		g.change(func() { g.do = nil })
		g.pass(time.Minute)
		if s := g.status(); len(s.LastErrors) != 0 || s.Health != cke.HealthDegraded {
			t.Errorf("%s, last errors %+v", s.Health, s.LastErrors)
		}
		p.over()
	})
}

// Requirement A4: what is under way ends at once, and the finding is recorded.
func TestLoop_EndsWhatIsUnderWayWhenASplitBrainIsSeen(t *testing.T) {
	onStage(t, formed(5).stopped(1), func(g *stage) {
		g.do = func(ctx context.Context, _, _ string) error { return hang(ctx) }
		p := g.perform()
		g.change(func() { g.scene.endpoint(2).ClusterID = "c2" })
		g.pass(busyPause)
		if s := g.status(); s.Health != cke.HealthFrozen || s.Operation != nil || condition(s, cke.CondClusterIDMismatch) != "True Frozen" {
			t.Errorf("%s, operation %+v", s.Health, s.Operation)
		}
		if f := g.scene.Identity.Freeze; !f.Active() {
			t.Errorf("%+v", f)
		}
		p.over()
	})
}
