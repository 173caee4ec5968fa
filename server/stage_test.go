package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cke"
	"cke/op"
	"cke/server"
)

// stage is one cluster with a store and nodes that behave as told, in virtual time. What is seen on it is a scene, which
// operations change.
type stage struct {
	t  *testing.T
	mu sync.Mutex // guards all below

	scene  *scene
	gone   bool // the cluster is no longer in the store
	number int64
	// leading is the present term; what other terms write is refused.
	leading  *stageTerm
	records  []cke.Record
	statuses []cke.Status // every one that was stored, as it was
	looks    []time.Time  // when the cluster was looked at
	glances  int          // of these, how many needed not ask for everything
	calls    []string     // on nodes, as "start n1"
	retries  int
	open     int // connections to nodes that were not closed

	// do is asked before a call on a node has its effect; nil: all succeeds.
	do func(ctx context.Context, call, node string) error
	// storeDo is asked before a call to the store is answered; nil: all succeeds.
	storeDo func(ctx context.Context, call string) error
	// look is asked before each look.
	look func()
	// quiet is what a glance sees; nil: everything.
	quiet *cke.Observation
	// backups are those of the cluster; nil: none are taken.
	backups server.Backups
	// commands run the commands of queues; nil: none is run.
	commands server.CommandRunner
}

// onStage runs a test in virtual time.
func onStage(t *testing.T, s *scene, f func(g *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(&stage{t: t, scene: s}) })
}

// hang waits for the end of ctx.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// change changes something on the stage under its lock.
func (g *stage) change(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
}

// refuses has the store fail calls of this name.
func (g *stage) refuses(name string) {
	g.change(func() {
		g.storeDo = func(_ context.Context, call string) error {
			if call == name {
				return errors.New("no answer")
			}
			return nil
		}
	})
}

// pass lets time pass and everything settle.
func (g *stage) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// status is what was stored last.
func (g *stage) status() cke.Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.statuses) == 0 {
		return cke.Status{}
	}
	return g.statuses[len(g.statuses)-1]
}

// told is the history in a line for each record: "1 start-members completed".
func (g *stage) told() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []string
	for _, r := range g.records {
		all = append(all, fmt.Sprintf("%d %s %s", r.ID, r.Operation, r.State))
	}
	return all
}

func (g *stage) called() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.calls)
}

func (g *stage) looked() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.looks)
}

func (g *stage) stored() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.statuses)
}

// led is the last term; nil before the first.
func (g *stage) led() *stageTerm {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.leading
}

func (g *stage) connections() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open
}

// condition is "Status Reason" of a stored condition.
func condition(s cke.Status, t cke.ConditionType) string {
	c, _ := s.Condition(t)
	return fmt.Sprintf("%s %s", c.Status, c.Reason)
}

// stageTerm is a term of the stage's store.
type stageTerm struct {
	*stage
	cke.Ledger // what operations of these tests do not ask for
	number     int64
	ctx        context.Context
	end        context.CancelCauseFunc
	changed    chan struct{}
	since      time.Time

	resign, resigned bool
	requests         cke.Requests
	heir             string   // the session that it was handed over to
	prefers          []string // the hosts that other daemons know of
}

var _ server.Term = (*stageTerm)(nil)

// elect begins a term; the one before has ended.
func (g *stage) elect() *stageTerm {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.number++
	t := &stageTerm{stage: g, number: g.number, changed: make(chan struct{}, 1), since: time.Now().UTC()}
	t.ctx, t.end = context.WithCancelCause(context.Background())
	if g.leading != nil {
		g.leading.end(cke.ErrDeposed)
	}
	g.leading = t
	return t
}

func (t *stageTerm) Check() error {
	if t.ctx.Err() != nil {
		return cke.ErrDeposed
	}
	return nil
}

func (t *stageTerm) ask(ctx context.Context, call string) error {
	t.mu.Lock()
	do := t.storeDo
	t.mu.Unlock()
	if do != nil {
		if err := do(ctx, call); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// write is a fenced transaction.
func (t *stageTerm) write(ctx context.Context, call string, f func()) error {
	if err := t.ask(ctx, call); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leading != t || t.ctx.Err() != nil || t.gone { // with the cluster goes the leader's key
		return cke.ErrDeposed
	}
	f()
	return nil
}

func (t *stageTerm) Spec(ctx context.Context) (cke.Spec, error) {
	if err := t.ask(ctx, "spec"); err != nil {
		return cke.Spec{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone {
		return cke.Spec{}, cke.ErrNotFound
	}
	s := cke.Spec{Cluster: t.scene.Spec, Generation: t.scene.Generation}
	s.Cluster.Nodes = slices.Clone(s.Cluster.Nodes)
	if t.scene.Deleting {
		s.DeleteRequestedAt = noon
	}
	return s, nil
}

func (t *stageTerm) Identity(ctx context.Context) (cke.Identity, error) {
	var id cke.Identity
	err := t.write(ctx, "identity", func() {
		id = t.scene.Identity
		id.Joins = slices.Clone(id.Joins)
	})
	return id, err
}

func (t *stageTerm) PutFreeze(ctx context.Context, f cke.Freeze) error {
	return t.write(ctx, "put-freeze", func() { t.scene.Identity.Freeze = &f })
}

func (t *stageTerm) PutSightings(ctx context.Context, seen ...cke.Sighting) error {
	return t.write(ctx, "put-sightings", func() { t.scene.Identity.Sighted = append(slices.Clone(t.scene.Identity.Sighted), seen...) })
}

// DropSighting drops nothing: another daemon may know of the order.
func (t *stageTerm) DropSighting(context.Context, cke.Sighting) error { return cke.ErrConflict }

// PutJoins keeps nothing: operations of these tests read none back.
func (t *stageTerm) PutJoins(ctx context.Context, _ cke.Identity, _ ...cke.Join) error {
	return t.write(ctx, "put-joins", func() {})
}

// CancelRestore changes nothing: no test looks at what is before.
func (t *stageTerm) CancelRestore(ctx context.Context, _ cke.Incarnation) error {
	return t.write(ctx, "cancel-restore", func() {})
}

func (t *stageTerm) Deleting(ctx context.Context) (deleting bool, err error) {
	err = t.write(ctx, "deleting", func() { deleting = t.scene.Deleting })
	return deleting, err
}

func (t *stageTerm) Asked(ctx context.Context) (asked cke.Requests, err error) {
	err = t.write(ctx, "asked", func() { asked = t.requests })
	return asked, err
}

func (t *stageTerm) SealDelete(ctx context.Context) error {
	return t.write(ctx, "seal-delete", func() { t.scene.Sealed = true })
}

func (t *stageTerm) FinishDelete(ctx context.Context) error {
	err := t.write(ctx, "finish-delete", func() { t.gone, t.statuses, t.records = true, nil, nil })
	if err == nil {
		t.end(fmt.Errorf("the cluster was deleted: %w", cke.ErrDeposed))
	}
	return err
}

func (t *stageTerm) Status(ctx context.Context) (cke.Status, error) {
	if err := t.ask(ctx, "status"); err != nil {
		return cke.Status{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.statuses) == 0 {
		return cke.Status{}, cke.ErrNotFound
	}
	return t.statuses[len(t.statuses)-1], nil
}

func (t *stageTerm) PutStatus(ctx context.Context, s cke.Status) error {
	return t.write(ctx, "put-status", func() { t.statuses = append(t.statuses, s) })
}

func (t *stageTerm) AppendRecord(ctx context.Context, r cke.Record) (cke.Record, error) {
	err := t.write(ctx, "append-record", func() {
		r.ID = int64(len(t.records) + 1)
		t.records = append(t.records, r)
	})
	return r, err
}

func (t *stageTerm) PutRecord(ctx context.Context, r cke.Record) error {
	return t.write(ctx, "put-record "+string(r.State), func() { t.records[r.ID-1] = r })
}

func (t *stageTerm) InterruptRunning(ctx context.Context) error {
	return t.write(ctx, "interrupt-running", func() {
		for i := range t.records {
			if r := &t.records[i]; r.State == cke.RecordRunning && r.Term < t.number {
				r.State = cke.RecordInterrupted
			}
		}
	})
}

func (t *stageTerm) Context() context.Context { return t.ctx }

func (t *stageTerm) Leader() cke.Leader {
	return cke.Leader{Host: fmt.Sprintf("boot-%d", t.number), Term: t.number, Since: t.since}
}

func (t *stageTerm) Changed() <-chan struct{} { return t.changed }

// wake is what the store does after a change.
func (t *stageTerm) wake() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

func (t *stageTerm) Requests() cke.Requests {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.requests
}

func (t *stageTerm) FinishTask(ctx context.Context, id string) error {
	return t.write(ctx, "finish-task", func() {
		t.requests.Tasks = slices.DeleteFunc(slices.Clone(t.requests.Tasks), func(task cke.Task) bool { return task.ID == id })
	})
}

func (t *stageTerm) ResignRequested() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.resign
}

// askToResign is what a person does.
func (t *stageTerm) askToResign() { t.change(func() { t.resign = true }) }

func (t *stageTerm) Resign(ctx context.Context) error {
	t.end(fmt.Errorf("resigned: %w", cke.ErrDeposed))
	t.change(func() { t.resigned = true })
	return t.ask(ctx, "resign")
}

func (t *stageTerm) HandOver(ctx context.Context, session string) error {
	t.change(func() { t.heir = session })
	return t.Resign(ctx)
}

func (t *stageTerm) Prefer(ctx context.Context, hosts []string) error {
	return t.write(ctx, "prefer", func() { t.prefers = hosts })
}

// performance is a loop that runs on a stage.
type performance struct {
	*stage
	term  *stageTerm
	nodes *stageNodes
	stop  context.CancelFunc // what a signal does
	ended chan struct{}
	err   error
}

// probe is the longest time between two looks, as in the daemon.
const probe = 5 * time.Second

// perform starts a loop in a new term.
func (g *stage) perform() *performance { return g.performEvery(probe) }

func (g *stage) performEvery(probe time.Duration) *performance {
	p := &performance{stage: g, term: g.elect(), nodes: g.connect(), ended: make(chan struct{})}
	ctx, cancel := context.WithCancelCause(context.Background())
	p.stop = func() { cancel(context.Canceled) }
	context.AfterFunc(p.term.ctx, func() { cancel(context.Cause(p.term.ctx)) })
	log := slog.New(slog.NewTextHandler(g.t.Output(), nil))
	loop := &server.Loop{
		Term: p.term, Observer: p.nodes, Probe: probe, Now: time.Now, Log: log,
		Env: op.Env{Cluster: "demo", Machines: p.nodes, Etcd: p.nodes, Ledger: p.term, Now: time.Now, Pause: pause, Log: log},
	}
	if g.commands != nil {
		loop.Commands = server.NewCommands(p.term.ctx, p.nodes, g.commands, p.term.Check, time.Now, log)
	}
	if g.backups != nil {
		loop.Backups, loop.Env.Backups = g.backups, g.backups
	}
	go func() {
		defer close(p.ended)
		p.err = loop.Run(ctx)
		p.nodes.Close()
	}()
	synctest.Wait()
	return p
}

// over ends the loop, if it runs, and returns what it ended with.
func (p *performance) over() error {
	p.stop()
	<-p.ended
	return p.err
}

// runs reports whether the loop has not ended.
func (p *performance) runs() bool {
	synctest.Wait()
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
