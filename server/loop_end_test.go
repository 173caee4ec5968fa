package server_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cke"
	"cke/server"
)

func TestLoop_ADeposedLeaderDoesNothingMore(t *testing.T) {
	onStage(t, formed(3).stopped(1), func(g *stage) {
		g.do = func(ctx context.Context, _, _ string) error { return hang(ctx) }
		p := g.perform()
		g.pass(time.Minute)
		stored := g.stored()
		p.term.end(cke.ErrDeposed)
		if p.runs() || !errors.Is(p.err, cke.ErrDeposed) {
			t.Fatalf("runs on, or ended with %v", p.err)
		}
		g.pass(time.Minute)
		if got := g.told(); !cmp.Equal(got, []string{"1 start-members running"}) || g.stored() != stored {
			t.Errorf("history %v, %d statuses after the term", got, g.stored()-stored)
		}
		if calls := g.called(); len(calls) != 1 || g.open != 0 {
			t.Errorf("calls %v, %d connections", calls, g.open)
		}
		if s := g.status(); s.Operation == nil {
			t.Fatal("the old status does not tell of the operation")
		}

		// The next leader closes the record and does not tell of it as if it ran.
		g.change(func() { g.do = nil })
		p = g.perform()
		if got := g.told(); !cmp.Equal(got, []string{"1 start-members interrupted", "2 start-members completed"}) {
			t.Errorf("history %v", got)
		}
		p.over()
	})
}

func TestLoop_GoesOnFromWhatTheTermBeforeTold(t *testing.T) {
	onStage(t, formed(3), func(g *stage) {
		g.perform().over()
		ready := g.status()
		g.pass(time.Hour)
		g.change(func() {
			g.scene.Generation = 2
			g.scene.silent(3)
			ready.LastOperation = &cke.OperationStatus{ID: 6, Type: "restore", State: cke.RecordFailed, Time: ready.ObservedAt.Add(-time.Minute)}
			ready.Operation = &cke.OperationStatus{ID: 7, Type: "drain", State: cke.RecordRunning, Description: "it was asked for"}
			g.statuses = append(g.statuses, ready)
		})
		p := g.perform()
		s := g.status()
		if s.ObservedGeneration != 1 || s.Generation != 2 || s.Leader.Term != 2 {
			t.Errorf("generation %d, reached %d, leader %+v", s.Generation, s.ObservedGeneration, s.Leader)
		}
		before, _ := ready.Condition(cke.CondQuorate)
		if now, _ := s.Condition(cke.CondQuorate); !now.Since.Equal(before.Since) || !s.Members[0].Since.Equal(ready.Members[0].Since) {
			t.Errorf("times were lost: %+v, %+v", now, s.Members[0])
		}
		if !s.Members[2].Since.After(ready.Members[2].Since) {
			t.Errorf("the silent member: %+v", s.Members[2])
		}
		last := s.LastOperation
		if last != nil && !last.Time.Equal(ready.ObservedAt) {
			t.Errorf("it ran until %s, and is reported to have ended at %s", ready.ObservedAt, last.Time)
		}
		if !s.RestoreWorkedAt.Equal(ready.LastOperation.Time) {
			t.Errorf("a restore worked at %s, and is reported to have at %s", ready.LastOperation.Time, s.RestoreWorkedAt)
		}
		if s.Operation != nil || last == nil || last.ID != 7 || last.State != cke.RecordInterrupted || last.Description != "boot-1 stopped leading while this ran" {
			t.Errorf("operation %+v, last %+v", s.Operation, last)
		}
		p.over()
	})
}

func TestLoop_ResignsBetweenOperationsOnly(t *testing.T) {
	onStage(t, formed(5).stopped(1), func(g *stage) {
		var open func()
		g.do, open = gate("start")
		p := g.perform()
		p.term.askToResign()
		p.term.wake()
		g.pass(2 * time.Second)
		if !p.runs() {
			t.Fatal("it resigned while an operation ran")
		}
		g.change(func() { // so that there is something to do next
			g.scene.node(2).Containers[0].Cluster, g.scene.node(2).Containers[0].Join = "demo", "other"
		})
		open()
		if p.runs() || !errors.Is(p.err, server.ErrResigned) {
			t.Fatalf("runs on, or ended with %v", p.err)
		}
		if got := g.told(); !cmp.Equal(got, []string{"1 start-members completed"}) {
			t.Errorf("history %v", got)
		}
	})
	onStage(t, formed(3), func(g *stage) {
		p := g.perform()
		p.term.askToResign()
		p.term.wake()
		if p.runs() || !errors.Is(p.err, server.ErrResigned) {
			t.Errorf("runs on, or ended with %v", p.err)
		}
	})
}

func TestLoop_EndsWithTheCluster(t *testing.T) {
	onStage(t, formed(3), func(g *stage) {
		p := g.perform()
		g.change(func() { g.scene.Deleting = true })
		p.term.wake()
		if p.runs() || !errors.Is(p.err, cke.ErrDeposed) && !errors.Is(p.err, cke.ErrNotFound) {
			t.Fatalf("runs on, or ended with %v", p.err)
		}
		calls := g.called()
		slices.Sort(calls)
		if !cmp.Equal(calls, []string{"mark n1", "mark n2", "mark n3", "remove n1", "remove n2", "remove n3", "stop n1", "stop n2", "stop n3"}) || g.stored() != 0 {
			t.Errorf("calls %v, %d statuses afterwards", calls, g.stored())
		}
	})
	onStage(t, formed(3), func(g *stage) { // whoever did it
		p := g.perform()
		g.change(func() { g.gone = true })
		p.term.wake()
		if p.runs() || !errors.Is(p.err, cke.ErrNotFound) {
			t.Errorf("runs on, or ended with %v", p.err)
		}
	})
}

func TestLoop_APanicInAnOperationIsAFailureOfIt(t *testing.T) {
	for _, tt := range []struct {
		name  string
		panic func(g *stage, on *bool)
		want  []string
	}{
		{"in a step", func(g *stage, on *bool) {
			g.do = func(context.Context, string, string) error {
				if *on {
					panic("no such node")
				}
				return nil
			}
		}, []string{"1 start-members failed", "2 start-members completed"}},
		{"before it is on record", func(g *stage, on *bool) {
			g.storeDo = func(_ context.Context, call string) error {
				if *on && call == "append-record" {
					panic("no such record")
				}
				return nil
			}
		}, []string{"1 start-members completed"}},
		{"when it was on record", func(g *stage, on *bool) {
			g.storeDo = func(_ context.Context, call string) error {
				if *on && call == "put-record running" {
					panic("no such record")
				}
				return nil
			}
		}, []string{"1 start-members failed"}}, // n1 had been started
	} {
		t.Run(tt.name, func(t *testing.T) {
			onStage(t, formed(3).stopped(1), func(g *stage) {
				on := true
				tt.panic(g, &on)
				p := g.perform()
				s := g.status()
				if len(s.LastErrors) == 0 && s.Health != cke.HealthReady || s.LastOperation == nil || !strings.Contains(s.LastOperation.Description, "fault in cke: no such") {
					t.Errorf("last operation %+v, last errors %+v", s.LastOperation, s.LastErrors)
				}
				g.change(func() { on = false })
				g.pass(time.Minute)
				if got := g.told(); !cmp.Equal(got, tt.want) || !p.runs() {
					t.Errorf("history %v", got)
				}
				p.over()
			})
		})
	}
}

func TestLoop_LeavesNoRecordRunningWhenItEnds(t *testing.T) {
	onStage(t, formed(3).stopped(1), func(g *stage) {
		g.do = func(ctx context.Context, _, _ string) error { return hang(ctx) }
		p := g.perform()
		g.pass(3 * time.Second)
		began := time.Now()
		p.over()
		if took := time.Since(began); took > 0 {
			t.Errorf("took %s", took)
		}
		if got := g.told(); !cmp.Equal(got, []string{"1 start-members interrupted"}) {
			t.Errorf("history %v", got)
		}
		s := g.status()
		if s.Operation != nil || s.LastOperation.State != cke.RecordInterrupted || s.Reason != "boot-1 no longer leads; start-members ended as interrupted" {
			t.Errorf("operation %+v, last operation %+v, reason %q", s.Operation, s.LastOperation, s.Reason)
		}
	})
}

func TestLoop_EndsInTimeWhenTheStoreHangs(t *testing.T) {
	for _, when := range []string{"spec", "identity", "interrupt-running", "status", "put-status", "append-record", "put-record running", "put-record interrupted"} {
		t.Run(when, func(t *testing.T) {
			onStage(t, formed(3).stopped(1), func(g *stage) {
				var hangs atomic.Bool
				g.storeDo = func(ctx context.Context, call string) error {
					if call == when {
						hangs.Store(true)
					}
					if hangs.Load() {
						return hang(ctx)
					}
					return nil
				}
				g.do = func(ctx context.Context, _, _ string) error {
					if when == "put-record running" {
						return nil // a step later it is stored
					}
					return hang(ctx)
				}
				p := g.perform()
				g.pass(3 * time.Second)
				began := time.Now()
				p.over()
				if took := time.Since(began); took > 2500*time.Millisecond {
					t.Errorf("took %s", took)
				}
			})
		})
	}
}

func TestLoop_StoresHowAnOperationEndedOnceTheStoreAnswers(t *testing.T) {
	onStage(t, formed(3).stopped(1), func(g *stage) {
		down := true
		g.storeDo = func(ctx context.Context, call string) error {
			if down && call == "put-record completed" {
				return hang(ctx)
			}
			return nil
		}
		p := g.perform()
		g.pass(4 * time.Second)
		if got := g.told(); !cmp.Equal(got, []string{"1 start-members running"}) {
			t.Fatalf("history %v", got)
		}
		if s := g.status(); s.Operation != nil || s.LastOperation.State != cke.RecordCompleted {
			t.Errorf("operation %+v, last operation %+v", s.Operation, s.LastOperation)
		}
		g.change(func() { down = false })
		g.pass(probe)
		if got := g.told(); !cmp.Equal(got, []string{"1 start-members completed"}) {
			t.Errorf("history %v", got)
		}
		p.over()
	})
}

func TestLoop_GoesOnWhenTheStoreAnswersAgain(t *testing.T) {
	for _, call := range []string{"spec", "identity", "append-record", "put-status", "status", "interrupt-running"} {
		onStage(t, formed(3).stopped(1), func(g *stage) {
			down := true
			g.storeDo = func(_ context.Context, c string) error {
				if down && c == call {
					return &cke.Error{Code: cke.CodeStore, What: "the store does not answer"}
				}
				return nil
			}
			p := g.perform()
			g.pass(20 * time.Second)
			if !p.runs() {
				t.Fatalf("%s: ended with %v", call, p.err)
			}
			g.change(func() { down = false })
			g.pass(40 * time.Second)
			if s := g.status(); s.Health != cke.HealthReady {
				t.Errorf("%s: %s, %s", call, s.Health, s.Reason)
			}
			p.over()
		})
	}
}

// What was told and done before is worth much, and not the leadership.
func TestLoop_LeadsAlsoWhereTheWordsOfEarlierTermsCannotBeRead(t *testing.T) {
	for _, call := range []string{"status", "interrupt-running"} {
		onStage(t, formed(3).stopped(1), func(g *stage) {
			g.storeDo = func(_ context.Context, c string) error {
				if c == call {
					return fmt.Errorf("decode /cke/records/demo/7: %w: unexpected end of JSON input", cke.ErrMalformed)
				}
				return nil
			}
			p := g.perform()
			g.pass(time.Second)
			if s := g.status(); s.Health != cke.HealthReady {
				t.Errorf("%s: %s, %s", call, s.Health, s.Reason)
			}
			p.over()
		})
	}
}
