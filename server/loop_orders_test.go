package server_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cke"
	"cke/server/strategy/scenes"
)

// An order that is confirmed for what was stored while the nodes were observed is not refused: the loop had read what was before.
func TestLoop_ReadsAgainWhatAnOrderWasConfirmedFor(t *testing.T) {
	for name, set := range map[string]func(s *scene, o *cke.RestoreOrder){
		"the cluster file": func(s *scene, o *cke.RestoreOrder) { s.Generation++; o.ShownGeneration = s.Generation },
		"the incarnation": func(s *scene, o *cke.RestoreOrder) {
			next := *s.Identity.Incarnation
			next.ID, o.ShownIncarnation = "later", "later"
			s.Identity.Incarnation = &next
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := formed(3)
			for i := range s.Seen.Nodes {
				s.Seen.Nodes[i].Clock = time.Time{} // not known
			}
			onStage(t, s, func(g *stage) {
				p := g.perform()
				g.pass(time.Minute)
				given := false
				g.change(func() {
					g.look = func() {
						g.mu.Lock()
						defer g.mu.Unlock()
						if given {
							return
						}
						given = true
						task := cke.NewTask(cke.TaskRestore, "", "", "ann@boot-1", time.Now())
						task.Restore = &cke.RestoreOrder{Target: "file:///backups", Source: "demo"}
						set(g.scene, task.Restore)
						p.term.requests.Tasks = append(p.term.requests.Tasks, task)
					}
				})
				g.pass(time.Minute)
				g.mu.Lock()
				begun := slices.ContainsFunc(g.records, func(r cke.Record) bool { return r.Operation == "begin-restore" && !r.Refused })
				refused := slices.ContainsFunc(g.records, func(r cke.Record) bool { return r.Refused })
				g.mu.Unlock()
				if !begun || refused {
					t.Errorf("the order was not carried out: %v", g.told())
				}
				_ = p.over()
			})
		})
	}
}

// Whether a restore, or an order for one, waited for long is in the status. While that cannot be read, none is canceled or refused for it.
func TestLoop_EndsNoRestoreBeforeItKnowsWhenItContinued(t *testing.T) {
	long := time.Date(1999, 12, 31, 12, 0, 0, 0, time.UTC)
	task := cke.NewTask(cke.TaskRestore, "", "", "ann@boot-1", long)
	task.Restore = &cke.RestoreOrder{Target: "file:///backups", Source: "demo"}
	for want, ordered := range map[string]bool{"1 cancel-restore": false, "1 restore": true} {
		s := formed(3)
		for i := range s.Seen.Nodes {
			s.Seen.Nodes[i].Clock = time.Time{} // not known
		}
		if !ordered {
			next, err := s.Identity.Restoring(cke.NewRestoration(s.Spec, s.Identity, cke.Restoration{ID: "t0", Order: *task.Restore}, long))
			if err != nil {
				t.Fatal(err)
			}
			s.Identity = next
		}
		onStage(t, s, func(g *stage) {
			g.storeDo = func(_ context.Context, call string) error {
				if call == "status" {
					return errors.New("no answer")
				}
				return nil
			}
			p := g.perform()
			if ordered {
				g.change(func() { p.term.requests.Tasks = append(p.term.requests.Tasks, task) })
			}
			g.pass(time.Minute)
			if told := g.told(); told != nil {
				t.Errorf("history %v", told)
			}
			g.change(func() { g.storeDo = nil })
			g.pass(time.Minute)
			if told := g.told(); len(told) == 0 || !strings.HasPrefix(told[0], want) {
				t.Errorf("history %v", told)
			}
			_ = p.over()
		})
	}
}

// While an operation runs, an order waits, and nodes that it calls destroyed are back for a while. The order is refused once it would be carried
// out, also by another daemon.
func TestLoop_RemembersWhatWasSeenWhileAnOperationRan(t *testing.T) {
	for name, c := range map[string]struct{ another, fails bool }{
		"the same daemon": {}, "another daemon": {another: true}, "it cannot be stored at first": {fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := formed(3).stopped(1)
			for i := range s.Seen.Nodes {
				s.Seen.Nodes[i].Clock = time.Time{} // not known
			}
			there := s.Seen.Nodes[2]
			s.silent(3).lost()
			away := s.Seen.Nodes[2]
			onStage(t, s, func(g *stage) {
				released := make(chan struct{})
				g.do = func(ctx context.Context, call, _ string) error {
					if call != "start" {
						return nil
					}
					select {
					case <-released:
					case <-ctx.Done():
					}
					return ctx.Err()
				}
				var fails atomic.Bool
				fails.Store(c.fails)
				g.storeDo = func(_ context.Context, call string) error {
					if call == "put-sightings" && fails.Load() {
						return errors.New("the store does not answer")
					}
					return nil
				}
				p := g.perform()
				g.pass(5 * time.Second)
				task := cke.NewTask(cke.TaskRestore, "", "", "ann@boot-1", time.Now())
				task.Restore = &cke.RestoreOrder{Target: "file:///backups", Source: "demo", Destroyed: []string{"n3"}}
				g.change(func() {
					p.term.requests.Tasks = append(p.term.requests.Tasks, task)
					g.scene.Seen.Nodes[2] = there
				})
				g.pass(5 * time.Second)
				g.change(func() { g.scene.Seen.Nodes[2] = away })
				g.pass(5 * time.Second)
				if c.another {
					_ = p.over()
					p = g.perform()
					g.change(func() { p.term.requests.Tasks = append(p.term.requests.Tasks, task) })
				}
				close(released)
				if c.fails {
					g.pass(time.Minute)
					fails.Store(false)
				}
				g.pass(time.Minute)
				g.mu.Lock()
				refused := slices.ContainsFunc(g.records, func(r cke.Record) bool { return r.Refused && r.Code == cke.CodeFence })
				begun := slices.ContainsFunc(g.records, func(r cke.Record) bool { return r.Operation == "begin-restore" && !r.Refused })
				g.mu.Unlock()
				if !refused || begun {
					t.Errorf("refused %v, carried out %v: %v", refused, begun, g.told())
				}
				_ = p.over()
			})
		})
	}
}

// While an order to restore waits for records nothing else is done, as it may be confirmed for just that. It is refused after its hour all
// the same, and a stopped member is started then.
func TestLoop_RefusesAnOrderThatWaitsForRecords(t *testing.T) {
	s := formed(3)
	for i := range s.Seen.Nodes {
		s.Seen.Nodes[i].Clock = time.Time{} // not known
	}
	onStage(t, s.with(func(s *scene) { s.Seen.Etcd.Quorate = true }), func(g *stage) {
		p := g.perform()
		g.pass(time.Minute)
		task := cke.NewTask(cke.TaskRestore, "", "", "ann@boot-1", time.Now())
		task.Restore = &cke.RestoreOrder{Target: "file:///backups", Source: "demo"}
		g.change(func() {
			g.storeDo = waitForRecords
			p.term.requests.Undecoded, p.term.requests.Tasks = []string{"drain n9"}, []cke.Task{task}
			scenes.Stop(&g.scene.Input, 1)
		})
		g.pass(30 * time.Minute)
		st := g.status()
		i := slices.IndexFunc(st.Problems, func(p cke.Problem) bool { return p.Code == cke.CodeRecord })
		if i < 0 || len(g.told()) > 0 || st.Ready == 3 {
			t.Fatalf("problems %+v, history %v", st.Problems, g.told())
		}
		if p := st.Problems[i]; !strings.Contains(p.Message, "an order to restore waits") || !strings.Contains(p.Remedy, "ckecli task cancel "+task.ID) {
			t.Errorf("%+v", p)
		}
		g.pass(time.Hour)
		st = g.status()
		if told := g.told(); len(told) < 2 || told[0] != "1 restore failed" || st.Ready != 3 || len(p.term.Requests().Tasks) != 0 {
			t.Errorf("history %v, %d members are ready: %s", told, st.Ready, st.Reason)
		}
		if p := st.Problems; len(p) == 0 || strings.Contains(p[0].Message, "an order to restore waits") {
			t.Errorf("%+v", p)
		}
		_ = p.over()
	})
}

// waitForRecords keeps the records of earlier terms from being closed.
func waitForRecords(_ context.Context, call string) error {
	if call == "interrupt-running" {
		return &cke.Error{Code: cke.CodeRecord, What: "record 7 cannot be decoded", Try: "ckecli task cancel x"}
	}
	return nil
}

// A restore that started no member is canceled also while tasks wait for records: that returns to what was.
func TestLoop_CancelsARestoreWhileTasksWaitForRecords(t *testing.T) {
	s := formed(3)
	next, err := s.Identity.Restoring(cke.NewRestoration(s.Spec, s.Identity, cke.Restoration{ID: "t0", Order: cke.RestoreOrder{Target: "file:///backups", Source: "demo"}}, time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	s.Identity = next
	onStage(t, s, func(g *stage) {
		g.storeDo = waitForRecords
		p := g.perform()
		p.wish(cke.TaskCancelRestore, "")
		g.pass(time.Minute)
		if told := g.told(); !slices.ContainsFunc(told, func(line string) bool { return strings.HasSuffix(line, " cancel-restore completed") }) || len(p.term.Requests().Tasks) != 0 {
			t.Errorf("history %v, %s", told, g.status().Reason)
		}
		_ = p.over()
	})
}
