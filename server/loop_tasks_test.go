package server_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"cke"
	"cke/server/strategy/scenes"
)

// wish lets a person ask for a task.
func (p *performance) wish(kind cke.TaskKind, node string) cke.Task {
	t := cke.NewTask(kind, node, "", "ann@boot-1", time.Now())
	p.stage.mu.Lock()
	p.term.requests.Tasks = append(p.term.requests.Tasks, t)
	p.stage.mu.Unlock()
	p.term.wake()
	synctest.Wait()
	return t
}

// What was asked for is answered once: the record carries the task, and neither a refusal nor another wish like it waits.
func TestLoop_AnswersATaskOnce(t *testing.T) {
	onStage(t, formed(3), func(g *stage) {
		p := g.perform()
		for range 2 {
			task := p.wish(cke.TaskMoveLeader, "n9")
			g.pass(10 * time.Millisecond)
			r := g.records[len(g.records)-1]
			if r.Task != task.ID || r.State != cke.RecordFailed || r.Refusal == nil || len(p.term.Requests().Tasks) != 0 {
				t.Errorf("%+v, left are %v", r, p.term.Requests().Tasks)
			}
		}
		if got := g.told(); !cmp.Equal(got, []string{"1 move-leader failed", "2 move-leader failed"}) {
			t.Errorf("history %v", got)
		}
		if s := g.status(); len(s.LastErrors) > 0 || s.Health != cke.HealthReady {
			t.Errorf("a refused wish is told as a fault: %s %v", s.Health, s.LastErrors)
		}
		if o := g.status().LastOperation; o == nil || o.Outcome() != "refused" || o.State != cke.RecordFailed || o.Code != cke.CodeCannot || !strings.HasPrefix(o.Description, "cluster demo has no node") {
			t.Errorf("a refused wish is told as %+v", o)
		}
		_ = p.over()
	})
}

// One that could not be recorded was not begun, and is not forgotten.
func TestLoop_DoesNotForgetATaskThatWasNotRecorded(t *testing.T) {
	onStage(t, formed(3), func(g *stage) {
		p := g.perform()
		g.refuses("append-record")
		p.wish(cke.TaskMoveLeader, "n9")
		g.pass(time.Minute)
		if len(p.term.Requests().Tasks) != 1 {
			t.Error("the task is gone")
		}
		g.change(func() { g.storeDo = nil })
		g.pass(time.Minute)
		if got := g.told(); !cmp.Equal(got, []string{"1 move-leader failed"}) || len(p.term.Requests().Tasks) != 0 {
			t.Errorf("history %v", got)
		}
		_ = p.over()
	})
}

// The watch of a store that was brought back may have a task that the store refuses: it is not begun again.
func TestLoop_BeginsATaskThatTheStoreRefusesOnce(t *testing.T) {
	onStage(t, formed(3).with(func(s *scene) { s.Seen.Etcd.Quorate = true }), func(g *stage) {
		p := g.perform()
		begun := 0
		g.mu.Lock()
		g.storeDo = func(_ context.Context, call string) error {
			if call != "append-record" {
				return nil
			}
			if begun++; begun > 500 {
				return errors.New("enough")
			}
			return fmt.Errorf("the task was withdrawn: %w", cke.ErrConflict)
		}
		g.mu.Unlock()
		p.wish(cke.TaskMoveLeader, "n9")
		g.pass(time.Minute)
		g.mu.Lock()
		n := begun
		g.mu.Unlock()
		if n != 1 {
			t.Errorf("begun %d times", n)
		}
		_ = p.over()
	})
}

// An operator has to decide about tasks of a record that cannot be read: the status says so, and everything else continues.
func TestLoop_ReportsARecordThatKeepsTasksWaiting(t *testing.T) {
	onStage(t, formed(3).stopped(1), func(g *stage) {
		g.storeDo = func(_ context.Context, call string) error {
			if call == "interrupt-running" {
				return &cke.Error{Code: cke.CodeRecord, What: "record 7 cannot be decoded", Facts: []string{"task x"}, Try: "ckecli task cancel x"}
			}
			return nil
		}
		p := g.perform()
		p.wish(cke.TaskMoveLeader, "n9")
		g.pass(time.Minute)
		s := g.status()
		reported := func(s cke.Status) bool {
			return slices.ContainsFunc(s.Problems, func(p cke.Problem) bool {
				return p.Code == cke.CodeRecord && strings.Contains(p.Message, "record 7") && strings.Contains(p.Message, "task x") && p.Remedy == "ckecli task cancel x"
			})
		}
		if !reported(s) || s.Ready != 3 || len(p.term.Requests().Tasks) != 1 {
			t.Errorf("problems %+v, %d members are ready, tasks %v", s.Problems, s.Ready, p.term.Requests().Tasks)
		}
		g.change(func() { g.storeDo = nil })
		g.pass(time.Minute)
		if s := g.status(); reported(s) || len(p.term.Requests().Tasks) != 0 {
			t.Errorf("problems %+v, tasks %v", s.Problems, p.term.Requests().Tasks)
		}
		_ = p.over()
	})
}

// The last status of a term, which reports how an operation ended, says why tasks wait.
func TestLoop_ReportsAtItsEndWhyTasksWait(t *testing.T) {
	onStage(t, formed(3).stopped(1), func(g *stage) {
		g.do = func(ctx context.Context, _, _ string) error { return hang(ctx) }
		g.storeDo = func(_ context.Context, call string) error {
			if call == "interrupt-running" {
				return &cke.Error{Code: cke.CodeRecord, What: "record 7 cannot be decoded", Try: "ckecli task cancel x"}
			}
			return nil
		}
		p := g.perform()
		g.pass(3 * time.Second)
		_ = p.over()
		s := g.status()
		if !slices.ContainsFunc(s.Problems, func(p cke.Problem) bool { return p.Code == cke.CodeRecord }) || s.Operation != nil {
			t.Errorf("operation %+v, problems %+v", s.Operation, s.Problems)
		}
	})
}

// A task that waits for the records of earlier terms keeps nothing else waiting.
func TestLoop_ContinuesWhileTasksWaitForRecords(t *testing.T) {
	for name, fails := range map[string]error{
		"a record cannot be read":          &cke.Error{Code: cke.CodeRecord, What: "record 7 cannot be decoded", Try: "ckecli task cancel x"},
		"the store does not close records": errors.New("the store does not answer"),
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, formed(3).with(func(s *scene) { s.Seen.Etcd.Quorate = true }), func(g *stage) {
				g.storeDo = func(_ context.Context, call string) error {
					if call == "interrupt-running" {
						return fails
					}
					return nil
				}
				p := g.perform()
				p.wish(cke.TaskCancelRestore, "")
				g.pass(time.Minute)
				g.change(func() { scenes.Stop(&g.scene.Input, 1) })
				g.pass(time.Minute)
				if s := g.status(); s.Ready != 3 || len(p.term.Requests().Tasks) != 1 {
					t.Errorf("%d members are ready: %s; tasks %v; history %v", s.Ready, s.Reason, p.term.Requests().Tasks, g.told())
				}
				_ = p.over()
			})
		})
	}
}

// What earlier terms left is not closed yet: a task that is still in the store may be on record as carried out.
func TestLoop_BeginsNoTaskBeforeTheRecordsAreClosed(t *testing.T) {
	onStage(t, formed(3), func(g *stage) {
		g.refuses("interrupt-running")
		p := g.perform()
		p.wish(cke.TaskMoveLeader, "n9")
		g.pass(time.Minute)
		if got := g.told(); len(got) > 0 {
			t.Errorf("history %v", got)
		}
		g.change(func() { g.storeDo = nil })
		g.pass(time.Minute)
		if got := g.told(); !cmp.Equal(got, []string{"1 move-leader failed"}) || len(p.term.Requests().Tasks) != 0 {
			t.Errorf("history %v", got)
		}
		_ = p.over()
	})
}

// The cluster file or the identity cannot be decoded: nothing is decided, and the status says so with what was last known.
func TestLoop_ReportsAClusterThatCannotBeDecoded(t *testing.T) {
	for _, what := range []string{"spec", "identity"} {
		t.Run(what, func(t *testing.T) {
			onStage(t, formed(3), func(g *stage) {
				p := g.perform()
				g.pass(time.Minute)
				g.change(func() {
					g.storeDo = func(_ context.Context, call string) error {
						if call == what {
							return &cke.Error{Code: cke.CodeStored, What: "KEY cannot be decoded", Try: "bring it back"}
						}
						return nil
					}
					scenes.Stop(&g.scene.Input, 1)
				})
				g.pass(time.Minute)
				s := g.status()
				if s.Health != cke.HealthUnknown || len(s.Problems) != 1 || s.Problems[0].Code != cke.CodeStored || s.Problems[0].Since.IsZero() || s.Problems[0].Remedy != "bring it back" || len(s.Members) != 3 || len(g.told()) > 0 {
					t.Errorf("%s, problems %+v, %d members, history %v", s.Health, s.Problems, len(s.Members), g.told())
				}
				n := g.stored()
				g.pass(9 * time.Second)
				if m := g.stored(); m > n+1 {
					t.Errorf("%d statuses without news", m-n)
				}
				g.change(func() { g.storeDo = nil })
				g.pass(time.Minute)
				if s := g.status(); s.Ready != 3 || s.Health != cke.HealthReady {
					t.Errorf("%s: %+v", s.Health, s.Problems)
				}
				_ = p.over()
			})
		})
	}
}
