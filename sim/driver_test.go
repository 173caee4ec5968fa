package sim_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cke"
	"cke/op"
	"cke/sabakan/keep"
	"cke/server"
	"cke/server/strategy"
	"cke/sim"
)

const clusterName = "demo"

// probe is the longest time between two looks, as in the daemon.
const probe = 5 * time.Second

// electing is how long a quorum that went is looked for all the time, as in the daemon.
const electing = 5 * time.Second

// stage is one world with daemons that reconcile a cluster in it.
type stage struct {
	*sim.World
	*sim.Scheduler
	t       testing.TB
	drivers []*driver
	// replace is the policy of the specs that declare makes; manual in a new stage.
	replace cke.ReplaceMode
	// target is that of the specs that declare makes; empty: no backups are taken.
	target string
	// tell is called with what a daemon decides and does; nil: silence.
	tell func(format string, args ...any)
	// blind changes what Decide is given, forgetful keeps what is seen of machines called destroyed out of the store: for mutations.
	blind     func(*strategy.Input)
	forgetful bool
	// wrap changes what operations work with: for mutations.
	wrap func(op.Env) op.Env
	// leap lets daemons observe ever more seldom while nothing happens: for stories of weeks.
	leap bool
	wg   sync.WaitGroup
	// agents are those of the machines.
	agents *agents
	// older says whether the next daemon is one of an earlier version; nil: none is.
	older func() bool
	// marks counts the situations that are reached; nil: nobody counts.
	marks *marks
	// heard is the last decision that was looked at.
	heard int
	// stock is the inventory of the machines; nil: there is none.
	stock *stock
}

// play runs a scene in a bubble of virtual time, with a cluster of n declared nodes n1…
func play(t *testing.T, nodes int, scene func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nodes)
		defer s.stop()
		scene(s)
	})
}

func newStage(t testing.TB, nodes int) *stage {
	s := &stage{World: sim.New(clusterName, time.Now), t: t, replace: cke.ReplaceManual, target: fromBackup.Target, agents: newAgents()}
	s.Closed, s.Verify = closed, verified
	s.Scheduler = s.Schedule(&sim.Scheduler{Settle: synctest.Wait})
	for i := 1; i <= nodes; i++ {
		s.AddNode(fmt.Sprintf("n%d", i), fmt.Sprintf("10.0.0.%d", i))
	}
	s.declare(s.Nodes()...)
	return s
}

// declare sets the spec to a cluster of these nodes.
func (s *stage) declare(nodes ...*sim.Node) { s.Store().SetSpec(s.cluster(nodes)) }

func (s *stage) cluster(nodes []*sim.Node) cke.Cluster {
	c := cke.Cluster{Name: clusterName, Backup: cke.Backup{Target: s.target}, Reboot: rebooting, Repair: repairing}
	c.Policies.Replace.Mode = s.replace
	for _, n := range nodes {
		c.Nodes = append(c.Nodes, s.stock.declared(n.Declared()))
	}
	return c
}

func (s *stage) stop() {
	s.agents.end()
	s.End()
	s.wg.Wait()
}

// driver is what the daemon's loop does, one thing after the other.
type driver struct {
	*sim.Daemon
	stage     *stage
	failures  map[string]strategy.Failure
	done      map[string]strategy.Completion
	mu        sync.Mutex
	decision  strategy.Decision
	status    cke.Status
	input     strategy.Input
	rounds    int
	sightings server.Sightings
	keeper    *keep.Keeper  // nil: there is no inventory
	calm      time.Duration // the pause before, while nothing happens
	leads     time.Time     // since when
	// quorate is whether there is a quorum, quorateAt since when.
	quorate   bool
	quorateAt time.Time
}

// daemon starts a daemon.
func (s *stage) daemon() *driver {
	d := &driver{Daemon: s.NewDaemon(), stage: s, failures: map[string]strategy.Failure{}, done: map[string]strategy.Completion{}, leads: time.Now()}
	if s.older != nil && s.older() {
		d.BecomeOlder()
	}
	if len(s.drivers) > 0 {
		d.status = s.Store().Status() // that of the last one, or of the copy that took the store's place
	}
	s.drivers = append(s.drivers, d)
	s.stock.beside(d)
	s.wg.Go(d.run)
	return d
}

// latest is the daemon that leads.
func (s *stage) latest() *driver { return s.drivers[len(s.drivers)-1] }

// told is what people see of the cluster.
func (s *stage) told() cke.Status {
	if len(s.drivers) == 0 { // real loops lead; they store it
		return s.Store().Status()
	}
	_, status := s.latest().now()
	return status
}

func (s *stage) say(format string, args ...any) {
	if s.tell != nil {
		s.tell(format, args...)
	}
}

func (d *driver) run() {
	ctx := d.Context()
	if err := d.Term().InterruptRunning(ctx); err != nil {
		d.stage.say("daemon %d: %v", d.Number(), err)
	}
	for ctx.Err() == nil {
		pause, err := d.round(ctx)
		if err != nil {
			pause = time.Second
		}
		switch {
		case pause > 0 && d.stage.leap:
			d.leap(ctx, pause)
		case pause > 0:
			_ = sleep(ctx, pause)
		}
	}
}

// calmest is the longest pause of a daemon that leaps.
const calmest = 10 * time.Minute

// leap waits as long as the pause before twice over while nothing happens in the world and nothing is under way.
func (d *driver) leap(ctx context.Context, pause time.Duration) {
	if pause < probe || d.calm == 0 {
		d.calm = pause
	} else {
		d.calm = min(2*d.calm, calmest)
	}
	t := time.NewTimer(d.calm)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-d.Observer().Changed():
		d.calm = 0
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// round is one look, one decision and at most one operation.
func (d *driver) round(ctx context.Context) (again time.Duration, err error) {
	defer func() { // the schedule's story is worth more than a stack
		if p := recover(); p != nil {
			d.stage.Violate(fmt.Sprintf("a daemon panics: %v, in %s", p, where(debug.Stack())))
			err = errors.New("fault in cke")
		}
	}()
	d.Rounds()
	spec, err := d.Term().Spec(ctx)
	if err != nil {
		return 0, err
	}
	identity, err := d.Term().Identity(ctx)
	if err != nil {
		return 0, err
	}
	d.Observer().Update(spec.Wanted(), identity, d.before().LastList(identity.Incarnation)...)
	seen := d.Observer().Observe(ctx)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	in := strategy.NewInput(spec, identity, d.Term().Requests(), seen, nil, d.before())
	if err := d.record(ctx, &in); err != nil {
		return 0, err
	}
	in.Failures, in.Completed = d.failures, d.done
	in.LeadsSince = seen.ObservedAt.Add(-time.Since(d.leads)) // as a monotonic clock, whatever happens to that of the host
	of := in
	of.Identity = identity.BackedUp()
	d.Backups().Update(cke.BackupWanted{Spec: spec, Identity: of.Identity, Idle: strategy.NoBackups(&of)})
	in.Backup, in.UnderWay = d.Backups().Status(), d.QueuesSeen()
	if d.keeper != nil {
		in.Inventory = d.keeper.Status()
	}
	if d.stage.blind != nil {
		d.stage.blind(&in)
	}
	dec := strategy.Decide(in)
	if dec.Converged && dec.Operation == nil && dec.Blockers == nil {
		maps.DeleteFunc(d.failures, func(key string, _ strategy.Failure) bool { return !strategy.OfQueued(in, key) })
	}
	d.followsFormer(spec, in)
	d.note(in, dec)
	d.follows(spec, in)
	if dec.Operation != nil {
		d.operate(ctx, dec)
		return 0, nil
	}
	pause := probe
	if dec.Again > 0 {
		pause = min(pause, dec.Again)
	}
	if quorate := seen.Etcd.Quorate; quorate != d.quorate || d.quorateAt.IsZero() {
		d.quorate, d.quorateAt = quorate, time.Now() // as a monotonic clock, whatever happens to that of the host
	}
	if inc := identity.Incarnation; inc != nil && inc.State == cke.Formed && !d.quorate && time.Since(d.quorateAt) < electing {
		pause = min(pause, 100*time.Millisecond)
	}
	return pause, nil
}

// where is the function of cke's that panicked.
func where(stack []byte) string {
	_, after, _ := strings.Cut(string(stack), "\npanic(")
	for line := range strings.Lines(after) {
		if strings.HasPrefix(line, "cke/") {
			function, _, _ := strings.Cut(line, "({")
			return strings.TrimSpace(function)
		}
	}
	return "a place that the stack does not show"
}

func (d *driver) note(in strategy.Input, dec strategy.Decision) {
	d.mu.Lock()
	defer d.mu.Unlock()
	news := dec.Reason != d.decision.Reason || dec.Operation != nil
	d.decision, d.input, d.rounds = dec, in, d.rounds+1
	d.status = strategy.Report(in, dec, d.status)
	d.stage.marks.decision(dec)
	d.stage.marks.beside(in, dec)
	d.Reported(d.status)
	d.Knows(d.status)
	d.stage.Store().Tell(d.status)
	if news {
		d.stage.say("%s", describeDecision(d.Number(), dec))
	}
}

// now is the daemon's last decision and status.
func (d *driver) now() (strategy.Decision, cke.Status) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.decision, d.status
}

// noted is the identity as the daemon had it last, with the starts that the store lacks.
func (d *driver) noted() cke.Identity {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.input.Noted()
}

// count is how many decisions the daemon has made.
func (d *driver) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rounds
}

func (d *driver) operate(ctx context.Context, dec strategy.Decision) {
	e := op.Env{
		Cluster: clusterName, Machines: d.Machines(), Etcd: d.Etcd(), Authority: d.Authority(), Ledger: d.Term(),
		Snapshots: d.Snapshots(), Backups: d.Backups(), Commands: d.Commands(),
		Leader: d.Term().Leader(), Now: d.Now, Pause: sleep, Saw: d.sightings.Keep, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	if d.stage.wrap != nil {
		e = d.stage.wrap(e)
	}
	leader := d.Term().Leader()
	about := cke.Record{Reason: dec.Reason, Task: dec.Task, Host: leader.Host, Term: leader.Term}
	o := dec.Operation
	if _, refuses := o.(op.Refuse); !refuses { // by its type the record says so
		o = told{o}
	}
	rec, err := op.Run(ctx, e, d.Term(), about, o)
	key := strategy.FailureKey(dec.Operation)
	switch rec.State {
	case cke.RecordCompleted:
		delete(d.failures, key)
		strategy.Completed(d.done, dec.Operation, dec.Reason, d.stage.Now())
	case cke.RecordFailed:
		d.failures[key] = d.failures[key].Again(d.Now(), err.Error(), problems(err))
	}
	d.ended(ctx, dec, rec)
	for _, s := range rec.Steps {
		if strings.Contains(s.Error, "fault in cke") {
			d.stage.Violate(fmt.Sprintf("%s, step %s: %s", rec.Operation, s.Name, s.Error))
		}
	}
	for _, line := range describeSteps(rec.Steps) {
		d.stage.say("  %s", line)
	}
	d.stage.say("  → %s", rec.State)
}

// ended takes note of how an operation ended: in the status, and in the store where a person had asked for it.
func (d *driver) ended(ctx context.Context, dec strategy.Decision, rec cke.Record) {
	d.mu.Lock()
	d.status.LastOperation = &cke.OperationStatus{ID: rec.ID, Type: rec.Operation, Targets: rec.Targets, State: rec.State, Time: rec.EndedAt, Task: rec.Task, Refused: rec.Refused}
	d.mu.Unlock()
	if dec.Task != "" && !dec.Part && rec.ID > 0 && rec.State != cke.RecordInterrupted {
		if err := d.Term().FinishTask(ctx, dec.Task); err != nil {
			d.stage.say("daemon %d: %v", d.Number(), err)
		}
	}
}

// describeSteps tells of steps, those of one name that succeeded on several nodes in one line.
func describeSteps(steps []cke.StepRecord) []string {
	var lines []string
	last := ""
	for _, s := range steps {
		switch {
		case s.Error != "":
			lines = append(lines, strings.TrimSpace(s.Name+" "+s.Node)+": "+s.Error)
			last = ""
		case s.Name == last:
			lines[len(lines)-1] += " " + s.Node
		default:
			lines = append(lines, strings.TrimSpace(s.Name+" "+s.Node))
			last = s.Name
		}
	}
	return lines
}

func problems(err error) []cke.Problem {
	var failed op.StageError
	if !errors.As(err, &failed) {
		return []cke.Problem{{Code: cke.CodeOf(err), Message: err.Error()}}
	}
	var all []cke.Problem
	for _, s := range failed {
		all = append(all, cke.Problem{Code: cke.CodeOf(s.Err), Node: s.Node, Message: s.Step + ": " + s.Err.Error(), Remedy: cke.RemedyOf(s.Err)})
	}
	return all
}

// told is an operation whose steps tell the scheduler who calls.
type told struct{ op.Operation }

// Stages implements op.Operation.
func (o told) Stages() []op.Stage {
	return op.Around(o.Operation.Stages(), func(i int, s op.Step) op.Step {
		do := s.Run
		s.Run = func(ctx context.Context, e op.Env) error {
			return do(sim.WithActor(ctx, fmt.Sprintf("%02d %s %s", i, s.Node, s.Name)), e)
		}
		return s
	})
}

func describeDecision(daemon int, dec strategy.Decision) string {
	var b strings.Builder
	what := "nothing"
	if dec.Operation != nil {
		what = dec.Operation.Name() + " " + strings.Join(dec.Operation.Targets(), " ")
	}
	fmt.Fprintf(&b, "daemon %d: %s: %s", daemon, what, dec.Reason)
	for _, p := range dec.Blockers {
		fmt.Fprintf(&b, "\n  %s %s: %s", p.Code, p.Node, p.Message)
		if p.Remedy != "" {
			fmt.Fprintf(&b, " → %s", p.Remedy)
		}
	}
	return b.String()
}

// settled reports whether the leading daemon says that all is as wanted.
func (s *stage) settled() bool {
	d := s.latest()
	dec, _ := d.now()
	return dec.Converged && dec.Operation == nil
}

// mostCalls bounds the calls while the world is awaited: what repeats without a pause takes none of its time.
const mostCalls = 200_000

// until runs the world until done, at most for limit of its time. It reports whether done came true.
func (s *stage) until(limit time.Duration, done func() bool) bool {
	end, last := time.Now().Add(limit), s.Calls()+mostCalls
	ok := false
	s.Run(func() bool {
		ok = done()
		return ok || time.Now().After(end) || s.Calls() > last || len(s.Violations()) > 0
	})
	return ok
}

// pass lets some time of the world pass.
func (s *stage) pass(d time.Duration) { s.until(d, func() bool { return false }) }
